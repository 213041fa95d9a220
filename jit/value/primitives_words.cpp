// See value/primitives_words.hpp.
#include "jit/value/primitives_words.hpp"

namespace heddle::jit {
namespace {

using V = PrimValue;

/// Bits of a u32 as a signed number.
V signed_part(V word, int from, int bits) {
  const V sign = like(word, std::int64_t{1} << (bits - 1));
  const V part = (word >> from) & like(word, (std::int64_t{1} << bits) - 1);
  return (part ^ sign) - sign;
}

/// An f32; a subnormal becomes a zero of the same sign.
V flushed(V x) {
  const V bits = same_bits(x, DType::u32);
  const V is_small = (bits & like(bits, 0x7f800000)) == like(bits, 0);
  return same_bits(select(is_small, bits & like(bits, 0x80000000), bits), DType::f32);
}

/// a * b + sum, rounded once; 0 if the result, rounded with an unbounded exponent range, is
/// subnormal. A result equal to the least normal number may have been such a subnormal.
V flushed_fma(V a, V b, V sum) {
  const V made = fma(a, b, sum);
  const V bits = same_bits(made, DType::u32);
  const auto wide = [](V x) { return cast(x, DType::f64); };
  const V exact = fma(wide(a), wide(b), wide(sum));
  const V magnitude = call("__builtin_fabsf", "__builtin_fabs", {exact});
  const V is_least = (bits & like(bits, 0x7fffffff)) == like(bits, 0x00800000);
  const V was_less = magnitude < real(exact, flushed_below);
  return flushed(
      same_bits(select(is_least & was_less, bits & like(bits, 0x80000000), bits), DType::f32));
}

/// Intel 64 and IA-32 Architectures Software Developer's Manual, VDPBF16PS. AMD processors give the
/// same bits.
V dot_bf16(V a, V b, V sum) {
  if (a.in->isa() >= Isa::avx512_bf16) return a.in->push(PrimOp::dot_bf16, DType::f32, {a, b, sum});
  const V x = cast(a, DType::u32), y = cast(b, DType::u32);
  const auto high = [](V word) {
    return flushed(same_bits(word & like(word, 0xffff0000), DType::f32));
  };
  sum = flushed_fma(high(x), high(y), flushed(sum));
  return flushed_fma(high(x << 16), high(y << 16), sum);
}

V pair_bf16(V low, V high) {
  const V above = same_bits(high, DType::u32) & low.in->integer(DType::u32, 0xffff0000);
  return cast((same_bits(low, DType::u32) >> 16) | above, DType::i32);
}

}  // namespace

V words_op(Op op, V first, V second, V third) {
  if (op == Op::pair_bf16) return pair_bf16(first, second);
  if (op == Op::dot_bf16) return dot_bf16(first, second, third);
  PrimBuilder& in = *first.in;
  if (in.isa() >= Isa::avx512_vnni) {
    const PrimOp prim = op == Op::dot2 ? PrimOp::dot2 : PrimOp::dot4;
    return in.push(prim, DType::i32, {first, second, third});
  }
  V sum = cast(third, DType::u32);
  const V a = cast(first, DType::u32), b = cast(second, DType::u32);
  if (op == Op::dot4) {
    for (int from = 0; from < 32; from += 8)
      sum = sum + ((a >> from) & like(a, 0xff)) * signed_part(b, from, 8);
  } else if (in.isa() >= Isa::avx2) {
    sum = sum + cast(in.push(PrimOp::pairs, DType::i32, {first, second}), DType::u32);
  } else {
    for (int from = 0; from < 32; from += 16)
      sum = sum + signed_part(a, from, 16) * signed_part(b, from, 16);
  }
  return cast(sum, DType::i32);
}

}  // namespace heddle::jit
