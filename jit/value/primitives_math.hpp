// exp, log, sin and the like as straight lines of exactly defined steps: IEEE operations, fma,
// integer operations and selects. Their bits are therefore the same from every compiler, in scalar
// code, in vector code of any width, and when folded; and compilers vectorise the loops around
// them. The bounds of their errors are in jit/value/README.md. Pure functions on a builder; one
// thread.
//
// fma is used wherever it saves a rounding: x86-64-v3, AArch64 and GPUs have an fma instruction;
// elsewhere the C library's fma is exact too, though slow. Coefficients: tools/coefficients.sollya.
#pragma once

#include <span>

#include "jit/value/primitive_builder.hpp"

namespace heddle::jit {

[[nodiscard]] PrimValue math_exp(PrimValue a);
[[nodiscard]] PrimValue math_exp2(PrimValue a);
[[nodiscard]] PrimValue math_log(PrimValue a);
[[nodiscard]] PrimValue math_log2(PrimValue a);
[[nodiscard]] PrimValue math_tanh(PrimValue a);
[[nodiscard]] PrimValue math_erf(PrimValue a);
[[nodiscard]] PrimValue math_sin(PrimValue a);
[[nodiscard]] PrimValue math_cos(PrimValue a);
[[nodiscard]] PrimValue math_pow(PrimValue a, PrimValue b);

/// The properties of a floating type that the functions above need.
struct RealFormat {
  DType bits;              ///< the unsigned type of equal size
  int mantissa;            ///< explicit bits of the significand
  std::int64_t bias;       ///< of the exponent
  std::int64_t sqrt_half;  ///< the bits of sqrt(1/2) rounded down
  double magic;            ///< 1.5 * 2^mantissa: adding it rounds to an integer in the low bits
  double normal_min;
};
[[nodiscard]] const RealFormat& real_format(DType type);

/// c[0] + c[1] x + c[2] x^2 ... by Horner's rule.
[[nodiscard]] PrimValue horner(PrimValue x, std::span<const double> c);
/// e^r for r in [-ln 2 / 2, ln 2 / 2].
[[nodiscard]] PrimValue exp_polynomial(PrimValue r);
/// e^x for x in [-60, 60]: no exponent leaves the range of normal numbers.
[[nodiscard]] PrimValue small_exp(PrimValue x);
/// The greater of the two; NaN stays NaN.
[[nodiscard]] PrimValue at_least(PrimValue a, double lowest);
/// Only the sign bit, as an integer.
[[nodiscard]] PrimValue sign_bit(PrimValue a);
/// `a` with its sign flipped where the highest bit of the integer `sign` is set; all other bits of
/// `sign` must be 0.
[[nodiscard]] PrimValue flip_sign(PrimValue a, PrimValue sign);

/// The nearest integer k to a number: `shifted` has k + offset in its low bits (modulo 2^mantissa),
/// `value` is k.
struct Rounded {
  PrimValue shifted;
  PrimValue value;
};
/// Rounds scale * x < 2^(mantissa - 1), in a single rounding with k. 0 <= offset <= 4 * bias.
[[nodiscard]] Rounded round_scaled(PrimValue x, PrimValue scale, std::int64_t offset = 0);
/// round_scaled() for x from below 0 to infinity, with k limited to `k_max`.
[[nodiscard]] Rounded round_at_most(PrimValue x, PrimValue scale, std::int64_t offset,
                                    std::int64_t k_max);
/// x = k + rest with |rest| <= 1/2, unless k is limited by `k_max`.
struct Fraction {
  Rounded k;
  PrimValue rest;
};
[[nodiscard]] Fraction split_fraction(PrimValue x, std::int64_t offset, std::int64_t k_max);
/// p * 2^k, rounded once, for |p| >= 1/4 and k in [-1.5 bias, bias + 1] with offset 2 * bias.
[[nodiscard]] PrimValue scale_by_power(PrimValue p, const Rounded& k);
/// 2^k for k in the range of normal numbers, with offset bias.
[[nodiscard]] PrimValue power_of_two(const Rounded& k);

/// x = m 2^k with m in [sqrt(1/2), sqrt(2)), for positive normal x.
struct Split {
  PrimValue m;
  PrimValue k;  ///< has the type of x
};
[[nodiscard]] Split split_exponent(PrimValue x);

}  // namespace heddle::jit
