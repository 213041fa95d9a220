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
// Computed positions. A subscript at(e), at(e) + i, is where the value of e says, an integer.
//   - Read, x(at(e), k): e counts as the nearest position for which the subscript stays inside its
//     axis. That is 0 for a negative e, and the last element for an e beyond it, of any integer
//     type; u64 is never negative. With indices beside it, x(at(e) + i), the whole window that they
//     run over stays inside: with n values of i, e counts as extent - n at most.
//   - Written, y(at(e), k) = ...: where e is not such a position, the iteration does nothing: of a
//     window, all of its elements. What is written happens in the order of iterations, whatever the
//     schedule: of several that write one element the last one stays, and y(at(e)) += x adds them
//     in order. A schedule changes the order of no two writes of one element.
//   - The position is computed before the element is read or written. It may not read what the
//     statement assigns: assign it to another tensor first.
//   - An axis in which no position fits, one of extent 0 or shorter than the window, cannot be read
//     so: the statement is refused, unless it runs over nothing. Writing there does nothing.
//
// Accumulation. t(...) += e adds the terms of an element one by one, in that order, to what the
// element held. t(...) = sum(e) and the like start from the neutral element instead: all elements
// that the statement reaches are set to it before anything is read. Where heddle sees that no
// element has more than one term, t(...) = sum(e) is the assignment t(...) = e. The difference
// shows where e reads t: a(i) = sum(a(i) + 1) adds 1 to what a held, but in r() = sum(r() + x(k)) r
// starts from 0. heddle sees one term per element where both hold:
//   - Indices that are missing on the left have extent 1.
//   - The left side's other indices of more than one value can be told from its subscripts. A
//     subscript tells its indices (those that others tell left aside) where each coefficient
//     exceeds all that the smaller ones reach together: a(i + 3), a(2*i), a(4*i + j) with j below
//     4, and a(i, i + j), where the first axis tells i. It does not in a(i + j), and a(at(i)) tells
//     nothing.
// Each step is taken in the common type of target and term, then converted to the target's. 16-bit
// floats are kept in f32, and rounded once for each point of the left side's indices: per (i, j) in
// y(i + j) += x(i, j, k); once per term where e reads the target. An automatic schedule (Schedule)
// may add up the terms in another order where the statement does not read what it writes; which one
// depends on extents, instruction set and cache sizes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/tensor.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// Ordered assignments over tensors: what the user describes. A value: copies share, later appends
/// to one copy do not show in another; one that was moved from is empty and nameless.
class Program {
 public:
  /// `name` may be empty: compile then needs one from a comment or an option.
  explicit Program(std::string name = {});

  /// Appends a statement. Throws invalid_argument for subscripts that do not fit their tensor, a
  /// computed position that reads what the statement assigns or that fits nowhere, an
  /// index without an extent, extents that clash (naming tensors, axes and sizes), an index that
  /// `=` does not reduce, and a second merge tensor; the program is then as it was.
  Program& operator<<(const Statement& statement);
  /// Appends all statements of another program (its comments too).
  Program& operator<<(const Program& other);
  /// A comment: shows in the loop text, and names a nameless program.
  Program& comment(std::string text);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// All that was appended, comments included.
  [[nodiscard]] const std::vector<Statement>& statements() const noexcept { return statements_; }
  /// Whether nothing was appended. Compiling refuses such a program, and one of comments alone.
  [[nodiscard]] bool empty() const noexcept { return statements_.empty(); }
  /// The tensor read through the merge buffer; nullopt when none.
  [[nodiscard]] std::optional<Tensor> merge_tensor() const;
  /// Tensors in order of first appearance, the merge tensor left out.
  [[nodiscard]] std::vector<Tensor> tensors() const;
  /// Tensors read before they are assigned, in order of first appearance.
  [[nodiscard]] std::vector<Tensor> reads_before_writing() const;
  /// The same program over other tensors; each replacement must have the type of what it replaces.
  /// Throws Error(invalid_argument) for other types, and for a tensor that is to be replaced twice.
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
#pragma GCC visibility pop
