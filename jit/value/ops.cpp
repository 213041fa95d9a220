// Tables of operations and the typing rules of jit/value/ops.hpp. Pure functions.
#include "jit/value/ops.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

namespace heddle::jit {
namespace {

constexpr std::string_view strip(std::string_view name) {
  return name.ends_with('_') ? name.substr(0, name.size() - 1) : name;
}

constexpr OpInfo infos[] = {
#define HEDDLE_OP_INFO(name, arity, cls) {strip(#name), arity, OpClass::cls},
    HEDDLE_OPS(HEDDLE_OP_INFO)
#undef HEDDLE_OP_INFO
};

/// The smallest integer type of the given signedness with at least `bytes` bytes.
constexpr std::optional<DType> integer_type(bool is_signed, std::size_t bytes) {
  for (const DType t : {DType::u8, DType::i8, DType::u16, DType::i16, DType::u32, DType::i32,
                        DType::u64, DType::i64}) {
    if (info(t).is_signed == is_signed && size_of(t) == bytes) return t;
  }
  return std::nullopt;
}

std::optional<OpTyping> type_common(OpClass op_class, DType common) noexcept {
  switch (op_class) {
    case OpClass::arith: {
      const DType t = common == DType::bool_ ? DType::i32 : compute_type(common);
      return OpTyping{t, t};
    }
    case OpClass::order:
      return OpTyping{compute_type(common), compute_type(common)};
    case OpClass::test:
      return OpTyping{compute_type(common), DType::bool_};
    case OpClass::logic:
      return OpTyping{DType::bool_, DType::bool_};
    case OpClass::real: {
      const DType t = is_floating(common) ? compute_type(common) : DType::f32;
      return OpTyping{t, t};
    }
    case OpClass::bits:
      if (is_floating(common)) return std::nullopt;
      return OpTyping{DType::u64, DType::u64};
    case OpClass::words:
      if (is_floating(common)) return std::nullopt;
      return OpTyping{DType::i32, DType::i32};
    case OpClass::other:
      break;
  }
  return std::nullopt;
}

}  // namespace

const OpInfo& op_info(Op op) noexcept { return infos[static_cast<std::size_t>(op)]; }

std::span<const OpInfo> all_ops() noexcept { return infos; }

std::optional<Op> parse_op(std::string_view name) noexcept {
  const auto at = std::ranges::find(infos, name, &OpInfo::name);
  if (at == std::end(infos)) return std::nullopt;
  return static_cast<Op>(at - std::begin(infos));
}

std::optional<DType> promote(DType a, DType b) noexcept {
  if (a == b) return a;
  if (a == DType::bool_) return b;
  if (b == DType::bool_) return a;
  if (is_floating(a) && is_floating(b)) {
    if (size_of(a) == size_of(b)) return DType::f32;  // f16 with bf16
    return size_of(a) > size_of(b) ? a : b;
  }
  if (is_floating(a)) return a;
  if (is_floating(b)) return b;
  if (info(a).is_signed == info(b).is_signed) return size_of(a) > size_of(b) ? a : b;
  const DType with_sign = info(a).is_signed ? a : b;
  const DType without = info(a).is_signed ? b : a;
  // The signed type must hold every value of the unsigned one.
  return integer_type(true, std::max(size_of(with_sign), 2 * size_of(without)));
}

DType operand_type(Op op, DType operands, std::size_t k) noexcept {
  if (op == Op::where && k == 0) return DType::bool_;
  return op == Op::dot_bf16 && k < 2 ? DType::i32 : operands;
}

std::optional<OpTyping> type_op(Op op, std::span<const DType> args) noexcept {
  const OpInfo& op_data = op_info(op);
  if (args.size() != op_data.arity) return std::nullopt;
  if (op == Op::where) {
    const auto common = promote(args[1], args[2]);
    if (!common) return std::nullopt;
    return OpTyping{compute_type(*common), compute_type(*common)};
  }
  if (op == Op::uniform) {
    if (is_floating(args[0])) return std::nullopt;
    return OpTyping{DType::u64, DType::f32};
  }
  if (op == Op::bits) {
    const DType t = compute_type(args[0]);
    if (!is_floating(t)) return std::nullopt;
    return OpTyping{t, size_of(t) == 8 ? DType::u64 : DType::u32};
  }
  if (op == Op::pair_bf16) {
    for (const DType arg : args) {
      if (compute_type(arg) != DType::f32) return std::nullopt;
    }
    return OpTyping{DType::f32, DType::i32};
  }
  if (op == Op::dot_bf16) {
    if (!is_integer(args[0]) || !is_integer(args[1]) || compute_type(args[2]) != DType::f32)
      return std::nullopt;
    return OpTyping{DType::f32, DType::f32};
  }
  if (op == Op::from_bits) {
    if (args[0] == DType::u32) return OpTyping{DType::u32, DType::f32};
    if (args[0] == DType::u64) return OpTyping{DType::u64, DType::f64};
    return std::nullopt;
  }
  if (op_data.op_class == OpClass::logic || op_data.op_class == OpClass::bits ||
      op_data.op_class == OpClass::words) {
    // Every operand converts separately: no common type is needed.
    for (const DType arg : args) {
      if (!type_common(op_data.op_class, arg)) return std::nullopt;
    }
    return type_common(op_data.op_class, args[0]);
  }
  DType common = args[0];
  for (const DType arg : args.subspan(1)) {
    const auto joined = promote(common, arg);
    if (!joined) return std::nullopt;
    common = *joined;
  }
  return type_common(op_data.op_class, common);
}

std::optional<Scalar> neutral(Op op, DType dtype) noexcept {
  const bool floating = is_floating(dtype);
  const auto whole = [&](std::int64_t value) {
    return floating ? Scalar::of_float(dtype, static_cast<double>(value))
                    : Scalar::of_int(dtype, value);
  };
  const auto bits = static_cast<unsigned>(8 * size_of(dtype));
  const bool is_signed = info(dtype).is_signed;
  switch (op) {
    case Op::add:
    case Op::sub:
    case Op::arg1:
    case Op::arg2:
      return whole(0);
    case Op::mul:
    case Op::div:
    case Op::pow:
    case Op::relu_gate:
      return whole(1);
    case Op::and_:
      return whole(1);
    case Op::or_:
      return whole(0);
    case Op::max:
      if (floating) return Scalar::of_float(dtype, -std::numeric_limits<double>::infinity());
      if (!is_signed) return whole(0);
      return Scalar::of_int(dtype, std::numeric_limits<std::int64_t>::min() >> (64 - bits));
    case Op::min:
      if (floating) return Scalar::of_float(dtype, std::numeric_limits<double>::infinity());
      if (dtype == DType::bool_) return whole(1);
      if (!is_signed) return Scalar::of_int(dtype, -1);
      return Scalar::of_int(dtype, std::numeric_limits<std::int64_t>::max() >> (64 - bits));
    default:
      return std::nullopt;
  }
}

}  // namespace heddle::jit
