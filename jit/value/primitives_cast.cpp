// The conversions of value/ops.hpp as primitive functions. Pure.
#include <fmt/format.h>

#include <cmath>

#include "jit/value/primitive_builder.hpp"
#include "jit/value/primitives.hpp"
#include "scheduler/threads/never_destroyed.hpp"

namespace heddle::jit {
namespace {

using V = PrimValue;

/// Truncates toward zero, saturates at the ends of `to`; NaN is 0. Both ends are exact in `a`.
/// Operands whose result is 0 are replaced by 0 before the conversion: GCC 12 makes trunc(a) of
/// float(integer(a)), which is -0 for -0.5.
V saturate(V a, DType to) {
  PrimBuilder& in = *a.in;
  const bool is_signed = info(to).is_signed;
  const auto bits = static_cast<int>(8 * size_of(to)) - (is_signed ? 1 : 0);
  const V end = in.constant(a.type, std::ldexp(1.0, bits));
  const V size = is_signed ? magnitude(a) : a;
  const V inside = select((like(a, 1) <= size) & (size < end), a, like(a, 0));
  const std::uint64_t ones = ~std::uint64_t{0} >> (64 - bits);
  const V highest = in.integer(to, static_cast<std::int64_t>(ones));
  const V lowest = in.integer(to, is_signed ? static_cast<std::int64_t>(~ones) : std::int64_t{0});
  const V below = a <= (is_signed ? in.constant(a.type, -std::ldexp(1.0, bits)) : like(a, 0));
  return select(end <= a, highest, select(below, lowest, cast(inside, to)));
}

/// `count` units of binary16's subnormals, as binary32 bits. Few processors convert u32.
V half_units(V count) {
  const V units = cast(cast(count, DType::i32), DType::f32);
  return same_bits(units * units.in->constant(DType::f32, 0x1p-24), DType::u32);
}

/// The magnitude of a subnormal binary16, in its units: adding a half leaves the units in the low
/// bits, rounded by the hardware.
V subnormal_half(V magnitude) {
  const V half = magnitude.in->constant(DType::f32, 0.5);
  return same_bits(same_bits(magnitude, DType::f32) + half, DType::u32) -
         like(magnitude, 0x3f000000);
}

/// binary32 to binary16 bits, to nearest even, as Float16(float).
V to_half(V a) {
  const V x = same_bits(a, DType::u32);
  const V sign = (x >> 16) & like(x, 0x8000);
  const V magnitude = x & like(x, 0x7fffffff);
  const V nan = like(x, 0x7e00) | ((magnitude >> 13) & like(x, 0x3ff));
  const V rounded = magnitude + like(x, 0xfff) + ((magnitude >> 13) & like(x, 1));
  const V normal = (rounded - like(x, 0x38000000)) >> 13;
  const V finite = select(magnitude < like(x, 0x38800000), subnormal_half(magnitude), normal);
  const V overflown = select(magnitude < like(x, 0x477ff000), finite, like(x, 0x7c00));
  const V result = select(like(x, 0x7f800000) < magnitude, nan, overflown);
  return cast(sign | result, DType::u16);
}

/// binary16 bits to binary32, exactly, as float(Float16).
V from_half(V h) {
  const V bits = cast(h, DType::u32);
  const V sign = (bits & like(bits, 0x8000)) << 16;
  const V rest = bits & like(bits, 0x7fff);
  const V mantissa = bits & like(bits, 0x3ff);
  const V subnormal = half_units(mantissa);
  const V normal = (rest << 13) + like(bits, 0x38000000);  // exponent bias 15 becomes 127
  const V infinite = like(bits, 0x7f800000) | (mantissa << 13);
  const V quiet = select(mantissa == like(bits, 0), like(bits, 0), like(bits, 0x400000));
  const V finite = select(rest < like(bits, 0x400), subnormal, normal);
  const V magnitude = select(rest < like(bits, 0x7c00), finite, infinite | quiet);
  return same_bits(sign | magnitude, DType::f32);
}

/// binary32 rounded to a binary16 value, as float(Float16(float)).
V round_to_half(V a) {
  const V x = same_bits(a, DType::u32);
  const V magnitude = x & like(x, 0x7fffffff);
  const V kept = like(x, 0xffffe000);  // the bits of binary16
  const V nan = (magnitude & kept) | like(x, 0x400000);
  const V normal = (magnitude + like(x, 0xfff) + ((magnitude >> 13) & like(x, 1))) & kept;
  const V subnormal = half_units(subnormal_half(magnitude));
  const V finite = select(magnitude < like(x, 0x38800000), subnormal, normal);
  const V overflown = select(magnitude < like(x, 0x477ff000), finite, like(x, 0x7f800000));
  const V result = select(like(x, 0x7f800000) < magnitude, nan, overflown);
  return same_bits((x & like(x, 0x80000000)) | result, DType::f32);
}

/// binary32 to the upper half of its bits, to nearest even, as BFloat16(float).
V to_bfloat(V a) {
  const V x = same_bits(a, DType::u32);
  const V rounded = (x + like(x, 0x7fff) + ((x >> 16) & like(x, 1))) >> 16;
  const V nan = (x >> 16) | like(x, 0x40);
  const V is_nan_bits = like(x, 0x7f800000) < (x & like(x, 0x7fffffff));
  return cast(select(is_nan_bits, nan, rounded), DType::u16);
}

V from_bfloat(V b) { return same_bits(cast(b, DType::u32) << 16, DType::f32); }

PrimFunction make_function(DType from, DType to) {
  PrimBuilder in(fmt::format("{}_from_{}", name(to), name(from)), {machine_type(from)});
  V v = in.param(0);
  if (from == DType::f16) v = from_half(v);
  if (from == DType::bf16) v = from_bfloat(v);
  if (to == DType::bool_) return in.finish(v != like(v, 0));
  if (to == DType::f16) return in.finish(to_half(cast(v, DType::f32)));
  if (to == DType::bf16) return in.finish(to_bfloat(cast(v, DType::f32)));
  if (is_floating(v.type) && !is_floating(to)) return in.finish(saturate(v, to));
  return in.finish(cast(v, to));
}

}  // namespace

const PrimFunction& cast_function(DType from, DType to) {
  static sched::NeverDestroyed<MadeFunctions<dtype_count * dtype_count>> functions;
  return (*functions)
      .get(static_cast<std::size_t>(from) * dtype_count + static_cast<std::size_t>(to),
           [&] { return make_function(from, to); });
}

const PrimFunction& half_rounding_function() {
  static sched::NeverDestroyed<MadeFunctions<1>> function;
  return (*function).get(0, [] {
    PrimBuilder in("f32_rounded_to_f16", {DType::f32});
    return in.finish(round_to_half(in.param(0)));
  });
}

}  // namespace heddle::jit
