// See value/primitive_eval.hpp. An instruction is a single IEEE or integer operation of the host,
// rounded to its type.
#include "jit/value/primitive_eval.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "heddle/status.hpp"
#include "jit/value/primitives_words.hpp"

namespace heddle::jit {
namespace {

std::uint64_t raw_bits(const Scalar& v) {
  if (v.dtype == DType::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(v.f));
  return v.dtype == DType::f64 ? std::bit_cast<std::uint64_t>(v.f)
                               : static_cast<std::uint64_t>(v.i);
}

Scalar from_raw_bits(DType type, std::uint64_t bits) {
  if (type == DType::f32) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    return Scalar::of_float(type, static_cast<double>(value));
  }
  if (type == DType::f64) return Scalar::of_float(type, std::bit_cast<double>(bits));
  return Scalar::of_int(type, std::bit_cast<std::int64_t>(bits));
}

/// Arithmetic in the type itself: binary32 is not computed in binary64.
template <class T>
T floating(const Prim& prim, T a, T b, T c) {
  switch (prim.op) {
    case PrimOp::add:
      return a + b;
    case PrimOp::sub:
      return a - b;
    case PrimOp::mul:
      return a * b;
    case PrimOp::div:
      return a / b;
    case PrimOp::neg:
      return -a;
    case PrimOp::scale:
      return std::isnan(b) ? b : std::scalbn(a, static_cast<int>(b));
    default:
      break;
  }
  std::string_view name = prim.function;
  if (name.starts_with("__builtin_")) name.remove_prefix(std::string_view("__builtin_").size());
  if (sizeof(T) == sizeof(float)) name.remove_suffix(1);  // fmaf
  if (name == "fma") return std::fma(a, b, c);
  if (name == "fabs") return std::fabs(a);
  if (name == "rint") return std::rint(a);
  if (name == "floor") return std::floor(a);
  if (name == "ceil") return std::ceil(a);
  if (name == "trunc") return std::trunc(a);
  if (name == "sqrt") return std::sqrt(a);
  if (name == "fmod") return std::fmod(a, b);
  throw Error(ErrorCode::internal,
              fmt::format("there is no host function for '{}'", prim.function));
}

std::uint64_t integer(PrimOp op, DType type, std::uint64_t a, std::uint64_t b) {
  const bool is_signed = info(type).is_signed;
  const auto sa = std::bit_cast<std::int64_t>(a);
  const auto sb = std::bit_cast<std::int64_t>(b);
  switch (op) {
    case PrimOp::add:
      return a + b;
    case PrimOp::sub:
      return a - b;
    case PrimOp::mul:
      return a * b;
    case PrimOp::div:
      return is_signed ? std::bit_cast<std::uint64_t>(sa / sb) : a / b;
    case PrimOp::rem:
      return is_signed ? std::bit_cast<std::uint64_t>(sa % sb) : a % b;
    case PrimOp::bit_and:
      return a & b;
    case PrimOp::bit_or:
      return a | b;
    case PrimOp::bit_xor:
      return a ^ b;
    case PrimOp::shl:
      return a << b;
    default:
      return a >> b;
  }
}

bool compare(PrimOp op, const Scalar& a, const Scalar& b) {
  const auto order = [op](auto x, auto y) {
    switch (op) {
      case PrimOp::lt:
        return x < y;
      case PrimOp::le:
        return x <= y;
      case PrimOp::eq:
        return x == y;
      default:
        return x != y;
    }
  };
  if (is_floating(a.dtype)) return order(a.f, b.f);
  if (a.dtype == DType::u64)
    return order(static_cast<std::uint64_t>(a.i), static_cast<std::uint64_t>(b.i));
  return order(a.i, b.i);
}

/// The sum of the products of the parts of two words, as `A` and `B`.
template <class A, class B>
std::int64_t products(const Scalar& a, const Scalar& b) {
  static_assert(sizeof(A) == sizeof(B));
  std::int64_t sum = 0;
  for (std::size_t from = 0; from < 32; from += 8 * sizeof(A))
    sum += std::int64_t{static_cast<A>(a.i >> from)} * static_cast<B>(b.i >> from);
  return sum;
}

/// See Op::dot_bf16, and primitives_words.cpp.
float dot_bf16(const Scalar& a, const Scalar& b, float sum) {
  const auto flushed = [](float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
  };
  const auto part = [&flushed](const Scalar& word, int from) {
    const auto bits = static_cast<std::uint32_t>(word.i >> from) << 16;
    return flushed(std::bit_cast<float>(bits));
  };
  sum = flushed(sum);
  for (const int from : {16, 0}) {
    const float x = part(a, from), y = part(b, from);
    const double exact =
        std::fma(static_cast<double>(x), static_cast<double>(y), static_cast<double>(sum));
    const float rounded = std::fma(x, y, sum);
    sum = std::abs(exact) < flushed_below ? std::copysign(0.0F, rounded) : flushed(rounded);
  }
  return sum;
}

/// The value of an instruction with a result.
Scalar value_of(const Prim& prim, const Scalar& a, const Scalar& b, const Scalar& c) {
  switch (prim.op) {
    case PrimOp::constant:
      return prim.scalar;
    case PrimOp::lt:
    case PrimOp::le:
    case PrimOp::eq:
    case PrimOp::ne:
      return Scalar::of_int(DType::bool_, compare(prim.op, a, b) ? 1 : 0);
    case PrimOp::larger:
      return compare(PrimOp::lt, a, b) ? b : a;
    case PrimOp::smaller:
      return compare(PrimOp::lt, b, a) ? b : a;
    case PrimOp::select:
      return a.i != 0 ? b : c;
    case PrimOp::cast:
      return convert(a, prim.type);
    case PrimOp::bits:
      return from_raw_bits(prim.type, raw_bits(a));
    case PrimOp::variable:
      return a;
    case PrimOp::pairs:
      return Scalar::of_int(prim.type, products<std::int16_t, std::int16_t>(a, b));
    case PrimOp::dot2:
      return Scalar::of_int(prim.type, products<std::int16_t, std::int16_t>(a, b) + c.i);
    case PrimOp::dot4:
      return Scalar::of_int(prim.type, products<std::uint8_t, std::int8_t>(a, b) + c.i);
    case PrimOp::dot_bf16:
      return Scalar::of_float(prim.type,
                              static_cast<double>(dot_bf16(a, b, static_cast<float>(c.f))));
    default:
      break;
  }
  if (prim.type == DType::f64)
    return Scalar::of_float(prim.type, floating<double>(prim, a.f, b.f, c.f));
  if (prim.type == DType::f32) {
    const auto value = floating<float>(prim, static_cast<float>(a.f), static_cast<float>(b.f),
                                       static_cast<float>(c.f));
    return Scalar::of_float(prim.type, static_cast<double>(value));
  }
  const auto bits = [](const Scalar& v) { return static_cast<std::uint64_t>(v.i); };
  return Scalar::of_int(prim.type,
                        std::bit_cast<std::int64_t>(integer(prim.op, prim.type, bits(a), bits(b))));
}

}  // namespace

Scalar evaluate(const PrimFunction& function, std::span<const Scalar> args) {
  std::vector<Scalar> values(args.begin(), args.end());
  const std::size_t num_params = values.size();
  values.resize(num_params + function.code.size());
  std::size_t loop_begin = 0;
  for (std::size_t at = 0; at < function.code.size(); ++at) {
    const Prim& prim = function.code[at];
    const auto operand = [&](std::size_t k) -> Scalar& { return values[prim.args[k]]; };
    switch (prim.op) {
      case PrimOp::assign:
        operand(0) = operand(1);
        break;
      case PrimOp::loop:
        loop_begin = at;
        break;
      case PrimOp::leave_if:
        if (operand(0).i == 0) break;
        while (function.code[at].op != PrimOp::end_loop) ++at;
        break;
      case PrimOp::end_loop:
        at = loop_begin;
        break;
      case PrimOp::table:
        break;
      case PrimOp::lookup: {
        const std::span<const float> entries = function.code[prim.args[0] - num_params].entries;
        const auto index = static_cast<std::size_t>(operand(1).i) % entries.size();
        values[num_params + at] = Scalar::of_float(DType::f32, static_cast<double>(entries[index]));
        break;
      }
      default: {
        const std::uint32_t count = num_operands(prim);
        const Scalar none;
        values[num_params + at] =
            value_of(prim, count > 0 ? operand(0) : none, count > 1 ? operand(1) : none,
                     count > 2 ? operand(2) : none);
      }
    }
  }
  return values[function.value];
}

}  // namespace heddle::jit
