// See words.hpp.
#include "jit/schedule/words.hpp"

#include <algorithm>
#include <limits>

namespace heddle::jit {
namespace {

constexpr Interval i8_range{-128, 127}, u8_range{0, 255}, i16_range{-32768, 32767};
constexpr std::int64_t raised_by = 128;

bool is_within(const Interval& inner, const Interval& outer) {
  return outer.lowest <= inner.lowest && inner.highest <= outer.highest;
}

Interval range_of_type(DType type) {
  if (type == DType::bool_) return {0, 1};
  const auto bits = static_cast<int>(8 * size_of(type));
  const Int128 values = static_cast<Int128>(1) << bits;
  if (!info(type).is_signed) return {0, values - 1};
  return {-values / 2, values / 2 - 1};
}

Interval hull(const Interval& a, const Interval& b) {
  return {std::min(a.lowest, b.lowest), std::max(a.highest, b.highest)};
}

Interval product(const Interval& a, const Interval& b) {
  const auto [least, most] = std::minmax(
      {a.lowest * b.lowest, a.lowest * b.highest, a.highest * b.lowest, a.highest * b.highest});
  return {least, most};
}

/// The range of an operation that does not wrap, on operands of at most 32 bits.
Interval range_of_op(Op op, const std::vector<Interval>& of, const Interval& all) {
  switch (op) {
    case Op::identity:
      return of[0];
    case Op::add:
      return {of[0].lowest + of[1].lowest, of[0].highest + of[1].highest};
    case Op::sub:
      return {of[0].lowest - of[1].highest, of[0].highest - of[1].lowest};
    case Op::neg:
      return {-of[0].highest, -of[0].lowest};
    case Op::mul:
      return product(of[0], of[1]);
    case Op::max:
      return {std::max(of[0].lowest, of[1].lowest), std::max(of[0].highest, of[1].highest)};
    case Op::min:
      return {std::min(of[0].lowest, of[1].lowest), std::min(of[0].highest, of[1].highest)};
    case Op::relu:
      return {std::max<Int128>(of[0].lowest, 0), std::max<Int128>(of[0].highest, 0)};
    case Op::where:
      return hull(of[1], of[2]);
    default:
      return all;
  }
}

/// True if a bf16 can represent every possible result.
bool is_bf16(const Value& value) {
  if (value.kind == ValueKind::op)
    return (value.op == Op::neg || value.op == Op::abs || value.op == Op::relu) &&
           is_bf16(*value.args[0]);
  return value.kind == ValueKind::cast && value.dtype == DType::f32 &&
         value.args[0]->dtype == DType::bf16;
}

}  // namespace

Interval range_of(const Value& value) {
  if (is_floating(value.dtype)) return {};
  const Interval all = range_of_type(value.dtype);
  if (value.kind == ValueKind::constant) {
    if (value.dtype == DType::u64) return all;
    return {value.scalar.i, value.scalar.i};
  }
  if (value.kind != ValueKind::op && value.kind != ValueKind::cast) return all;
  std::vector<Interval> of;
  for (const ValuePtr& arg : value.args) {
    if (is_floating(arg->dtype) || size_of(arg->dtype) > 4) return all;
    of.push_back(range_of(*arg));
  }
  const bool to_bool = value.kind == ValueKind::cast && value.dtype == DType::bool_;
  if (to_bool) return all;
  const Interval found = value.kind == ValueKind::cast ? of[0] : range_of_op(value.op, of, all);
  return is_within(found, all) ? found : all;
}

Words words_for(const Contraction& c, const Target& target, bool fast_math) {
  Words words;
  words.type = c.type;
  if (fast_math && c.type == DType::f32 && c.row && target.isa >= Isa::avx512_bf16 &&
      is_bf16(*c.a) && is_bf16(*c.b)) {
    words.terms = 2;
    words.type = DType::i32;
  }
  if (c.type != DType::i32 || !c.row || target.isa < Isa::avx2) return words;
  const Interval a = range_of(*c.a), b = range_of(*c.b);
  if (target.isa >= Isa::avx512_vnni && is_within(b, i8_range) &&
      (is_within(a, u8_range) || is_within(a, i8_range))) {
    words.terms = 4;
    words.a_raised = !is_within(a, u8_range);
  } else if (target.isa >= Isa::avx512_vnni && is_within(a, i8_range) && is_within(b, u8_range)) {
    words.terms = 4;
    words.b_unsigned = true;
  } else if (is_within(a, i16_range) && is_within(b, i16_range)) {
    words.terms = 2;
  }
  return words;
}

namespace {

/// `value`, an i32 in the range of a term, moved to the n-th place of a word.
ValuePtr part_of_word(const Words& words, const ValuePtr& value, std::int64_t n) {
  const std::int64_t bits = 32 / words.terms;
  const ValuePtr low =
      n + 1 == words.terms
          ? value
          : make_cast(make_cast(value, bits == 8 ? DType::u8 : DType::u16), DType::i32);
  if (n == 0) return low;
  const Scalar moved = Scalar::of_int(DType::i32, std::int64_t{1} << (n * bits));
  return make_op(Op::mul, {low, make_constant(moved)});
}

}  // namespace

ValuePtr word_of(const Words& words, const std::vector<ValuePtr>& values) {
  if (words.terms == 1) return values.front();
  if (is_floating(values.front()->dtype)) {
    const ValuePtr zero = make_constant(Scalar::of_float(DType::f32, 0));
    return make_op(Op::pair_bf16, {values[0], values.size() > 1 ? values[1] : zero});
  }
  ValuePtr word;
  for (std::size_t n = 0; n < values.size(); ++n) {
    const ValuePtr part = part_of_word(words, values[n], static_cast<std::int64_t>(n));
    word = word ? make_op(Op::add, {word, part}) : part;
  }
  return word;
}

ValuePtr raised(const Words& words, const ValuePtr& value) {
  if (!words.a_raised) return value;
  return make_op(Op::add, {value, make_constant(Scalar::of_int(DType::i32, raised_by))});
}

ValuePtr add_raised(const ValuePtr& b, const ValuePtr& so_far) {
  constexpr std::int64_t in_all = raised_by * 0x01010101;
  return make_op(Op::dot4, {make_constant(Scalar::of_int(DType::i32, in_all)), b, so_far});
}

ValuePtr add_products(const Words& words, const ValuePtr& a, const ValuePtr& b,
                      const ValuePtr& so_far) {
  if (is_floating(so_far->dtype)) return make_op(Op::dot_bf16, {a, b, so_far});
  if (words.terms == 2) return make_op(Op::dot2, {a, b, so_far});
  return words.b_unsigned ? make_op(Op::dot4, {b, a, so_far}) : make_op(Op::dot4, {a, b, so_far});
}

}  // namespace heddle::jit
