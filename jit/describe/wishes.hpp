// Wishes: the users' requests on tensors (memory mode, host array), as values. A compile takes a
// copy when it begins; later requests affect later compiles. Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/program.hpp"

namespace heddle::jit {

struct Wish {
  MemoryMode mode = MemoryMode::unset;
  std::string where;              ///< "file:line" of the request; empty while unset
  std::optional<HostArray> host;  ///< shares the storage: the values are read at link
};

/// A consistent snapshot of the requests on `tensor`.
[[nodiscard]] Wish wish_of(const Tensor& tensor);
/// One wish for each of Program::tensors(), in order.
[[nodiscard]] std::vector<Wish> wishes_of(const Program& program);

}  // namespace heddle::jit
