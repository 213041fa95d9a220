// See value/primitives_math.hpp: floating powers. |a|^b is 2^(b log2 |a|), with the logarithm to
// more bits than the type has: in f64 for f32; for f64 as a pair of f64 (after Ziv's and SLEEF's:
// Shibata and Petrogalli, "SLEEF: a portable vectorized library of C standard mathematical
// functions", IEEE TPDS 31, 2020). Signs and special values are C's (C17, F.10.4.4). Pure.
#include "jit/value/primitives_math.hpp"

#include <array>
#include <limits>

namespace heddle::jit {
namespace {

using V = PrimValue;

// log2(1 + f) / f on [sqrt(1/2) - 1, sqrt(2) - 1]: relative error 2^-35.6.
constexpr std::array<double, 13> log2_over{
    0x1.715476529fcb2p0,  -0x1.715476554f12p-1,  0x1.ec709eceb66e8p-2, -0x1.7154723fa0736p-2,
    0x1.27764bd3f8d1ep-2, -0x1.ec71f4b789c0dp-3, 0x1.a6406529bd11ap-3, -0x1.7153eb41a04p-3,
    0x1.4526281044149p-3, -0x1.2463d2ab0c2d7p-3, 0x1.27dac18b3682dp-3, -0x1.27c6abac677bcp-3,
    0x1.45d1f059d407dp-4};
// 2^r on [-1/2, 1/2]: 2^-28.9.
constexpr std::array<double, 7> exp2_over{1,
                                          0x1.62e430af2704cp-1,
                                          0x1.ebfbdc3c2f83p-3,
                                          0x1.c6aee88e9826dp-5,
                                          0x1.3b2d4cf25c7e4p-7,
                                          0x1.5f3e52f1cca1p-10,
                                          0x1.41fbbba9723fp-13};

/// |a|^b for f32, by f64.
V pow_single(V a, V b) {
  const Split x = split_exponent(cast(magnitude(a), DType::f64));
  const V f = x.m - like(x.m, 1);
  const V power = fma(f, horner(f, log2_over), x.k) * cast(b, DType::f64);
  const V t = at_least(power, -160);
  const Fraction parts = split_fraction(t, real_format(DType::f64).bias, 160);
  return cast(horner(parts.rest, exp2_over) * power_of_two(parts.k), DType::f32);
}

// (2 atanh(s) / s - 2 - 2/3 z) / z^2 in z = s^2 on [0, 0.0295]: 2^-54.
constexpr std::array<double, 8> atanh_tail{
    0x1.999999999999ap-2, 0x1.24924924922fbp-2, 0x1.c71c71c74d6acp-3, 0x1.745d173c1370fp-3,
    0x1.3b13aa1eb5f1ep-3, 0x1.111540545fdccp-3, 0x1.e01cc783f929ep-4, 0x1.da841491a7b9ap-4};
constexpr double ln2_high = 0x1.62e42fefa39efp-1;
constexpr double ln2_low = 0x1.abc9e3b39803fp-56;

/// high + low, low below half a unit of high.
struct Pair {
  V high;
  V low;
};
/// For |a| >= |b| or a = 0 (Dekker, "A floating-point technique for extending the available
/// precision", Numer. Math. 18, 1971).
Pair fast_two_sum(V a, V b) {
  const V sum = a + b;
  return {sum, b - (sum - a)};
}
Pair times(Pair a, Pair b) {
  const V high = a.high * b.high;
  return {high, fma(a.high, b.high, -high) + fma(a.high, b.low, a.low * b.high)};
}
Pair pair(V like, double high, double low) { return {real(like, high), real(like, low)}; }

/// log(x) for positive normal x, with an error of about 2^-66.
Pair log_pair(const Split& x) {
  const V one = like(x.m, 1);
  const V n = x.m - one;
  const V d = x.m + one;
  const V d_low = x.m - (d - one);
  const V reciprocal = one / d;
  const V s_high = n * reciprocal;
  const V remainder = fma(-s_high, d_low, fma(-s_high, d, n));
  const Pair s{s_high, remainder * reciprocal};
  const Pair z = times(s, s);
  const Pair cube = times(z, s);
  const Pair third = times(cube, pair(one, 0x1.5555555555555p-1, 0x1.5555555555555p-55));
  const V fifth = cube.high * z.high * horner(z.high, atanh_tail);
  const Pair exponent = times({x.k, like(x.k, 0)}, pair(one, ln2_high, ln2_low));
  const Pair first = fast_two_sum(exponent.high, s.high + s.high);
  const Pair second = fast_two_sum(first.high, third.high);
  const V low = exponent.low + (s.low + s.low) + (third.low + fifth);
  return fast_two_sum(second.high, first.low + second.low + low);
}

/// |a|^b for f64.
V pow_double(V a, V b) {
  const V size = magnitude(a);
  const V is_small = size < real(a, 0x1p-1022);
  Split x = split_exponent(select(is_small, size * real(a, 0x1p52), size));
  x.k = x.k - select(is_small, like(a, 52), like(a, 0));
  const Pair log = log_pair(x);
  const V product = log.high * b;
  const V in_range = magnitude(product) < like(a, 1000);
  const V exact_low = fma(log.low, b, fma(log.high, b, -product));
  const V product_low = select(in_range, exact_low, like(a, 0));
  const V t = at_least(product, -746);
  const std::int64_t bias = real_format(DType::f64).bias;
  const Rounded k = round_at_most(t, real(a, 0x1.71547652b82fep0), 2 * bias, bias + 1);
  const V low = fma(k.value, real(a, -ln2_low), product_low);
  const V r = fma(k.value, real(a, -ln2_high), t) + low;
  return scale_by_power(exp_polynomial(r), k);
}

}  // namespace

V math_pow(V a, V b) {
  const V zero = like(a, 0);
  const V one = like(a, 1);
  const V infinite = real(a, std::numeric_limits<double>::infinity());
  const V nan = real(a, std::numeric_limits<double>::quiet_NaN());
  const V size = magnitude(a);
  V result = a.type == DType::f32 ? pow_single(a, b) : pow_double(a, b);
  const V grows = select(b < zero, zero, infinite);    // inf^b
  const V shrinks = select(b < zero, infinite, zero);  // 0^b
  result = select(size == infinite, grows, result);
  result = select(size == zero, shrinks, result);
  result = select(size == one, one, result);
  const V half = b * real(b, 0.5);
  const V is_odd = (rint(b) == b) & (rint(half) != half);
  const V sign = sign_bit(a);
  result = flip_sign(result, select(is_odd, sign, like(sign, 0)));
  const V has_no_power = (a < zero) & (rint(b) != b) & (size != infinite);
  result = select(has_no_power | is_nan(a) | is_nan(b), nan, result);
  return select((b == zero) | (a == one), one, result);
}

}  // namespace heddle::jit
