// Wishes: what users asked of tensors, as values. A compile takes them once, when it begins: what
// is asked for later concerns later compiles. Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/program.hpp"

namespace heddle::jit {

struct Wish {
  MemoryMode mode = MemoryMode::unset;
  std::string where;              ///< "file:line" of the request; empty while unset
  std::optional<HostArray> host;  ///< shares the storage: its values are read at link
};

/// All of it as it was at one moment.
[[nodiscard]] Wish wish_of(const Tensor& tensor);
/// One for each of Program::tensors(), in that order.
[[nodiscard]] std::vector<Wish> wishes_of(const Program& program);

}  // namespace heddle::jit
