// See value/primitives_math.hpp: exp, exp2, log, log2 and tanh. Reductions after Cody and
// Waite ("Software Manual for the Elementary Functions", 1980) with fma; evaluation as in Muller et
// al., "Handbook of Floating-Point Arithmetic" (2nd ed., 2018), chapter 10. Pure.
#include "jit/value/primitives_math.hpp"

#include <array>
#include <limits>

namespace heddle::jit {
namespace {

using V = PrimValue;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The coefficients of a polynomial for both types.
struct Polynomials {
  std::span<const double> f32, f64;
};
V polynomial(const Polynomials& c, V x) { return horner(x, x.type == DType::f32 ? c.f32 : c.f64); }

/// The constant for the type of `like`.
V pick(V like, double f32, double f64) { return real(like, like.type == DType::f32 ? f32 : f64); }

// e^r on [-ln 2 / 2, ln 2 / 2]: relative errors 2^-28.2 and 2^-57.9.
constexpr std::array<double, 7> exp_f32{
    1, 1, 0x1.fffffap-2, 0x1.555492p-3, 0x1.555a26p-5, 0x1.12397cp-7, 0x1.694c86p-10};
constexpr std::array<double, 12> exp_f64{1,
                                         1,
                                         0x1.000000000000ap-1,
                                         0x1.55555555554fep-3,
                                         0x1.55555555506cp-5,
                                         0x1.1111111126b37p-7,
                                         0x1.6c16c18475a18p-10,
                                         0x1.a01a012fec2f9p-13,
                                         0x1.a0199963c9d45p-16,
                                         0x1.71df18fbc7568p-19,
                                         0x1.28adf7a193ac5p-22,
                                         0x1.ad92c7da7197p-26};
constexpr Polynomials exp_poly{exp_f32, exp_f64};

// 2^r on [-1/2, 1/2]: 2^-28.0 and 2^-57.3.
constexpr std::array<double, 7> exp2_f32{
    1, 0x1.62e43p-1, 0x1.ebfbd8p-3, 0x1.c6af76p-5, 0x1.3b30ap-7, 0x1.5f0b82p-10, 0x1.3fa206p-13};
constexpr std::array<double, 12> exp2_f64{1,
                                          0x1.62e42fefa39efp-1,
                                          0x1.ebfbdff82c5a6p-3,
                                          0x1.c6b08d704a12cp-5,
                                          0x1.3b2ab6fb9fda6p-7,
                                          0x1.5d87fe789e96fp-10,
                                          0x1.4309130f6cbdbp-13,
                                          0x1.ffcbfc6685f06p-17,
                                          0x1.62bfc6596be12p-20,
                                          0x1.b52522bc15f8fp-24,
                                          0x1.e61d43321746dp-28,
                                          0x1.e973179a994acp-32};
constexpr Polynomials exp2_poly{exp2_f32, exp2_f64};

// (log(1 + f) - f + f^2 / 2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1]: errors 2^-27.7 and 2^-56.6 of
// the logarithm.
constexpr std::array<double, 9> log_f32{0x1.555554p-2,  -0x1.ffffe6p-3, 0x1.999d2ap-3,
                                        -0x1.556288p-3, 0x1.23de4p-3,   -0x1.fbbf2ep-4,
                                        0x1.dc75e8p-4,  -0x1.ddb2cep-4, 0x1.2cb40ep-4};
constexpr std::array<double, 20> log_f64{
    0x1.5555555555556p-2, -0x1.0000000000001p-2, 0x1.9999999998ffp-3,  -0x1.5555555554bbcp-3,
    0x1.2492492539d79p-3, -0x1.00000000e2de1p-3, 0x1.c71c713d21bc7p-4, -0x1.9999989eac6dcp-4,
    0x1.745d336e3b3d6p-4, -0x1.555596e5dae3fp-4, 0x1.3b10894b2777p-4,  -0x1.24891946e3c92p-4,
    0x1.11435e4649d2cp-4, -0x1.00ba355fa6401p-4, 0x1.dec9e5617bff2p-5, -0x1.b6a5034ddbd6ap-5,
    0x1.b3861447e8504p-5, -0x1.f69d2312c1365p-5, 0x1.dd7c8298f0f6cp-5, -0x1.b18e55e485a3fp-6};
constexpr Polynomials log_poly{log_f32, log_f64};

// (log2(1 + f) - f / ln 2) / f^2, on the same interval: 2^-26.2 and 2^-55.3.
constexpr std::array<double, 9> log2_f32{-0x1.715476p-1, 0x1.ec708ap-2,  -0x1.7156c8p-2,
                                         0x1.2780dp-2,   -0x1.eb6aaap-3, 0x1.a2d478p-3,
                                         -0x1.819062p-3, 0x1.7d28c4p-3,  -0x1.dea8aep-4};
constexpr std::array<double, 20> log2_f64{
    -0x1.71547652b82ffp-1, 0x1.ec709dc3a03ffp-2, -0x1.71547652b7a22p-2, 0x1.2776c50ef939cp-2,
    -0x1.ec709dc4b9817p-3, 0x1.a61762a929614p-3, -0x1.715475e366172p-3, 0x1.484b130d1bebfp-3,
    -0x1.2776db446d6e6p-3, 0x1.0c9ab85ddfb42p-3, -0x1.ec6bb62fdce49p-4, 0x1.c6810c5048a4dp-4,
    -0x1.a664b4dc8cfa8p-4, 0x1.8b123f14f4b5fp-4, -0x1.6ef95f7f55379p-4, 0x1.4f090de67b296p-4,
    -0x1.4b8ac0bc786bcp-4, 0x1.7d928536b11f3p-4, -0x1.69d004a001443p-4, 0x1.4808df7ba2d79p-5};
constexpr Polynomials log2_poly{log2_f32, log2_f64};

// tanh(x) / x in x^2, without the 1, on [0, 0.625]: 2^-27.7 and 2^-56.4.
constexpr double tanh_near_max = 0.625;
constexpr std::array<double, 5> tanh_f32{-0x1.555532p-2, 0x1.110704p-3, -0x1.b838ap-5,
                                         0x1.5211c4p-6, -0x1.758facp-8};
constexpr std::array<double, 11> tanh_f64{
    -0x1.55555555554ffp-2,  0x1.111111110aca6p-3,  -0x1.ba1ba1b504efap-5,  0x1.664f477aa8e77p-6,
    -0x1.226e1627b6e15p-7,  0x1.d6cf279954ce4p-9,  -0x1.7d689f11f3df3p-10, 0x1.3365faf254712p-11,
    -0x1.df54cb712c3bcp-13, 0x1.438fb8f54f75ep-14, -0x1.0da4a0f0b86p-16};
constexpr Polynomials tanh_poly{tanh_f32, tanh_f64};

/// e^(x - k ln 2).
V reduced_exp(V x, const Rounded& k) {
  const V high = fma(k.value, pick(x, -0x1.62e43p-1, -0x1.62e42fefa39efp-1), x);
  return exp_polynomial(fma(k.value, pick(x, 0x1.05c61p-29, -0x1.abc9e3b39803fp-56), high));
}

/// 0 where a is below the number, otherwise the value, of which a NaN stays one.
V zero_below(V a, double number, V value) { return select(a < real(a, number), like(a, 0), value); }

V per_ln2(V like) { return pick(like, 0x1.715476p0, 0x1.71547652b82fep0); }

/// log(1 + f) and similar need a positive normal x; the function supplies the results for other
/// arguments.
V log_specials(V a, V result) {
  const V zero = like(a, 0);
  const V below = select(a < zero, real(a, std::numeric_limits<double>::quiet_NaN()), a);
  const V special = select(a == zero, real(a, -infinity), below);
  return select((zero < a) & (a < real(a, infinity)), result, special);
}

Split split_positive(V a) {
  const RealFormat& format = real_format(a.type);
  const V is_small = a < real(a, format.normal_min);
  const double up = static_cast<double>(std::uint64_t{1} << format.mantissa);
  const Split split = split_exponent(select(is_small, a * real(a, up), a));
  return {split.m, split.k - select(is_small, like(a, format.mantissa), like(a, 0))};
}

}  // namespace

const RealFormat& real_format(DType type) {
  static const RealFormat single{DType::u32, 23, 127, 0x3f3504f3, 0x1.8p23, 0x1p-126};
  static const RealFormat twice{DType::u64, 52, 1023, 0x3fe6a09e667f3bcc, 0x1.8p52, 0x1p-1022};
  return type == DType::f32 ? single : twice;
}

V horner(V x, std::span<const double> c) {
  V sum = real(x, c.back());
  for (std::size_t k = c.size() - 1; k-- > 0;) sum = fma(sum, x, real(x, c[k]));
  return sum;
}

V exp_polynomial(V r) { return polynomial(exp_poly, r); }

V small_exp(V x) {
  const Rounded k = round_scaled(x, per_ln2(x), real_format(x.type).bias);
  return reduced_exp(x, k) * power_of_two(k);
}

V at_least(V a, double lowest) { return larger(a, real(a, lowest)); }

V sign_bit(V a) {
  const RealFormat& format = real_format(a.type);
  const V bits = same_bits(a, format.bits);
  return bits & (like(bits, 1) << static_cast<int>(8 * size_of(a.type) - 1));
}

// Adding the highest bit flips it. GCC 12 would take an exclusive or for a float operation, and
// make sign == 0 of flip_sign(a, sign) == a.
V flip_sign(V a, V sign) {
  return same_bits(same_bits(a, real_format(a.type).bits) + sign, a.type);
}

Rounded round_scaled(V x, V scale, std::int64_t offset) {
  const V shift = real(x, real_format(x.type).magic + static_cast<double>(offset));
  const V shifted = fma(x, scale, shift);
  return {shifted, shifted - shift};
}

Rounded round_at_most(V x, V scale, std::int64_t offset, std::int64_t k_max) {
  const double magic = real_format(x.type).magic + static_cast<double>(offset);
  const V shift = real(x, magic);
  const V highest = real(x, magic + static_cast<double>(k_max));
  const V shifted = smaller(fma(x, scale, shift), highest);
  return {shifted, shifted - shift};
}

Fraction split_fraction(V x, std::int64_t offset, std::int64_t k_max) {
  // fma instead of addition: with reassociation allowed, compilers would undo additions here.
  const Rounded k = round_at_most(x + x, real(x, 0.5), offset, k_max);
  return {k, fma(k.value + k.value, real(x, -0.5), x)};
}

V scale_by_power(V p, const Rounded& k) {
  if (p.in->has_avx512()) return p.in->push(PrimOp::scale, p.type, {p, k.value});
  // In two factors: 2^k itself may be infinite or subnormal. The first product is exact. The bits
  // of `magic` are all above the bits that become an exponent.
  const RealFormat& format = real_format(p.type);
  const V biased = same_bits(k.shifted, format.bits);
  const V half = biased >> 1;
  const V first = same_bits(half << format.mantissa, p.type);
  const V second = same_bits((biased - half) << format.mantissa, p.type);
  return p * first * second;
}

V power_of_two(const Rounded& k) {
  const RealFormat& format = real_format(k.value.type);
  return same_bits(same_bits(k.shifted, format.bits) << format.mantissa, k.value.type);
}

Split split_exponent(V x) {
  const RealFormat& format = real_format(x.type);
  const V bits = same_bits(x, format.bits);
  const std::int64_t one = format.bias << format.mantissa;
  const V moved = bits + like(bits, one - format.sqrt_half);
  const V mask = like(bits, (std::int64_t{1} << format.mantissa) - 1);
  const V m = same_bits((moved & mask) + like(bits, format.sqrt_half), x.type);
  // The exponent as the low bits of 2^mantissa: no conversion of integers is needed.
  const V shift = like(bits, (format.bias + format.mantissa) << format.mantissa);
  const double offset = static_cast<double>((std::int64_t{1} << format.mantissa) + format.bias);
  const V k = same_bits((moved >> format.mantissa) | shift, x.type) - real(x, offset);
  return {m, k};
}

// Above the highest k the polynomials continue to grow, and results are infinite. Below the lowest
// argument results are 0, and from a bit above it on what is scaled is 0, too: a processor takes a
// hundred cycles over a vector with a product that is too small, as of the exponentials of masked
// elements, -infinity. (With one number for both, GCC would make a branch of the comparisons, and
// no vectors of plain loops.)
V math_exp(V a) {
  const RealFormat& format = real_format(a.type);
  const bool single = a.type == DType::f32;
  const V x = at_least(a, single ? -104 : -746);
  const Rounded k = round_at_most(x, per_ln2(x), 2 * format.bias, format.bias + 1);
  return scale_by_power(zero_below(a, single ? -103.98 : -745.2, reduced_exp(x, k)), k);
}

V math_exp2(V a) {
  const RealFormat& format = real_format(a.type);
  const bool single = a.type == DType::f32;
  const V x = at_least(a, single ? -151 : -1076);
  const Fraction parts = split_fraction(x, 2 * format.bias, format.bias + 1);
  return scale_by_power(zero_below(a, single ? -150 : -1075, polynomial(exp2_poly, parts.rest)),
                        parts.k);
}

V math_log(V a) {
  const Split x = split_positive(a);
  const V f = x.m - like(a, 1);
  const V tail = fma(f, polynomial(log_poly, f), real(a, -0.5));
  const V low = fma(f * f, tail, x.k * pick(a, -0x1.05c61p-29, 0x1.abc9e3b39803fp-56));
  const V sum = fma(x.k, pick(a, 0x1.62e43p-1, 0x1.62e42fefa39efp-1), f + low);
  return log_specials(a, sum);
}

V math_log2(V a) {
  const Split x = split_positive(a);
  const V f = x.m - like(a, 1);
  const V high = f * per_ln2(a);
  const V low = fma(f, pick(a, 0x1.4ae0cp-26, 0x1.777d0ffda0d24p-56), fma(f, per_ln2(a), -high));
  const V sum = x.k + (high + fma(f * f, polynomial(log2_poly, f), low));
  return log_specials(a, sum);
}

V math_tanh(V a) {
  // Near 0 an odd polynomial, otherwise 1 - 2 / (e^2x + 1), where the second term is below 1/2.
  const V x = magnitude(a);
  const V square = x * x;
  const V near = fma(x * square, polynomial(tanh_poly, square), x);
  const V twice = x + x;
  const V e = small_exp(select(like(a, 40) < twice, like(a, 40), twice));
  const V far = like(a, 1) - like(a, 2) / (e + like(a, 1));
  return flip_sign(select(x < real(a, tanh_near_max), near, far), sign_bit(a));
}

}  // namespace heddle::jit
