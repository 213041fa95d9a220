// exp, sin and similar functions in 64 significant bits or more, and the distance of a result from
// them. Pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "jit/value/ops.hpp"

namespace heddle::jit::testing {

/// Operations that are computed by polynomials, and their greatest distance from the exact value:
/// jit/value/README.md states these bounds.
struct MathBound {
  Op op;
  double f32;
  double f64;
};
inline constexpr MathBound math_bounds[] = {
    {Op::exp, 1.0, 1.0},    {Op::exp2, 1.0, 1.0},  {Op::log, 1.0, 1.0},
    {Op::log2, 1.25, 1.25}, {Op::sin, 1.5, 1.625}, {Op::cos, 1.5, 1.625},
    {Op::tanh, 1.5, 1.5},   {Op::erf, 1.25, 1.25}, {Op::pow, 0.75, 2.0},
};

inline long double math_reference(Op op, long double a, long double b) {
  switch (op) {
    case Op::exp:
      return std::exp(a);
    case Op::exp2:
      return std::exp2(a);
    case Op::log:
      return std::log(a);
    case Op::log2:
      return std::log2(a);
    case Op::sin:
      return std::sin(a);
    case Op::cos:
      return std::cos(a);
    case Op::tanh:
      return std::tanh(a);
    case Op::erf:
      return std::erf(a);
    case Op::pow:
      return std::pow(a, b);
    default:
      throw std::logic_error("no function of this name");
  }
}

///
/// got - exact
/// in units of the last place of T at `exact` (of the smallest subnormal number). 0 where both are
/// NaN or both are the same infinity; infinite where exactly one is NaN, or where a zero has the
/// wrong sign. An infinite `got` counts as the first power of two beyond the range of T.
template <class T>
double units_apart(T got, long double exact) {
  using L = std::numeric_limits<T>;
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : wrong;
  if (got == 0 && std::signbit(got) != std::signbit(exact)) return wrong;
  if (std::isinf(exact)) return static_cast<long double>(got) == exact ? 0 : wrong;
  int exponent = 0;
  std::frexp(exact, &exponent);
  exponent = std::clamp(exponent, L::min_exponent, L::max_exponent);
  const long double end = std::copysign(std::ldexp(1.0L, L::max_exponent), exact);
  const long double value = std::isinf(got) ? end : static_cast<long double>(got);
  if (std::isinf(got) && std::signbit(got) != std::signbit(exact)) return wrong;
  // Beyond the last number, any infinite result is correct.
  if (std::isinf(got) && std::fabs(exact) >= std::fabs(end)) return 0;
  return static_cast<double>(std::ldexp(std::fabs(value - exact), L::digits - exponent));
}

}  // namespace heddle::jit::testing
