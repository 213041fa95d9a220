// Results of conversions between two types, by the definitions of the formats, without heddle's
// conversion code. Pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "jit/value/ops.hpp"

namespace heddle::jit::testing {

/// The two 16-bit formats: significand bits (the hidden one included) and the smallest exponent of
/// a unit.
struct Format {
  int precision;
  int unit_exponent_min;
  double overflow;  // results from here on are infinite
};
inline constexpr Format half_format{11, -24, 65536.0};
inline constexpr Format bfloat_format{8, -133, 0x1p128};

inline const Format& format_of(DType t) { return t == f16 ? half_format : bfloat_format; }

/// The value of 16 bits, by the definition of the format.
inline double decode(DType t, std::uint16_t bits) {
  const Format& format = format_of(t);
  const int fraction_bits = format.precision - 1;
  const int exponent_bits = 15 - fraction_bits;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? NAN : sign * INFINITY;
  const int hidden = exponent == 0 ? 0 : 1 << fraction_bits;
  return sign * std::ldexp(hidden + fraction,
                           format.unit_exponent_min + (exponent == 0 ? 0 : exponent - 1));
}

/// `value` rounded to nearest even in the format.
inline double rounded(DType t, double value) {
  if (std::isnan(value) || std::isinf(value) || value == 0) return value;
  const Format& format = format_of(t);
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent - format.precision, format.unit_exponent_min);
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(result) >= format.overflow ? std::copysign(INFINITY, value) : result;
}

/// A value of any type: integers and floats both exact.
using Exact = long double;

/// The result of storing `value` in `t` and reading the value back.
inline Exact converted(Exact value, DType from, DType to) {
  if (to == bool_) return value != 0 ? 1 : 0;
  if (is_storage_only(to)) {
    return static_cast<Exact>(rounded(to, static_cast<double>(static_cast<float>(value))));
  }
  if (to == f32) return static_cast<Exact>(static_cast<float>(value));
  if (to == f64) return static_cast<Exact>(static_cast<double>(value));
  const int bits = static_cast<int>(8 * size_of(to));
  const bool is_signed = info(to).is_signed;
  if (is_floating(from) && std::fabs(value) < 1) return 0;  // never -0
  const Exact lowest = is_signed ? -std::ldexp(1.0L, bits - 1) : 0.0L;
  const Exact highest = std::ldexp(1.0L, is_signed ? bits - 1 : bits) - 1;
  if (is_floating(from)) {
    return std::isnan(value) ? 0 : std::clamp(std::trunc(value), lowest, highest);
  }
  const Exact span = std::ldexp(1.0L, bits);  // integers wrap
  Exact wrapped = std::fmod(value, span);
  if (wrapped == 0) return 0;
  if (wrapped < lowest) wrapped += span;
  if (wrapped > highest) wrapped -= span;
  return wrapped;
}

}  // namespace heddle::jit::testing
