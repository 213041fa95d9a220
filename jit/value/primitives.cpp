// The operations of value/ops.hpp as primitive functions. Conversions are in
// value/primitives_cast.cpp, exp, sin and the like in primitives_math*.cpp. Pure.
#include "jit/value/primitives.hpp"

#include <fmt/format.h>

#include <array>

#include "jit/value/primitive_builder.hpp"
#include "jit/value/primitives_math.hpp"
#include "jit/value/primitives_words.hpp"
#include "jit/value/threefry.hpp"
#include "scheduler/threads/never_destroyed.hpp"

namespace heddle::jit {
namespace {

using V = PrimValue;
using Args = std::array<V, 3>;

/// The unsigned type for arithmetic of integer type `t`: the type wraps, and narrow types keep the
/// low bits.
DType wide(DType t) { return size_of(t) == 8 ? DType::u64 : DType::u32; }
V widen(V a) { return cast(a, wide(a.type)); }
V wrapping_neg(V a) { return cast(like(widen(a), 0) - widen(a), a.type); }

/// 1 where dividing by `b` would trap or leave the type, else `b`.
V safe_divisor(V b) {
  if (!info(b.type).is_signed) return select(b == like(b, 0), like(b, 1), b);
  return select((b == like(b, 0)) | (b == like(b, -1)), like(b, 1), b);
}

V integer_div(V a, V b) {
  if (size_of(a.type) < 4) {  // in 32 bits even MIN / -1 fits, and wraps back to MIN
    const V x = cast(a, DType::i32);
    const V y = cast(b, DType::i32);
    const V quotient = cast(x / select(y == like(y, 0), like(y, 1), y), a.type);
    return select(b == like(b, 0), like(a, 0), quotient);
  }
  const V quotient = a / safe_divisor(b);
  const V nonzero =
      info(a.type).is_signed ? select(b == like(b, -1), wrapping_neg(a), quotient) : quotient;
  return select(b == like(b, 0), like(a, 0), nonzero);
}

V integer_rem(V a, V b) {
  if (size_of(a.type) >= 4) return a % safe_divisor(b);  // x % 1 is 0, as wanted for 0 and -1
  const V y = cast(b, DType::i32);
  return cast(cast(a, DType::i32) % select(y == like(y, 0), like(y, 1), y), a.type);
}

/// Binary powering; stops at the highest bit of the exponent.
V integer_pow(V a, V b) {
  PrimBuilder& in = *a.in;
  const DType t = a.type;
  const V exponent = widen(b);
  const bool is_signed = info(t).is_signed;
  const V start = is_signed ? select(b < like(b, 0), like(exponent, 0), exponent) : exponent;
  const V n = in.push(PrimOp::variable, wide(t), {start});
  const V base = in.push(PrimOp::variable, wide(t), {widen(a)});
  const V product = in.push(PrimOp::variable, wide(t), {like(base, 1)});
  in.loop();
  in.leave_if(n == like(n, 0));
  in.assign(product, select((n & like(n, 1)) != like(n, 0), product * base, product));
  in.assign(base, base * base);
  in.assign(n, n >> 1);
  in.end_loop();
  const V power = cast(product, t);
  if (!is_signed) return power;
  const V odd = (exponent & like(exponent, 1)) != like(exponent, 0);
  const V of_minus_one = select(odd, like(a, -1), like(a, 1));
  const V inverse =
      select(a == like(a, 1), like(a, 1), select(a == like(a, -1), of_minus_one, like(a, 0)));
  return select(b < like(b, 0), inverse, power);
}

V integer_op(Op op, const Args& v) {
  const V a = v[0];
  const V b = v[1];
  switch (op) {
    case Op::add:
      return cast(widen(a) + widen(b), a.type);
    case Op::sub:
      return cast(widen(a) - widen(b), a.type);
    case Op::mul:
      return cast(widen(a) * widen(b), a.type);
    case Op::fma:
      return cast(widen(a) * widen(b) + widen(v[2]), a.type);
    case Op::mul3:
      return cast(widen(a) * widen(b) * widen(v[2]), a.type);
    case Op::div:
      return integer_div(a, b);
    case Op::mod:
      return integer_rem(a, b);
    case Op::pow:
      return integer_pow(a, b);
    case Op::neg:
      return wrapping_neg(a);
    case Op::abs:
      return info(a.type).is_signed ? select(a < like(a, 0), wrapping_neg(a), a) : a;
    case Op::relu:
      return select(like(a, 0) < a, a, like(a, 0));
    case Op::relu_gate:
      return select(like(a, 0) < a, b, like(a, 0));
    case Op::satur01:
      return select(like(a, 0) < a, like(a, 1), like(a, 0));
    case Op::satur01_gate:
      return like(a, 0);  // no integer lies strictly between 0 and 1
    default:
      return a;  // trunc, floor, ceil
  }
}

// One instruction each; a comparison with the nearest whole number would become a branch in scalar
// code, which half of all elements take.
V floating_floor(V a) { return call("__builtin_floorf", "__builtin_floor", {a}); }
V floating_ceil(V a) { return call("__builtin_ceilf", "__builtin_ceil", {a}); }
V floating_trunc(V a) { return call("__builtin_truncf", "__builtin_trunc", {a}); }

/// Negates by the sign bit: GCC 12 makes -(a b) - c of -(a b + c), which is 0 where the correct
/// result is -0.
V negated(V a) {
  const V bits = same_bits(a, real_format(a.type).bits);
  return flip_sign(a, like(bits, 1) << static_cast<int>(8 * size_of(a.type) - 1));
}

V floating_op(Op op, const Args& v) {
  const V a = v[0];
  const V b = v[1];
  switch (op) {
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::div:
      return a / b;
    case Op::mod:
      return call("fmodf", "fmod", {a, b});
    case Op::pow:
      return math_pow(a, b);
    case Op::fma:
      return fma(a, b, v[2]);
    case Op::mul3:
      return a * b * v[2];
    case Op::neg:
      return negated(a);
    case Op::abs:
      return magnitude(a);
    case Op::trunc:
      return floating_trunc(a);
    case Op::floor:
      return floating_floor(a);
    case Op::ceil:
      return floating_ceil(a);
    case Op::relu:
      return larger(a, like(a, 0));
    case Op::relu_gate:
      return select(like(a, 0) < a, b, like(a, 0));
    case Op::satur01:
      return larger(smaller(a, like(a, 1)), like(a, 0));
    case Op::satur01_gate:
      return select((like(a, 0) < a) & (a < like(a, 1)), b, like(a, 0));
    default:
      throw Error(ErrorCode::internal,
                  fmt::format("'{}' is not an arithmetic operation", op_info(op).name));
  }
}

V real_op(Op op, V a) {
  const auto root = [a] { return call("__builtin_sqrtf", "__builtin_sqrt", {a}); };
  switch (op) {
    case Op::exp:
      return math_exp(a);
    case Op::log:
      return math_log(a);
    case Op::exp2:
      return math_exp2(a);
    case Op::log2:
      return math_log2(a);
    case Op::sin:
      return math_sin(a);
    case Op::cos:
      return math_cos(a);
    case Op::tanh:
      return math_tanh(a);
    case Op::erf:
      return math_erf(a);
    case Op::sqrt:
      return root();
    case Op::recip:
      return like(a, 1) / a;
    default:
      return like(a, 1) / root();  // rsqrt
  }
}

/// As threefry2x32() of value/threefry.hpp, unrolled.
V threefry(V key, V counter, int rounds) {
  const auto low = [](V v) { return cast(v, DType::u32); };
  const auto rotate = [](V v, int count) { return (v << count) | (v >> (32 - count)); };
  const V k0 = low(key);
  const V k1 = low(key >> 32);
  const V parity = key.in->integer(DType::u32, threefry_parity);
  const std::array<V, 3> ks{k0, k1, parity ^ k0 ^ k1};
  V x0 = low(counter) + ks[0];
  V x1 = low(counter >> 32) + ks[1];
  for (int round = 0; round < rounds; ++round) {
    x0 = x0 + x1;
    x1 = rotate(x1, threefry_rotations[static_cast<std::size_t>(round % 8)]) ^ x0;
    if (round % 4 == 3) {
      const int injection = round / 4 + 1;
      x0 = x0 + ks[static_cast<std::size_t>(injection % 3)];
      x1 = x1 + ks[static_cast<std::size_t>((injection + 1) % 3)] + like(x1, injection);
    }
  }
  return cast(x0, DType::u64) | (cast(x1, DType::u64) << 32);
}

/// The bits, with a single NaN for all NaNs, as the payload of an operation's NaN depends on the
/// machine.
V bits_of(V a) {
  const V bits = same_bits(a, real_format(a.type).bits);
  return select(is_nan(a), like(bits, size_of(a.type) == 8 ? 0x7ff8000000000000 : 0x7fc00000),
                bits);
}

V other_op(Op op, const Args& v) {
  const V a = v[0];
  const V b = v[1];
  const bool floating = is_floating(a.type);
  // Of bools without an order: GCC 12 takes true for -1 where comparisons become vectors.
  if (a.type == DType::bool_) {
    const auto not_a = [&] { return a == like(a, 0); };
    if (op == Op::max) return a | b;
    if (op == Op::min) return a & b;
    if (op == Op::lt) return not_a() & b;
    if (op == Op::le) return not_a() | b;
  }
  switch (op) {
    case Op::max:
      return floating ? select(is_nan(a), a, larger(b, a)) : select(b < a, a, b);
    case Op::min:
      return floating ? select(is_nan(a), a, smaller(b, a)) : select(a < b, a, b);
    case Op::identity:
    case Op::arg1:
      return a;
    case Op::arg2:
      return b;
    case Op::lt:
      return a < b;
    case Op::le:
      return a <= b;
    case Op::eq:
      return a == b;
    case Op::ne:
      return a != b;
    case Op::and_:
      return a & b;
    case Op::or_:
      return a | b;
    case Op::not_:
      return a == like(a, 0);
    case Op::threefry:
      return threefry(a, b, threefry_rounds);
    case Op::threefry_light:
      return threefry(a, b, threefry_light_rounds);
    case Op::uniform:
      return cast(cast(a >> 40, DType::u32), DType::f32) * a.in->constant(DType::f32, 0x1p-24);
    case Op::bits:
      return bits_of(a);
    case Op::from_bits:
      return same_bits(a, a.type == DType::u64 ? DType::f64 : DType::f32);
    default:
      return select(a, b, v[2]);  // where
  }
}

PrimFunction make_function(Op op, DType operands, Isa isa) {
  const OpInfo& op_data = op_info(op);
  std::vector<DType> params;
  for (std::size_t k = 0; k < op_data.arity; ++k) params.push_back(operand_type(op, operands, k));
  PrimBuilder in(fmt::format("{}_{}", op_data.name, name(operands)), params, isa);
  Args args{};
  for (std::uint32_t k = 0; k < op_data.arity; ++k) args[k] = in.param(k);
  switch (op_data.op_class) {
    case OpClass::arith:
      return in.finish(is_floating(operands) ? floating_op(op, args) : integer_op(op, args));
    case OpClass::real:
      return in.finish(real_op(op, args[0]));
    case OpClass::words:
      return in.finish(words_op(op, args[0], args[1], args[2]));
    default:
      return in.finish(other_op(op, args));
  }
}

bool is_inline_op(PrimOp op) noexcept {
  switch (op) {
    case PrimOp::add:
    case PrimOp::sub:
    case PrimOp::mul:
    case PrimOp::div:
    case PrimOp::neg:
    case PrimOp::bit_and:
    case PrimOp::bit_or:
    case PrimOp::lt:
    case PrimOp::le:
    case PrimOp::eq:
    case PrimOp::ne:
    case PrimOp::cast:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::uint32_t num_operands(const Prim& prim) noexcept {
  switch (prim.op) {
    case PrimOp::constant:
    case PrimOp::table:
    case PrimOp::loop:
    case PrimOp::end_loop:
      return 0;
    case PrimOp::neg:
    case PrimOp::cast:
    case PrimOp::bits:
    case PrimOp::variable:
    case PrimOp::leave_if:
      return 1;
    case PrimOp::select:
    case PrimOp::dot2:
    case PrimOp::dot4:
    case PrimOp::dot_bf16:
      return 3;
    case PrimOp::call:
      if (prim.function.starts_with("__builtin_fma")) return 3;
      return prim.function.starts_with("fmod") ? 2 : 1;
    default:
      return 2;
  }
}

bool PrimFunction::is_single() const noexcept {
  if (code.size() != 1 || !is_inline_op(code[0].op) || value != params.size()) return false;
  if (num_operands(code[0]) != params.size()) return false;
  for (std::uint32_t k = 0; k < params.size(); ++k) {
    if (code[0].args[k] != k) return false;
  }
  return true;
}

const PrimFunction& op_function(Op op, DType operands, Isa isa) {
  constexpr std::size_t isas = static_cast<std::size_t>(Isa::avx512_bf16) + 1;
  static sched::NeverDestroyed<MadeFunctions<op_count * dtype_count * isas>> functions;
  const std::size_t k =
      static_cast<std::size_t>(op) * dtype_count + static_cast<std::size_t>(operands);
  return (*functions).get(isas * k + static_cast<std::size_t>(isa), [&] {
    return make_function(op, operands, isa);
  });
}

const PrimFunction& least_zero_function(DType type) {
  static sched::NeverDestroyed<MadeFunctions<dtype_count>> functions;
  return (*functions).get(static_cast<std::size_t>(type), [&] {
    const bool wide = size_of(type) == 8;
    PrimBuilder in(fmt::format("least_zero_{}", name(type)), {type});
    const PrimValue x = in.push(PrimOp::bits, wide ? DType::u64 : DType::u32, {in.param(0)});
    const PrimValue all_unless_negative = (x >> (wide ? 63 : 31)) - like(x, 1);
    return in.finish(in.push(PrimOp::bits, type, {x & all_unless_negative}));
  });
}

}  // namespace heddle::jit
