// Programs: ordered assignments over tensors, what they mean, and what they read and write. Values;
// any thread may read one, one thread at a time builds it.
//
// Order. Statements run one after another, each as if it had ended before the next begins. A
// statement runs over its iteration space in row-major order, as the nest of loops in C would: the
// indices of the left side outermost, in order of their first appearance there; the others
// innermost, in order of their first appearance on the right; each from 0 up. Per element it reads
// what it reads, then writes.
//
// In place. A statement that reads what it writes therefore sees what its own earlier iterations
// wrote. a(i + 1) = a(i) spreads the first element to all; a(i) = a(i + 1) shifts by one; P(i, j) =
// P(i, j) + P(i, j - 1) makes running sums. For the values before the statement, read a copy:
// assign it to another tensor first.
//
// Accumulation. t(...) += e adds the terms of an element one by one, in that order, to what the
// element held: each step in the common type of both, then in the target's; 16-bit floats are kept
// in f32 and rounded once per element (once per term where e reads the target, or several elements
// of the left side's space meet in one). t(...) = sum(e) and the like set every element that they
// reach to the neutral element before anything is read; with one term per element they are plain
// assignments. An automatic schedule (Schedule) may add up the terms in another order where the
// statement does not read what it writes; which one depends on extents, instruction set and cache
// sizes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/tensor.hpp"

namespace heddle {

/// Ordered assignments over tensors: what the user describes. A value: copies share, later appends
/// to one copy do not show in another; one that was moved from is empty and nameless.
class Program {
 public:
  /// `name` may be empty: compile then needs one from a comment or an option.
  explicit Program(std::string name = {});

  /// Appends. Throws invalid_argument on subscripts that do not fit their tensor, on an index
  /// without an extent, on extents that clash (naming tensors, axes and sizes), on an unreduced
  /// index under `=`, on a second merge tensor; the program is then as it was.
  Program& operator<<(const Statement& statement);
  /// Appends all statements of another program (its comments too).
  Program& operator<<(const Program& other);
  /// A comment: shows in the loop text, and names a nameless program.
  Program& comment(std::string text);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::vector<Statement>& statements() const noexcept { return statements_; }
  /// Nothing was appended. Compiling refuses such a program, and one of comments alone.
  [[nodiscard]] bool empty() const noexcept { return statements_.empty(); }
  /// The tensor read through the merge buffer; nullopt when none.
  [[nodiscard]] std::optional<Tensor> merge_tensor() const;
  /// Tensors in order of first appearance, the merge tensor left out.
  [[nodiscard]] std::vector<Tensor> tensors() const;
  /// Tensors read before they are assigned, in order of first appearance.
  [[nodiscard]] std::vector<Tensor> reads_before_writing() const;
  /// The same program over other tensors; each replacement must have the type of what it replaces.
  [[nodiscard]] Program substitute(
      const std::vector<std::pair<Tensor, Tensor>>& replacements) const;
  /// Index notation, one statement a line. Where a statement would be long because it uses some of
  /// its parts many times over, these come first, as "let e0 = ...". Text beyond 64 KiB is cut,
  /// and says so.
  [[nodiscard]] std::string to_string() const;

 private:
  std::string name_;
  std::vector<Statement> statements_;
  std::vector<Tensor> merge_;  // at most one
};

}  // namespace heddle
