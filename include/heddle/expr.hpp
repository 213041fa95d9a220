// Index notation without tensors: indices, affine subscripts, element expressions, and the meaning
// of every operation for every dtype. Cheap shared handles on immutable state: any thread may
// build, copy and read them. A move copies the handle, so no handle is ever empty.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "heddle/types.hpp"

namespace heddle::jit {
struct ExprNode;
}  // namespace heddle::jit

#pragma GCC visibility push(default)
namespace heddle {

/// An iteration index of statements: runs over 0, 1, ... below its extent. An axis whose subscript
/// is the index alone, t(i), fixes the extent to the size of the axis; several such axes must have
/// equal sizes. If the extent is given here, the axes may be longer.
class Index {
 public:
  Index();
  /// An index over `extent` values. Needed if the index is nowhere a subscript alone, or runs over
  /// a part of an axis. Throws invalid_argument for a negative extent.
  template <Integer T>
  explicit Index(T extent) : Index(std::string(), Extent(extent).value) {}
  explicit Index(std::string label, std::optional<std::int64_t> extent = {});
  Index(const Index&) = default;
  Index& operator=(const Index&) = default;
  [[nodiscard]] std::uint64_t id() const noexcept { return state_->id; }
  [[nodiscard]] const std::string& label() const noexcept { return state_->label; }
  [[nodiscard]] std::optional<std::int64_t> extent() const noexcept { return state_->extent; }

 private:
  struct State {
    std::uint64_t id;
    std::string label;
    std::optional<std::int64_t> extent;
  };
  std::shared_ptr<const State> state_;
};

/// An index whose value the caller gives in each call of schedule(): routine.schedule({{step, 3}}).
class StaticIndex {
 public:
  /// Valid values v are 0 <= v < range; every subscript must stay inside its axis for every valid
  /// value, or describing the program throws. Without a range, a value is valid if every subscript
  /// with the index stays inside its axis. Values are checked when a routine is scheduled.
  explicit StaticIndex(std::string label, std::optional<std::int64_t> range = {});
  StaticIndex(const StaticIndex&) = default;
  StaticIndex& operator=(const StaticIndex&) = default;
  [[nodiscard]] std::uint64_t id() const noexcept { return state_->id; }
  [[nodiscard]] const std::string& label() const noexcept { return state_->label; }
  [[nodiscard]] std::optional<std::int64_t> range() const noexcept { return state_->range; }
  friend bool operator==(const StaticIndex& a, const StaticIndex& b) noexcept {
    return a.state_ == b.state_;
  }

 private:
  struct State {
    std::uint64_t id;
    std::string label;
    std::optional<std::int64_t> range;
  };
  std::shared_ptr<const State> state_;
};

/// Integers, and enumerators of enumerations that convert implicitly.
template <class T>
concept IntegerOrName = Integer<T> || (std::is_enum_v<T> && std::is_convertible_v<T, std::int64_t>);
template <IntegerOrName T>
[[nodiscard]] constexpr bool fits_i64(T number) noexcept {
  if constexpr (Integer<T>) return std::in_range<std::int64_t>(number);
  return true;  // enumerators are small
}

/// An affine subscript: constant + sum of coefficient * index, such as 2*i + k - 1. An index times
/// 0 is dropped: without other uses, the index has no loop. Numbers may have any integer type.
/// Using a subscript with a number that does not fit 64 bits throws an error that names tensor and
/// axis. A computed position may be added, see at().
class Subscript {
 public:
  struct Term {
    std::variant<Index, StaticIndex> index;
    std::int64_t coefficient;
  };
  Subscript(const Index& index);        // NOLINT: implicit by design, t(i)
  Subscript(const StaticIndex& index);  // NOLINT
  template <IntegerOrName T>
  Subscript(T constant)  // NOLINT
      : constant_(static_cast<std::int64_t>(constant)) {
    if (!fits_i64(constant)) overflow_ = std::to_string(constant);
  }
  [[nodiscard]] std::int64_t constant() const noexcept { return constant_; }
  [[nodiscard]] const std::vector<Term>& terms() const noexcept { return terms_; }
  /// True if the subscript contains at(); then it is not affine in indices.
  [[nodiscard]] bool is_computed() const noexcept { return position_ != nullptr; }
  /// The part whose numbers do not fit 64 bits, as text; empty if every number fits.
  [[nodiscard]] const std::string& overflow() const noexcept { return overflow_; }

  /// a + factor * b. Throws invalid_argument for a computed position times a factor, and for the
  /// sum of two computed positions.
  [[nodiscard]] static Subscript combine(const Subscript& a, std::int64_t factor,
                                         const Subscript& b);

 private:
  friend struct Inside;
  std::int64_t constant_ = 0;
  std::vector<Term> terms_;
  std::shared_ptr<const jit::ExprNode> position_;  // null: none
  std::string overflow_;
};
[[nodiscard]] inline Subscript operator+(const Subscript& a, const Subscript& b) {
  return Subscript::combine(a, 1, b);
}
[[nodiscard]] inline Subscript operator-(const Subscript& a, const Subscript& b) {
  return Subscript::combine(a, -1, b);
}
template <IntegerOrName T>
[[nodiscard]] Subscript operator*(T factor, const Subscript& a) {
  if (!fits_i64(factor)) return Subscript(factor);  // reports the overflow
  return Subscript::combine(0, static_cast<std::int64_t>(factor), a);
}
template <IntegerOrName T>
[[nodiscard]] Subscript operator*(const Subscript& a, T factor) {
  return factor * a;
}

/// The C++ types of literals in expressions.
template <class T>
concept Number =
    IntegerOrName<T> || std::same_as<T, bool> || std::same_as<T, float> || std::same_as<T, double>;

/// A value at one point of the iteration space: an immutable expression. Expressions share
/// subexpressions: repeating e = e * e thirty times makes thirty operations, in every stage of
/// heddle.
///
/// Bounds: an expression nests at most 1000 operations deep; beyond, operators throw
/// invalid_argument, and storing a part in a tensor helps. Tensors that a program recomputes where
/// it reads them (MemoryMode::virtual_) may grow the program to 20,000 statements; beyond, the
/// tensors are stored, or compiling throws invalid_argument if the mode was requested.
class Expr {
 public:
  /// A literal. A literal takes the type of the other operand, or of the tensor that is assigned or
  /// accumulated to. An integer that does not fit the type is invalid_argument. A fraction is
  /// converted to a tensor's type as by cast(), and makes integer operands f32. Among literals
  /// only, the type is i64 (u64 from 2^63 on), bool or f64, and an expression of literals only is a
  /// literal, too: (1.0 / 3.0) + x(i) is f32 if x holds integers.
  template <Number T>
  Expr(T constant) : state_(literal(constant)) {}  // NOLINT: x(i) * 2
  template <class T>
  Expr(T*) {  // NOLINT: exists to be refused
    static_assert(!std::same_as<T, T>,
                  "heddle: a pointer is no value of an element (and would count as true). Write "
                  "the number it points to, *p, or read a tensor, t(i).");
  }
  Expr(std::nullptr_t) = delete;
  Expr(const Expr&) = default;
  Expr& operator=(const Expr&) = default;

 private:
  friend struct Inside;
  using Node = std::shared_ptr<const jit::ExprNode>;
  explicit Expr(Node node) noexcept : state_(std::move(node)) {}
  template <Number T>
  static Node literal(T constant) {
    if constexpr (std::same_as<T, bool>) return bool_literal(constant);
    if constexpr (std::floating_point<T>) return float_literal(constant);
    if constexpr (std::unsigned_integral<T>) return unsigned_literal(constant);
    return signed_literal(static_cast<std::int64_t>(constant));
  }
  static Node bool_literal(bool constant);
  static Node float_literal(double constant);
  static Node float_literal(float constant);
  static Node signed_literal(std::int64_t constant);
  static Node unsigned_literal(std::uint64_t constant);

  Node state_;
};

/// A reduction over the indices that are missing on the left: c(i) = sum(a(i, k)).
class [[nodiscard]] Reduction {
 public:
  enum class Kind : std::uint8_t { sum, product, maximum, minimum, all, any };
  Reduction(Kind kind, Expr value) : kind_(kind), value_(std::move(value)) {}
  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] const Expr& value() const noexcept { return value_; }

 private:
  Kind kind_;
  Expr value_;
};
// A target that is assigned a Reduction starts from the neutral element (0, 1, the lowest, the
// highest, true, false). Its previous value does not matter, unless `e` reads the target and an
// element has one term (heddle/program.hpp, Accumulation). If the largest or smallest values of a
// float row are zeros of both signs, the schedule decides which zero results, the same on every
// run.
inline Reduction sum(Expr e) { return {Reduction::Kind::sum, std::move(e)}; }
inline Reduction product(Expr e) { return {Reduction::Kind::product, std::move(e)}; }
inline Reduction maximum(Expr e) { return {Reduction::Kind::maximum, std::move(e)}; }
inline Reduction minimum(Expr e) { return {Reduction::Kind::minimum, std::move(e)}; }
inline Reduction all(Expr e) { return {Reduction::Kind::all, std::move(e)}; }
inline Reduction any(Expr e) { return {Reduction::Kind::any, std::move(e)}; }

// Operations on elements.
//
// Types: operands of different types are converted to their common type. Two integers have the
// smallest type that represents the values of either; bool gives way to any other type; an integer
// and a floating type have the floating type; f16 and bf16 have f32. u64 and a signed type have no
// common type: the operation throws invalid_argument, which names the operands and their types;
// cast one operand. f16 and bf16 are storage types: operations convert them to f32, and return f32.
//
// Values: integers wrap. bool counts as i32 in arithmetic. Floating operations follow IEEE 754,
// rounded to nearest even, except operations marked ~, which have the stated error in units in the
// last place, whatever rounding and flushing modes the host's threads use. The choice among NaN
// values is unspecified.

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
/// Integers truncate; x / 0 is 0, and the lowest / -1 is the lowest. Floats: x / 0 is an infinity
/// or NaN.
Expr operator/(const Expr& a, const Expr& b);
/// The remainder has the sign of `a`, as C's % and fmod. x % 0 is 0 for integers, NaN for floats.
Expr operator%(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);  ///< unsigned integers wrap too
// Logic: an operand is true if it is not 0 (NaN is true); the result is bool.
Expr operator!(const Expr& a);
Expr operator&&(const Expr& a, const Expr& b);
Expr operator||(const Expr& a, const Expr& b);
// Comparisons: the result is bool. With a NaN, != is true, other comparisons are false.
Expr operator<(const Expr& a, const Expr& b);
Expr operator<=(const Expr& a, const Expr& b);
Expr operator>(const Expr& a, const Expr& b);
Expr operator>=(const Expr& a, const Expr& b);
Expr operator==(const Expr& a, const Expr& b);
Expr operator!=(const Expr& a, const Expr& b);
/// Integers wrap; x to a negative power is 1 for x = 1, 1 or -1 for x = -1, else 0. Floats: ~ 0.75
/// units in f32, 2 in f64.
Expr pow(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);           ///< NaN if either is; b if a == b
Expr min(const Expr& a, const Expr& b);           ///< NaN if either is; b if a == b
Expr relu_gate(const Expr& a, const Expr& b);     ///< a > 0 ? b : 0
Expr satur01_gate(const Expr& a, const Expr& b);  ///< 0 < a && a < 1 ? b : 0
Expr arg1(const Expr& a, const Expr& b);          ///< a, in the common type
Expr arg2(const Expr& a, const Expr& b);          ///< b, in the common type
Expr identity(const Expr& x);
Expr relu(const Expr& x);     ///< x < 0 ? 0 : x; keeps NaN and -0
Expr satur01(const Expr& x);  ///< clamped to [0, 1]; keeps NaN and -0
Expr abs(const Expr& x);      ///< unchanged for the lowest integer
Expr trunc(const Expr& x);    ///< toward zero; integers unchanged, as in floor, ceil
Expr floor(const Expr& x);
Expr ceil(const Expr& x);
// The following functions convert integers and bool to f32, and return f32.
Expr exp(const Expr& x);    ///< ~ 1 unit
Expr log(const Expr& x);    ///< ~ 1 unit
Expr exp2(const Expr& x);   ///< ~ 1 unit
Expr log2(const Expr& x);   ///< ~ 1.25 units
Expr sin(const Expr& x);    ///< ~ 1.5 units, for any x (f64: 1.625)
Expr cos(const Expr& x);    ///< ~ 1.5 units, for any x (f64: 1.625)
Expr tanh(const Expr& x);   ///< ~ 1.5 units
Expr erf(const Expr& x);    ///< ~ 1.25 units
Expr sqrt(const Expr& x);   ///< correctly rounded
Expr recip(const Expr& x);  ///< 1 / x
Expr rsqrt(const Expr& x);  ///< 1 / sqrt(x), each step rounded
/// a where the condition is true, else b, in the common type of a and b.
Expr where(const Expr& condition, const Expr& a, const Expr& b);
Expr fma(const Expr& a, const Expr& b, const Expr& c);   ///< a * b + c; floats rounded once
Expr mul3(const Expr& a, const Expr& b, const Expr& c);  ///< (a * b) * c
/// 64 random bits for (key, counter), integers taken as u64: Threefry-2x32-20 (Salmon et al., SC
/// 2011).
Expr threefry(const Expr& key, const Expr& counter);
Expr threefry_light(const Expr& key, const Expr& counter);  ///< 12 rounds: faster, weaker
/// A f32 in [0, 1) from 64 random bits: the upper 24 bits, times 2^-24. Integers of other types are
/// first converted by cast(bits, u64): small values have no upper bits, and give 0.
Expr uniform(const Expr& bits);
/// Converts. Floats to integers truncate and saturate, NaN gives 0; integers to smaller integers
/// wrap; a conversion to bool is x != 0; f16 and bf16 are rounded from f32. Throws invalid_argument
/// for a number that is no DType.
Expr cast(const Expr& x, DType to);
/// Reinterprets the bits as another type of the same size. Any NaN gives the bits of the positive
/// quiet NaN without a payload. Throws invalid_argument for types of different sizes, and for
/// conversion of other types to bool.
Expr bitcast(const Expr& x, DType to);
/// The value of an index expression, as i64; wraps.
Expr embed(const Subscript& index);

/// A subscript at a position that is computed from data: x(at(rows(i)), k) is element k of row
/// rows(i). The position is any expression of an integer type; indices and numbers may be added,
/// at(start()) + i. Indices inside the position count as indices of the side of the statement where
/// at() stands. Read, a position outside the axis is clamped to the nearest one inside; on the left
/// side of a statement, it skips the iteration (heddle/program.hpp, Computed positions). Throws
/// invalid_argument for values that are not integers.
[[nodiscard]] Subscript at(const Expr& position);

}  // namespace heddle
#pragma GCC visibility pop
