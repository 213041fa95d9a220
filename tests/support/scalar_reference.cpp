// See scalar_reference.hpp.
#include "scalar_reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "cast_reference.hpp"
#include "compute_types.hpp"
#include "jit/value/primitive_eval.hpp"
#include "math_reference.hpp"
#include "op_reference.hpp"

namespace heddle::jit::testing {
namespace {

template <class T>
T value_of(const Scalar& scalar) {
  return is_floating(scalar.dtype) ? static_cast<T>(scalar.f) : static_cast<T>(scalar.i);
}

template <class T>
Scalar scalar_of(DType t, T value) {
  if constexpr (std::is_floating_point_v<T>) return Scalar::of_float(t, value);
  return Scalar::of_int(t, static_cast<std::int64_t>(value));
}

/// Returns the product's own polynomial result, after a check of its error bound.
template <class T>
Scalar polynomial(const MathBound& bound, std::span<const Scalar> args) {
  const Scalar made = evaluate(op_function(bound.op, args[0].dtype), args);
  const long double exact = math_reference(bound.op, args[0].f, args.size() > 1 ? args[1].f : 0.0);
  const double apart = units_apart(static_cast<T>(made.f), exact);
  if (apart <= (sizeof(T) == sizeof(float) ? bound.f32 : bound.f64)) return made;
  throw std::logic_error(fmt::format("{}({}) = {} is {} units of the last place off",
                                     op_info(bound.op).name, args[0].f, made.f, apart));
}

float without_subnormals(float x) { return std::abs(x) < FLT_MIN ? std::copysign(0.0F, x) : x; }

/// The two bf16 of a word of pair_bf16, low half first.
std::array<float, 2> parts_of(const Scalar& word) {
  const auto bits = static_cast<std::uint32_t>(word.i);
  return {std::bit_cast<float>(bits << 16), std::bit_cast<float>(bits >> 16 << 16)};
}

/// a * b + c with flush to zero: the result is 0 where the result rounded to 24 bits with unlimited
/// exponent is subnormal. The check scales by 2^30, where no result is subnormal before rounding.
float multiply_add(float a, float b, float c) {
  const float large = std::fma(std::ldexp(a, 30), b, std::ldexp(c, 30));
  return std::abs(large) < std::ldexp(FLT_MIN, 30) ? std::copysign(0.0F, std::fma(a, b, c))
                                                   : std::fma(a, b, c);
}

Scalar dot_of_bf16(const Scalar& a, const Scalar& b, const Scalar& start) {
  const auto [a_low, a_high] = parts_of(a);
  const auto [b_low, b_high] = parts_of(b);
  auto sum = without_subnormals(static_cast<float>(start.f));
  sum = multiply_add(without_subnormals(a_high), without_subnormals(b_high), sum);
  sum = multiply_add(without_subnormals(a_low), without_subnormals(b_low), sum);
  return Scalar::of_float(DType::f32, static_cast<double>(sum));
}

}  // namespace

Scalar reference_value(Op op, DType result, std::span<const Scalar> args) {
  if (op == Op::dot_bf16) return dot_of_bf16(args[0], args[1], args[2]);
  const DType operands = args.back().dtype;
  return with_type(operands, [&](auto operand) -> Scalar {
    using T = decltype(operand);
    if constexpr (std::is_floating_point_v<T>) {
      const auto* bound = std::ranges::find(math_bounds, op, &MathBound::op);
      if (bound != std::end(math_bounds)) return polynomial<T>(*bound, args);
    }
    std::array<T, 3> of{};
    for (std::size_t k = 0; k < args.size(); ++k) of[k] = value_of<T>(args[k]);
    return with_type(result, [&](auto made) -> Scalar {
      using R = decltype(made);
      return scalar_of<R>(result, op_reference<R, T>(op, of[0], of[1], of[2]));
    });
  });
}

Scalar reference_cast(const Scalar& value, DType to) {
  const bool is_large = value.dtype == DType::u64;
  const Exact from = is_floating(value.dtype) ? static_cast<Exact>(value.f)
                     : is_large ? static_cast<Exact>(static_cast<std::uint64_t>(value.i))
                                : static_cast<Exact>(value.i);
  const Exact made = converted(from, value.dtype, to);
  Scalar result;
  result.dtype = to;
  if (is_floating(to)) {
    result.f = static_cast<double>(made);
  } else if (to == DType::u64) {
    result.i = static_cast<std::int64_t>(static_cast<std::uint64_t>(made));
  } else {
    result.i = static_cast<std::int64_t>(made);
  }
  return result;
}

}  // namespace heddle::jit::testing
