// Constants: scalars, their conversions, and folding of operations exactly as compiled code
// computes them. Pure functions. Only operations whose result does not depend on a C library are
// folded.
#include <bit>
#include <cmath>
#include <limits>

#include "jit/ops.hpp"
#include "jit/threefry.hpp"

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

/// An integer to binary32 in one rounding (through binary64 it would be two).
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
  const double end = std::ldexp(1.0, bits);  // one past the highest
  if (value >= end) {
    return bits == 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1;
  }
  const double lowest = info(to).is_signed ? -end : 0.0;
  if (value <= lowest) return static_cast<std::int64_t>(lowest);
  return static_cast<std::int64_t>(value);
}

bool truthy(const Scalar& v) noexcept { return is_floating(v.dtype) ? v.f != 0 : v.i != 0; }

bool less(const Scalar& a, const Scalar& b) noexcept {
  if (is_floating(a.dtype)) return a.f < b.f;
  if (a.dtype == DType::u64)
    return static_cast<std::uint64_t>(a.i) < static_cast<std::uint64_t>(b.i);
  return a.i < b.i;
}
bool same(const Scalar& a, const Scalar& b) noexcept {
  return is_floating(a.dtype) ? a.f == b.f : a.i == b.i;
}
bool is_nan(const Scalar& v) noexcept { return is_floating(v.dtype) && std::isnan(v.f); }

std::int64_t wrapping_mul(std::int64_t a, std::int64_t b) noexcept {
  return std::bit_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
std::int64_t wrapping_add(std::int64_t a, std::int64_t b) noexcept {
  return std::bit_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t wrapping_neg(std::int64_t a) noexcept {
  return std::bit_cast<std::int64_t>(0u - static_cast<std::uint64_t>(a));
}

std::int64_t integer_div(DType t, std::int64_t a, std::int64_t b) noexcept {
  if (b == 0) return 0;
  if (t == DType::u64) {
    return std::bit_cast<std::int64_t>(static_cast<std::uint64_t>(a) /
                                       static_cast<std::uint64_t>(b));
  }
  return b == -1 ? wrapping_neg(a) : a / b;
}
std::int64_t integer_mod(DType t, std::int64_t a, std::int64_t b) noexcept {
  if (b == 0 || b == -1) return t == DType::u64 && b == -1 && a != -1 ? a : 0;
  if (t == DType::u64) {
    return std::bit_cast<std::int64_t>(static_cast<std::uint64_t>(a) %
                                       static_cast<std::uint64_t>(b));
  }
  return a % b;
}
std::int64_t integer_pow(DType t, std::int64_t base, std::int64_t exponent) noexcept {
  if (info(t).is_signed && exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return (exponent & 1) != 0 ? -1 : 1;
    return 0;
  }
  std::int64_t result = 1;
  for (auto n = static_cast<std::uint64_t>(exponent); n != 0; n >>= 1) {
    if ((n & 1u) != 0) result = wrapping_mul(result, base);
    base = wrapping_mul(base, base);
  }
  return result;
}

std::optional<Scalar> fold_integer(Op op, DType t, std::span<const Scalar> v) noexcept {
  const auto make = [t](std::int64_t value) { return Scalar::of_int(t, value); };
  const std::int64_t a = v[0].i;
  const std::int64_t b = v.size() > 1 ? v[1].i : 0;
  const Scalar zero = make(0);
  const bool positive = less(zero, v[0]);
  switch (op) {
    case Op::add:
      return make(wrapping_add(a, b));
    case Op::sub:
      return make(wrapping_add(a, wrapping_neg(b)));
    case Op::mul:
      return make(wrapping_mul(a, b));
    case Op::div:
      return make(integer_div(t, a, b));
    case Op::mod:
      return make(integer_mod(t, a, b));
    case Op::pow:
      return make(integer_pow(t, a, b));
    case Op::neg:
      return make(wrapping_neg(a));
    case Op::abs:
      return make(info(t).is_signed && a < 0 ? wrapping_neg(a) : a);
    case Op::trunc:
    case Op::floor:
    case Op::ceil:
      return v[0];
    case Op::relu:
      return positive ? v[0] : zero;
    case Op::relu_gate:
      return positive ? v[1] : zero;
    case Op::satur01:
      return positive ? make(1) : zero;
    case Op::satur01_gate:
      return zero;  // no integer lies strictly between 0 and 1
    case Op::fma:
      return make(wrapping_add(wrapping_mul(a, b), v[2].i));
    case Op::mul3:
      return make(wrapping_mul(wrapping_mul(a, b), v[2].i));
    default:
      return std::nullopt;
  }
}

std::optional<Scalar> fold_floating(Op op, DType t, std::span<const Scalar> v) noexcept {
  // f32 operations round once: binary64 holds sums, products, quotients and roots of binary32
  // values precisely enough that rounding it again is innocuous (Figueroa 1995).
  const auto make = [t](double value) { return Scalar::of_float(t, value); };
  const double a = v[0].f;
  const double b = v.size() > 1 ? v[1].f : 0;
  switch (op) {
    case Op::add:
      return make(a + b);
    case Op::sub:
      return make(a - b);
    case Op::mul:
      return make(a * b);
    case Op::div:
      return make(a / b);
    case Op::mod:
      return make(std::fmod(a, b));
    case Op::neg:
      return make(-a);
    case Op::abs:
      return make(std::fabs(a));
    case Op::trunc:
      return make(std::trunc(a));
    case Op::floor:
      return make(std::floor(a));
    case Op::ceil:
      return make(std::ceil(a));
    case Op::relu:
      return make(a > 0 || std::isnan(a) ? a : 0.0);
    case Op::relu_gate:
      return make(a > 0 ? b : 0.0);
    case Op::satur01:
      return make(std::isnan(a) ? a : a > 1 ? 1.0 : a > 0 ? a : 0.0);
    case Op::satur01_gate:
      return make(0 < a && a < 1 ? b : 0.0);
    case Op::sqrt:
      return make(std::sqrt(a));
    case Op::recip:
      return make(1.0 / a);
    case Op::rsqrt:
      return make(1.0 / make(std::sqrt(a)).f);
    case Op::fma:
      return t == DType::f64 ? make(std::fma(a, b, v[2].f))
                             : make(std::fma(static_cast<float>(a), static_cast<float>(b),
                                             static_cast<float>(v[2].f)));
    case Op::mul3:
      return make(make(a * b).f * v[2].f);
    default:
      return std::nullopt;  // exp, log, pow, ...: left to the C library
  }
}

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

std::optional<Scalar> fold_op(Op op, DType result, std::span<const Scalar> args) noexcept {
  const auto truth = [](bool value) { return Scalar::of_int(DType::bool_, value ? 1 : 0); };
  switch (op) {
    case Op::lt:
      return truth(less(args[0], args[1]));
    case Op::le:
      return truth(less(args[0], args[1]) || same(args[0], args[1]));
    case Op::eq:
      return truth(same(args[0], args[1]));
    case Op::ne:
      return truth(!same(args[0], args[1]));
    case Op::and_:
      return truth(truthy(args[0]) && truthy(args[1]));
    case Op::or_:
      return truth(truthy(args[0]) || truthy(args[1]));
    case Op::not_:
      return truth(!truthy(args[0]));
    case Op::where:
      return truthy(args[0]) ? args[1] : args[2];
    case Op::max:
      return less(args[1], args[0]) || is_nan(args[0]) ? args[0] : args[1];
    case Op::min:
      return less(args[0], args[1]) || is_nan(args[0]) ? args[0] : args[1];
    case Op::identity:
    case Op::arg1:
      return args[0];
    case Op::arg2:
      return args[1];
    case Op::uniform:
      return Scalar::of_float(
          result, static_cast<double>(static_cast<std::uint64_t>(args[0].i) >> 40) * 0x1p-24);
    case Op::threefry:
    case Op::threefry_light: {
      const int rounds = op == Op::threefry ? threefry_rounds : threefry_light_rounds;
      const auto bits = threefry2x32(static_cast<std::uint64_t>(args[0].i),
                                     static_cast<std::uint64_t>(args[1].i), rounds);
      return Scalar::of_int(result, std::bit_cast<std::int64_t>(bits));
    }
    default:
      break;
  }
  return is_floating(result) ? fold_floating(op, result, args) : fold_integer(op, result, args);
}

}  // namespace heddle::jit
