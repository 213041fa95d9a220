// Programs: ordered assignments over tensors, their semantics, and their reads and writes. Values;
// any thread may read a program, one thread at a time may build it.
//
// Order. Statements run one after another: a statement appears to end before the next one begins. A
// statement runs over its iteration space in row-major order, as a C loop nest would: the indices
// of the left side outermost, in order of first appearance; the remaining indices innermost, in
// order of first appearance on the right; every index from 0 up. An iteration reads its operands,
// then writes.
//
// In place. A statement that reads its own target therefore sees the values written by earlier
// iterations. a(i + 1) = a(i) copies the first element to every other; a(i) = a(i + 1) shifts by
// one; P(i, j) = P(i, j) + P(i, j - 1) makes running sums. To read the values from before the
// statement, first copy them to another tensor.
//
// Computed positions. A subscript at(e), or at(e) + i, is located at the value of e, an integer.
//   - Read, x(at(e), k): e is clamped to the nearest position for which the subscript stays inside
//     the axis: 0 for a negative e, the last element for an e beyond it, for any integer type (u64
//     is never negative). With indices, x(at(e) + i), the whole window stays inside: with n values
//     of i, e is clamped to at most extent - n.
//   - Written, y(at(e), k) = ...: if e is not a valid position, the iteration writes nothing; for a
//     window, none of its elements. Writes happen in the order of iterations, whatever the
//     schedule: of several writes to one element the last remains, and y(at(e)) += x adds in order.
//     A schedule never reorders two writes of one element.
//   - The position is computed before the element is read or written. The position must not read
//     the tensor that the statement assigns: assign the tensor to another one first.
//   - An axis without any valid position (extent 0, or shorter than the window) cannot be read: the
//     statement is refused, unless it has no iterations. Writing to the axis does nothing.
//
// Accumulation. t(...) += e adds the terms of an element, in iteration order, to the previous value
// of the element. t(...) = sum(e), and the other reductions, start from the neutral element
// instead: before anything is read, every element that the statement reaches is set to the neutral
// element. If heddle can prove that an element has at most one term, t(...) = sum(e) is the
// assignment t(...) = e. The difference matters if e reads t: a(i) = sum(a(i) + 1) adds 1 to the
// previous value of a, but in r() = sum(r() + x(k)) r starts from 0. heddle proves one term per
// element under two conditions:
//   - Indices that are missing on the left have extent 1.
//   - The subscripts of the left side determine every left index that has more than one value. A
//     subscript determines its indices (ignoring indices that other subscripts determine) if every
//     coefficient exceeds the maximum that the terms with smaller coefficients can reach together:
//     a(i + 3), a(2*i), a(4*i + j) with j below 4, and a(i, i + j), where the first axis determines
//     i. a(i + j) does not determine its indices, and a(at(i)) determines none.
// Each accumulation of a term is computed in the common type of target and term, then converted to
// the target's type. 16-bit floats are accumulated in f32 and rounded once for every point of the
// left side's indices: per (i, j) in y(i + j) += x(i, j, k); once per term if e reads the target.
// An automatic schedule (Schedule) may add terms in another order, if the statement does not read
// its own target; the order then depends on extents, instruction set and cache sizes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/tensor.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// Ordered assignments over tensors, as described by the user. A value: copies share storage, but
/// appending to a copy does not affect the original; a moved-from program is empty and nameless.
class Program {
 public:
  /// `name` may be empty: compiling then needs a name from a comment or an option.
  explicit Program(std::string name = {});

  /// Appends a statement. Throws invalid_argument for subscripts that do not fit their tensor, a
  /// computed position that reads the assigned tensor or has no valid value, an index without an
  /// extent, extents that clash (naming tensors, axes and sizes), an index that is missing on the
  /// left of a plain `=`, and a second merge tensor; the program is then unchanged.
  Program& operator<<(const Statement& statement);
  /// Appends the statements of another program, including comments.
  Program& operator<<(const Program& other);
  /// Appends a comment, which appears in the loop text, and names a nameless program.
  Program& comment(std::string text);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Everything appended, comments included.
  [[nodiscard]] const std::vector<Statement>& statements() const noexcept { return statements_; }
  /// True if the program has no statement and no comment. Compiling refuses an empty program, and a
  /// program of comments only.
  [[nodiscard]] bool empty() const noexcept { return statements_.empty(); }
  /// The tensor read through the merge buffer; nullopt if there is none.
  [[nodiscard]] std::optional<Tensor> merge_tensor() const;
  /// The tensors in order of first appearance, without the merge tensor.
  [[nodiscard]] std::vector<Tensor> tensors() const;
  /// The tensors read before they are assigned, in order of first appearance.
  [[nodiscard]] std::vector<Tensor> reads_before_writing() const;
  /// A copy of the program over other tensors; a replacement must have the type of the replaced
  /// tensor. Throws Error(invalid_argument) for other types, and for a tensor that is replaced
  /// twice.
  [[nodiscard]] Program substitute(
      const std::vector<std::pair<Tensor, Tensor>>& replacements) const;
  /// Index notation, one statement per line. If a statement would be long because it repeats some
  /// of its parts, the parts come first, as "let e0 = ...". Text beyond 64 KiB is cut, with a note.
  [[nodiscard]] std::string to_string() const;

 private:
  std::string name_;
  std::vector<Statement> statements_;
  std::vector<Tensor> merge_;  // at most one
};

}  // namespace heddle
#pragma GCC visibility pop
