// See value/primitives_math.hpp: sin and cos, exact in their reduction for every argument. Pure.
//
// The reduction is that of Payne and Hanek ("Radian reduction for trigonometric functions", SIGNUM
// Newsletter 18, 1983): only the fraction of the product x / 2 pi counts, so bits of 1 / 2 pi whose
// product with x is a whole number are left out, and a few pieces of the remaining bits suffice.
// The choice of pieces depends on the exponent of x. Here a chain of selects takes the pieces, for
// wide ranges of exponents: loops stay vectors, where a table would need gathers and a rare branch
// would make the loops scalar.
#include "jit/value/primitives_math.hpp"

#include <array>
#include <cmath>

namespace heddle::jit {
namespace {

using V = PrimValue;

/// The first bits of 1 / 2 pi after the point.
constexpr std::array<std::uint64_t, 20> turns_per_radian{
    0x28be60db9391054a, 0x7f09d5f47d4d3770, 0x36d8a5664f10e410, 0x7f9458eaf7aef158,
    0x6dc91b8e909374b8, 0x01924bba82746487, 0x3f877ac72c4a69cf, 0xba208d7d4baed121,
    0x3a671c09ad17df90, 0x4e64758e60d4ce7d, 0x272117e2ef7e4a0e, 0xc7fe25fff7816603,
    0xfbcbc462d6829b47, 0xdb4d9fb3c9f2c26d, 0xd3d18fd9a797fa8b, 0x5d49eeb1faf97c5e,
    0xcf41ce7de294a4ba, 0x9afed7ec47e35742, 0x1580cc11bf1edaea, 0xfc33ef0826bd0d87};

/// Bits from .. from + count - 1 of 1 / 2 pi (bit k weighs 2^-k), times 2^scale.
double piece(int from, int count, int scale) {
  std::uint64_t bits = 0;
  for (int k = from; k < from + count; ++k) {
    const auto at = static_cast<unsigned>(k - 1);
    bits = bits << 1 | (turns_per_radian.at(at / 64) >> (63 - at % 64) & 1);
  }
  return std::ldexp(static_cast<double>(bits), scale + 1 - from - count);
}

/// x radians = quadrant / 4 turns + angle radians; the two low bits of `quadrant` count.
struct Reduced {
  V angle;
  V quadrant;
};

/// x f32 -> the angle in f64.
Reduced reduce_single(V magnitude_f32) {
  const V x = cast(magnitude_f32, DType::f64);
  // The products of 24 bits of x and 29 bits are exact. A range begins where the bits of its pieces
  // begin to make fractions of turns, and ends where the first product outgrows `magic`.
  constexpr std::array<int, 3> range_begins{51, 79, 107};
  constexpr int x_bits = 24;
  constexpr int piece_bits = 29;
  const auto pieces = [](int from) {
    return std::array<double, 3>{piece(from, piece_bits, 0),
                                 piece(from + piece_bits, piece_bits, 0),
                                 piece(from + 2 * piece_bits, 53, 0)};
  };
  const std::array<double, 3> first = pieces(1);
  std::array<V, 3> c{real(x, first[0]), real(x, first[1]), real(x, first[2])};
  for (const int begin : range_begins) {
    const V beyond = real(x, std::ldexp(1.0, begin)) <= x;
    const std::array<double, 3> next = pieces(begin - x_bits + 2);
    for (std::size_t k = 0; k < c.size(); ++k) c[k] = select(beyond, real(x, next[k]), c[k]);
  }
  const V high = fma(x, c[0], -round_scaled(x, c[0]).value);
  const V middle = fma(x, c[1], -round_scaled(x, c[1]).value);
  const Rounded quarter = round_scaled(high + fma(x, c[2], middle), like(x, 4));
  const V rest = fma(quarter.value, real(x, -0.25), high) + middle;
  const V turns = fma(x, c[2], rest);
  return {turns * real(x, 0x1.921fb54442d18p2), same_bits(quarter.shifted, DType::u64)};
}

/// sum + error = a + b (Knuth, The Art of Computer Programming 2, 4.2.2).
struct ExactSum {
  V sum;
  V error;
};
ExactSum two_sum(V a, V b) {
  const V sum = a + b;
  const V part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

/// 1 / 2 pi in five pieces of 53 bits for an f64 magnitude `x`, and x, perhaps both scaled.
struct Pieces {
  V x;
  std::array<V, 5> c;
};
Pieces pieces_double(V x) {
  constexpr int x_bits = 53;
  constexpr int range_begin =
      147;                        // 5 * 53 bits reach 2^-117 below the point, as they must: no f64
  constexpr int range_step = 94;  // is nearer to a multiple of pi / 2 than 2^-61 (Muller, 11.3.2)
  constexpr int scaled_begin = range_begin + 4 * range_step;
  constexpr int scale = 512;  // keeps the last pieces normal
  Pieces result{x, {}};
  for (std::size_t k = 0; k < result.c.size(); ++k)
    result.c[k] = real(x, piece(1 + x_bits * static_cast<int>(k), x_bits, 0));
  for (int begin = range_begin; begin < 1024; begin += range_step) {
    const bool scaled = begin >= scaled_begin;
    const V beyond = real(x, std::ldexp(1.0, begin)) <= x;
    for (std::size_t k = 0; k < result.c.size(); ++k) {
      const int from = begin - x_bits + 2 + x_bits * static_cast<int>(k);
      const double bits = piece(from, x_bits, scaled ? scale : 0);
      result.c[k] = select(beyond, real(x, bits), result.c[k]);
    }
    if (begin == scaled_begin) result.x = select(beyond, x * real(x, std::ldexp(1.0, -scale)), x);
  }
  return result;
}

/// A sum of terms below 1/2 as three words. The first two are whole multiples of 2^-49 and 2^-98,
/// so their sums are exact; the remainder is below 2^-99 per term (after Rump, Ogita and Oishi,
/// "Accurate floating-point summation", SIAM J. Sci. Comput. 31, 2008).
struct GridSum {
  V high;
  V middle;
  V low;

  void add(V term) {
    const V coarse = real(term, 0x1.8p3);
    const V fine = real(term, 0x1.8p-46);
    const V first = (term + coarse) - coarse;
    const V rest = term - first;
    const V second = (rest + fine) - fine;
    high = high + first;
    middle = middle + second;
    low = low + (rest - second);
  }
};

/// x f64. Products with the pieces are exact pairs; whole turns are taken off them.
Reduced reduce_double(V magnitude_f64) {
  const auto [x, c] = pieces_double(magnitude_f64);
  const V zero = like(x, 0);
  GridSum sum{zero, zero, zero};
  const auto product = [](V a, V b) {
    const V high = a * b;
    return ExactSum{high, fma(a, b, -high)};
  };
  for (const std::size_t k : {0u, 1u, 2u}) {
    const ExactSum p = product(x, c[k]);
    sum.add(p.sum - rint(p.sum));
    sum.add(k < 2 ? p.error - rint(p.error) : p.error);
  }
  const ExactSum fourth = product(x, c[3]);
  sum.add(fourth.sum);
  sum.low = sum.low + fma(x, c[4], fourth.error);  // both are below 2^-65
  const Rounded quarter = round_scaled(sum.high, like(x, 4));
  const ExactSum turns = two_sum(fma(quarter.value, real(x, -0.25), sum.high), sum.middle);
  const V two_pi = real(x, 0x1.921fb54442d18p2);
  const V angle = turns.sum * two_pi;
  const V low = fma(turns.error + sum.low, two_pi, fma(turns.sum, two_pi, -angle));
  const V reduced = angle + fma(turns.sum, real(x, 0x1.1a62633145c07p-52), low);
  // Arguments below pi / 4 need no reduction; products of tiny numbers would lose bits.
  const V near = magnitude_f64 < real(x, 0x1.8p-1);
  return {select(near, magnitude_f64, reduced), same_bits(quarter.shifted, DType::u64)};
}

// sin(r) and cos(r) on [0, pi / 4] as r + r^3 S(r^2) and 1 - r^2 / 2 + r^4 C(r^2): relative errors
// 2^-32.2, 2^-33, 2^-57.9 and 2^-63.9.
constexpr std::array<double, 4> sin_f32{-0x1.555556p-3, 0x1.111164p-7, -0x1.a04866p-13,
                                        0x1.77e21p-19};
constexpr std::array<double, 3> cos_f32{0x1.55554ap-5, -0x1.6c0c2ap-10, 0x1.99e914p-16};
constexpr std::array<double, 6> sin_f64{-0x1.5555555555548p-3,  0x1.111111110f76p-7,
                                        -0x1.a01a019bf2b81p-13, 0x1.71de355fa53bdp-19,
                                        -0x1.ae5e5500c1348p-26, 0x1.5d8e62828f24dp-33};
constexpr std::array<double, 6> cos_f64{0x1.555555555554bp-5,  -0x1.6c16c16c15018p-10,
                                        0x1.a01a019c8f945p-16, -0x1.27e4f7f1ee922p-22,
                                        0x1.1ee9dc12c88acp-29, -0x1.8fa6a8a7d84dfp-37};

/// sin(a + quadrants / 4 turns).
V sine(V a, std::int64_t quadrants) {
  const bool single = a.type == DType::f32;
  const Reduced reduced = single ? reduce_single(magnitude(a)) : reduce_double(magnitude(a));
  const V r = cast(reduced.angle, a.type);
  const DType bits = real_format(a.type).bits;
  const V quadrant = cast(reduced.quadrant, bits) + a.in->integer(bits, quadrants);
  const V square = r * r;
  const V sin_tail = horner(square, single ? std::span<const double>(sin_f32) : sin_f64);
  const V sin = fma(r * square, sin_tail, r);
  const V cos_tail = horner(square, single ? std::span<const double>(cos_f32) : cos_f64);
  const V half = square * real(a, -0.5);
  const V cos = like(a, 1) + fma(square * square, cos_tail, half);
  const V is_odd = (quadrant & like(quadrant, 1)) != like(quadrant, 0);
  const V upper = (quadrant >> 1) << static_cast<int>(8 * size_of(a.type) - 1);
  // cos is even; the sine takes the sign of its argument.
  const V sign = quadrants == 0 ? upper ^ sign_bit(a) : upper;
  return flip_sign(select(is_odd, cos, sin), sign);
}

}  // namespace

V math_sin(V a) { return sine(a, 0); }
V math_cos(V a) { return sine(a, 1); }

}  // namespace heddle::jit
