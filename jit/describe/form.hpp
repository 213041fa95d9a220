// Forms: what programs say without names and identities, in bytes. Programs of equal form, over
// alike tensors, lower to the same loops. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/program.hpp"

namespace heddle::jit {

/// Bytes that no two different lists of fields share.
class FormWriter {
 public:
  FormWriter& add(std::uint64_t field);
  FormWriter& add_signed(std::int64_t field);
  FormWriter& add_bytes(std::string_view field);
  [[nodiscard]] std::string take() noexcept { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// What a statement says: its expression node by node, as parts are shared, with indices by their
/// place in the iteration space, tensors and static indices by their place below.
struct StatementForm {
  std::string bytes;
  /// That it reads, in the order of execution, then the one that it writes; each once, the merge
  /// tensor left out.
  std::vector<Tensor> tensors;
  std::vector<StaticIndex> statics;
};
/// `node`: its iteration space is known.
[[nodiscard]] StatementForm form_of(const StatementNode& node);

/// What a program says, and what its numbers stand for.
struct ProgramForm {
  std::string bytes;            ///< types of tensors and ranges of static indices included
  std::vector<Tensor> tensors;  ///< Program::tensors()
  std::vector<StaticIndex> statics;
};
[[nodiscard]] ProgramForm form_of(const Program& program);

}  // namespace heddle::jit
