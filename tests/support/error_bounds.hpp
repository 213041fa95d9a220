// Error bounds of results where sums are taken in another order: each value carries a bound of its
// distance from the result of any order. After the running error analysis of N. Higham, "Accuracy
// and Stability of Numerical Algorithms" (SIAM, 2002), chapters 3 and 4, with a safety margin.
// Pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "jit/value/ops.hpp"

namespace heddle::jit::testing {

/// A value, and its greatest distance from the values of other orders: 0 where the bits are equal,
/// infinite where the distance is unknown.
struct Bounded {
  Scalar value;
  double error = 0;
};

inline constexpr double unknown_error = std::numeric_limits<double>::infinity();

/// The rounding error in `t` of a number of the given size; infinite where the number may overflow
/// the type.
inline double rounding_error(DType t, double size) {
  switch (t) {
    case DType::f16:
      return size > 0x1p14 ? unknown_error : size * 0x1p-10 + 0x1p-24;
    case DType::bf16:
      return size > 0x1p125 ? unknown_error : size * 0x1p-7 + 0x1p-133;
    case DType::f32:
      return size > 0x1p125 ? unknown_error : size * 0x1p-23 + 0x1p-149;
    default:
      return size > 0x1p1020 ? unknown_error
                             : size * 0x1p-52 + std::numeric_limits<double>::denorm_min();
  }
}

/// The error of `op` on these operands, which gave `result`.
inline double error_after(Op op, const Scalar& result, std::span<const Bounded> args) {
  const auto error = [&](std::size_t k) { return args[k].error; };
  const auto size = [&](std::size_t k) { return std::fabs(args[k].value.f); };
  if (std::ranges::all_of(args, [](const Bounded& arg) { return arg.error == 0; })) return 0;
  // Operations where only one operand counts.
  if (op == Op::where && error(0) == 0) return error(args[0].value.i != 0 ? 1 : 2);
  if (op == Op::arg1 || op == Op::arg2) return error(op == Op::arg1 ? 0 : 1);
  const bool known = std::ranges::all_of(args, [](const Bounded& arg) {
    return arg.error != unknown_error && is_floating(arg.value.dtype) && std::isfinite(arg.value.f);
  });
  if (!known) return unknown_error;
  const auto product = [&](double a, double ea, double b, double eb) {
    return a * eb + b * ea + ea * eb;
  };
  const auto quotient = [&](double a, double ea, double b, double eb) {
    return b > 2 * eb ? (ea + a / b * eb) / (b - eb) : unknown_error;
  };
  const auto rounded = [&](double moved) {
    return moved + rounding_error(result.dtype, std::fabs(result.f) + moved);
  };
  switch (op) {
    case Op::identity:
    case Op::neg:
    case Op::abs:
    case Op::relu:
    case Op::satur01:
      return error(0);
    case Op::max:
    case Op::min:
      return std::max(error(0), error(1));
    case Op::add:
    case Op::sub:
      return rounded(error(0) + error(1));
    case Op::mul:
      return rounded(product(size(0), error(0), size(1), error(1)));
    case Op::fma:
      return rounded(product(size(0), error(0), size(1), error(1)) + error(2));
    case Op::div:
      return rounded(quotient(size(0), error(0), size(1), error(1)));
    case Op::recip:
      return rounded(quotient(1, 0, size(0), error(0)));
    case Op::relu_gate:
      return size(0) > error(0) ? (args[0].value.f > 0 ? error(1) : 0) : size(1) + error(1);
    case Op::lt:
    case Op::le:
    case Op::eq:
    case Op::ne:
      return std::fabs(args[0].value.f - args[1].value.f) > error(0) + error(1) ? 0 : unknown_error;
    default:
      return unknown_error;
  }
}

/// The error of a conversion of `from`, which gave `result`.
inline double error_after_cast(const Scalar& result, const Bounded& from) {
  if (from.error == 0) return 0;
  if (!is_floating(from.value.dtype) || !std::isfinite(from.value.f)) return unknown_error;
  if (is_floating(result.dtype)) {
    const bool wider = size_of(result.dtype) > size_of(from.value.dtype);
    if (wider) return from.error;
    return from.error + rounding_error(result.dtype, std::fabs(result.f) + from.error);
  }
  if (result.dtype == DType::bool_) return std::fabs(from.value.f) > from.error ? 0 : unknown_error;
  const bool same = std::fabs(from.value.f) < 0x1p30 &&
                    std::trunc(from.value.f - from.error) == std::trunc(from.value.f + from.error);
  return same ? 0 : unknown_error;
}

/// A scalar that loops add to, multiply, or compare with: x = op(x, term) in any order of terms,
/// where products and their sums are rounded once or twice.
class Accumulated {
 public:
  void set(const Bounded& start) {
    op_.reset();
    error_ = start.error;
    size_ = std::fabs(start.value.f);
  }

  /// The error bound after a step, which gave `sum`.
  double step(Op op, const Scalar& sum, const Bounded& before, const Bounded& term) {
    if (!is_floating(sum.dtype)) return before.error == 0 && term.error == 0 ? 0 : unknown_error;
    if (op_ != op) {
      set(before);
      op_ = op;
      terms_ = 0;
    }
    ++terms_;
    if (!std::isfinite(term.value.f) || !std::isfinite(sum.f)) error_ = unknown_error;
    if (op == Op::max || op == Op::min) {
      // The order determines the sign of a zero result.
      error_ = std::max(error_, term.error);
      return sum.f == 0 ? std::max(error_, std::numeric_limits<double>::denorm_min()) : error_;
    }
    if (op == Op::mul) return multiply(sum, before, term);
    error_ += term.error;
    size_ += std::fabs(term.value.f);
    return error_ + 2 * terms_ * rounding_error(sum.dtype, size_);
  }

 private:
  double multiply(const Scalar& product, const Bounded& before, const Bounded& term) {
    if (terms_ == 1) {
      relative_ = 0;
      highest_ = lowest_ = 1;
      take_factor(before);
    }
    take_factor(term);
    // Partial products may overflow the type in one order alone.
    const double limit = product.dtype == DType::f64 ? 0x1p1000 : 0x1p120;
    if (highest_ > limit || lowest_ < 1 / limit) error_ = unknown_error;
    if (error_ == unknown_error) return error_;
    return std::fabs(product.f) *
           (2 * relative_ + 2 * (terms_ + 1) * rounding_error(product.dtype, 1));
  }

  void take_factor(const Bounded& factor) {
    const double size = std::fabs(factor.value.f);
    if (size > 0) {
      highest_ *= std::max(size, 1.0);
      lowest_ *= std::min(size, 1.0);
      relative_ += factor.error / size;
    }
    if (factor.error > 0 && 8 * factor.error > size) error_ = unknown_error;
  }

  std::optional<Op> op_;
  double error_ = 0;  ///< of the start value and the terms
  double size_ = 0;   ///< magnitudes of start value and terms, added
  /// of the factors: error, product of factors above 1, product of factors below 1
  double relative_ = 0, highest_ = 1, lowest_ = 1;
  double terms_ = 0;
};

}  // namespace heddle::jit::testing
