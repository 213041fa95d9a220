// Forms: the content of programs without names and identities, as bytes. Programs of equal form,
// over tensors of equal types, lower to the same loops. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/program.hpp"

namespace heddle::jit {

/// Encodes fields as bytes; different lists of fields have different bytes.
class FormWriter {
 public:
  FormWriter& add(std::uint64_t field);
  FormWriter& add_signed(std::int64_t field);
  FormWriter& add_bytes(std::string_view field);
  [[nodiscard]] std::string take() noexcept { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// The content of a statement: its expression node by node (shared nodes once), with indices by
/// their place in the iteration space, and tensors and static indices by their place in the lists
/// below.
struct StatementForm {
  std::string bytes;
  /// The tensors that the statement reads, in the order of execution, then the written tensor; each
  /// once, without the merge tensor.
  std::vector<Tensor> tensors;
  std::vector<StaticIndex> statics;
};
/// Requires that `node.space` is set.
[[nodiscard]] StatementForm form_of(const StatementNode& node);

/// The content of a program, and the objects behind its numbers.
struct ProgramForm {
  std::string bytes;            ///< includes the types of tensors and the ranges of static indices
  std::vector<Tensor> tensors;  ///< Program::tensors()
  std::vector<StaticIndex> statics;
};
[[nodiscard]] ProgramForm form_of(const Program& program);

}  // namespace heddle::jit
