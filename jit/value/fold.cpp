// Constants: scalars, their conversions, and folding of operations with the results of compiled
// code. Pure functions.
#include <bit>
#include <cmath>
#include <limits>

#include "jit/value/ops.hpp"
#include "jit/value/primitive_eval.hpp"

namespace heddle::jit {
namespace {

std::int64_t wrap(DType dtype, std::int64_t value) noexcept {
  if (dtype == DType::bool_) return value != 0 ? 1 : 0;
  const auto drop = static_cast<unsigned>(64 - 8 * size_of(dtype));
  const auto shifted = static_cast<std::uint64_t>(value) << drop;
  if (info(dtype).is_signed) return std::bit_cast<std::int64_t>(shifted) >> drop;
  return std::bit_cast<std::int64_t>(shifted >> drop);
}

double round_to(DType dtype, double value) noexcept {
  switch (dtype) {
    case DType::f64:
      return value;
    case DType::f16:
      return static_cast<float>(Float16(static_cast<float>(value)));
    case DType::bf16:
      return static_cast<float>(BFloat16(static_cast<float>(value)));
    default:
      return static_cast<float>(value);
  }
}

double integer_as_double(const Scalar& v) noexcept {
  return v.dtype == DType::u64 ? static_cast<double>(static_cast<std::uint64_t>(v.i))
                               : static_cast<double>(v.i);
}

/// An integer to binary32 with a single rounding (through binary64 there would be two).
float integer_as_float(const Scalar& v) noexcept {
  return v.dtype == DType::u64 ? static_cast<float>(static_cast<std::uint64_t>(v.i))
                               : static_cast<float>(v.i);
}

/// Truncates toward zero, saturates at the ends of `to`; NaN is 0.
std::int64_t saturate(double value, DType to) noexcept {
  if (std::isnan(value)) return 0;
  if (to == DType::u64) {
    if (value <= 0) return 0;
    if (value >= 0x1p64) return -1;
    return std::bit_cast<std::int64_t>(static_cast<std::uint64_t>(value));
  }
  const auto bits = static_cast<int>(8 * size_of(to)) - (info(to).is_signed ? 1 : 0);
  const double end = std::ldexp(1.0, bits);  // the highest value plus one
  if (value >= end) {
    return bits == 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1;
  }
  const double lowest = info(to).is_signed ? -end : 0.0;
  if (value <= lowest) return static_cast<std::int64_t>(lowest);
  return static_cast<std::int64_t>(value);
}

bool truthy(const Scalar& v) noexcept { return is_floating(v.dtype) ? v.f != 0 : v.i != 0; }

}  // namespace

Scalar Scalar::of_int(DType dtype, std::int64_t value) noexcept {
  Scalar s;
  s.dtype = dtype;
  if (is_floating(dtype)) {
    s.f = round_to(dtype, static_cast<double>(value));
  } else {
    s.i = wrap(dtype, value);
  }
  return s;
}

Scalar Scalar::of_float(DType dtype, double value) noexcept {
  Scalar s;
  s.dtype = dtype;
  if (is_floating(dtype)) {
    s.f = round_to(dtype, value);
  } else if (dtype == DType::bool_) {
    s.i = value != 0 ? 1 : 0;
  } else {
    s.i = saturate(value, dtype);
  }
  return s;
}

Scalar convert(const Scalar& value, DType to) noexcept {
  if (value.dtype == to) return value;
  if (to == DType::bool_) return Scalar::of_int(to, truthy(value) ? 1 : 0);
  if (is_floating(value.dtype)) return Scalar::of_float(to, value.f);
  if (!is_floating(to)) return Scalar::of_int(to, value.i);
  if (to == DType::f64) return Scalar::of_float(to, integer_as_double(value));
  return Scalar::of_float(to,
                          integer_as_float(value));  // 16-bit types: via f32, as compiled code does
}

Scalar fold_op(Op op, std::span<const Scalar> args) {
  return evaluate(op_function(op, args.back().dtype), args);
}

}  // namespace heddle::jit
