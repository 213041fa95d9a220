// Simplification of a value: constants, identities, conversions that cancel, chains of constants.
// Exact in IEEE arithmetic (including signed zeros, infinities and NaN, but not a NaN's payload)
// unless fast_math. Pure; any thread.
#include <algorithm>
#include <array>
#include <cmath>

#include "jit/loop/rewrite.hpp"
#include "jit/lower/passes.hpp"

namespace heddle::jit {
namespace {

bool is_constant(const ValuePtr& v) { return v->kind == ValueKind::constant; }
bool is_op(const ValuePtr& v, Op op) { return v->kind == ValueKind::op && v->op == op; }

/// True if the constant equals `number`; floating zeros must also agree in sign.
bool is_number(const ValuePtr& v, double number) {
  if (!is_constant(v)) return false;
  if (!is_floating(v->dtype)) return static_cast<double>(v->scalar.i) == number;
  return v->scalar.f == number && std::signbit(v->scalar.f) == std::signbit(number);
}

/// Bits of the contiguous range of integers from 0 that a type represents exactly.
int exact_bits(DType t) {
  switch (t) {
    case DType::bf16:
      return 8;
    case DType::f16:
      return 11;
    case DType::f32:
      return 24;
    case DType::f64:
      return 53;
    default:
      return static_cast<int>(8 * size_of(t)) - (info(t).is_signed ? 1 : 0);
  }
}

/// True if every value of `from` is a value of `to`.
bool holds_all_of(DType to, DType from) {
  if (to == from || from == DType::bool_) return true;
  if (to == DType::bool_) return false;
  if (is_floating(from)) return is_floating(to) && promote(from, to) == to;
  if (info(from).is_signed && !info(to).is_signed) return false;
  return exact_bits(from) <= exact_bits(to);
}

class ValueSimplifier {
 public:
  explicit ValueSimplifier(bool fast_math) : fast_math_(fast_math) {}

  ValuePtr node(ValuePtr v) const {
    if (v->kind == ValueKind::cast) return conversion(v);
    if (v->kind == ValueKind::embed && v->index.terms.empty())
      return make_constant(Scalar::of_int(DType::i64, v->index.constant));
    if (v->kind != ValueKind::op) return v;
    if (std::ranges::all_of(v->args, is_constant)) {
      std::vector<Scalar> args;
      for (const ValuePtr& arg : v->args) args.push_back(arg->scalar);
      return make_constant(fold_op(v->op, args));
    }
    v = negation(constant_last(std::move(v)));
    if (ValuePtr same = identity(*v)) return same;
    if (!loose(*v)) return v;
    if (ValuePtr less = loose_identity(*v)) return less;
    if (ValuePtr joined = regroup(*v)) return joined;
    if (ValuePtr product = unroll_power(*v)) return product;
    return v;
  }

 private:
  /// Integers have no NaN, no infinity, no signed zero, and wrap: their algebra is a ring.
  bool loose(const Value& v) const { return fast_math_ || !is_floating(v.dtype); }

  /// Removes conversions there and back, or a detour through a type that holds every value.
  static ValuePtr conversion(const ValuePtr& v) {
    const ValuePtr& inner = v->args[0];
    if (is_constant(inner)) return make_cast(inner, v->dtype);
    if (inner->dtype == DType::bool_ && inner->kind == ValueKind::op && size_of(v->dtype) >= 4) {
      // Vector code chooses by a mask, and converts no mask.
      const auto number = [&](std::int64_t value) {
        return make_constant(convert(Scalar::of_int(DType::i64, value), v->dtype));
      };
      return make_op(Op::where, {inner, number(1), number(0)});
    }
    if (inner->kind != ValueKind::cast) return v;
    const ValuePtr& source = inner->args[0];
    if (!holds_all_of(inner->dtype, source->dtype)) return v;
    if (source->dtype == v->dtype) return source;
    // Integer conversions wrap where conversions from floats saturate, so a detour through a float
    // has an effect.
    const bool saturates =
        !is_floating(source->dtype) && is_floating(inner->dtype) && !is_floating(v->dtype);
    return saturates ? v : make_cast(source, v->dtype);
  }

  /// c + x is x + c, c * x is x * c.
  static ValuePtr constant_last(ValuePtr v) {
    const bool commutes = v->op == Op::add || v->op == Op::mul;
    if (!commutes || !is_constant(v->args[0]) || is_constant(v->args[1])) return v;
    return make_op(v->op, {v->args[1], v->args[0]});
  }

  /// x * -1 (in mul3 too), x / -1 and -0 - x become -x: GCC makes negations of these forms too,
  /// some of them wrong (see Op::neg in value/primitives.cpp). A product stays a product, by which
  /// schedules recognise it.
  static ValuePtr negation(ValuePtr v) {
    if (!is_floating(v->dtype)) return v;
    if (v->op == Op::mul3) {
      const ValuePtr &a = v->args[0], &b = v->args[1], &c = v->args[2];
      if (is_number(a, -1)) return make_op(Op::mul, {make_op(Op::neg, {b}), c});
      if (is_number(b, -1)) return make_op(Op::mul, {make_op(Op::neg, {a}), c});
      if (is_number(c, -1)) return make_op(Op::neg, {make_op(Op::mul, {a, b})});
    }
    const bool scales = (v->op == Op::mul || v->op == Op::div) && is_number(v->args[1], -1) &&
                        !is_op(v->args[0], Op::mul);
    if (scales) return make_op(Op::neg, {v->args[0]});
    const bool takes = v->op == Op::sub && is_number(v->args[0], -0.0);
    return takes ? make_op(Op::neg, {v->args[1]}) : v;
  }

  /// The operand that equals the operation's result; null when there is none.
  static ValuePtr identity(const Value& v) {
    const auto arg = [&](std::size_t k) { return v.args[k]; };
    switch (v.op) {
      case Op::identity:
      case Op::arg1:
        return arg(0);
      case Op::arg2:
        return arg(1);
      case Op::add:  // x + -0 is x for every x; x + 0 turns -0 into 0
        return is_number(arg(1), -0.0) ? arg(0) : nullptr;
      case Op::sub:
        return is_number(arg(1), 0.0) ? arg(0) : nullptr;
      case Op::mul:
      case Op::div:
      case Op::pow:
        return is_number(arg(1), 1) ? arg(0) : nullptr;
      case Op::neg:
      case Op::not_:
        return is_op(arg(0), v.op) ? arg(0)->args[0] : nullptr;
      case Op::where:
        if (is_constant(arg(0))) return arg(arg(0)->scalar.i != 0 ? 1 : 2);
        return equal(*arg(1), *arg(2)) ? arg(1) : nullptr;
      case Op::and_:
        if (is_number(arg(0), 0) || is_number(arg(1), 1)) return arg(0);
        return is_number(arg(1), 0) || is_number(arg(0), 1) ? arg(1) : nullptr;
      case Op::or_:
        if (is_number(arg(0), 1) || is_number(arg(1), 0)) return arg(0);
        return is_number(arg(1), 1) || is_number(arg(0), 0) ? arg(1) : nullptr;
      default:
        return nullptr;
    }
  }

  /// Identities that NaN, infinities and signed zeros break.
  static ValuePtr loose_identity(const Value& v) {
    const auto zero = [&](std::size_t k) {
      return is_number(v.args[k], 0.0) || is_number(v.args[k], -0.0);
    };
    const auto nothing = [&] { return make_constant(convert(Scalar{}, v.dtype)); };
    switch (v.op) {
      case Op::add:
      case Op::sub:
        return zero(1) ? v.args[0] : nullptr;
      case Op::mul:
        return zero(1) ? nothing() : nullptr;
      case Op::div:
        return zero(0) ? nothing() : nullptr;
      default:
        return nullptr;
    }
  }

  /// Two constants in a chain become one: (x + c) - d is x + (c - d), (x * c) / d is x * (c / d).
  static ValuePtr regroup(const Value& v) {
    const auto family = [&](Op op) {
      if (op == Op::add || op == Op::sub) return 1;
      return op == Op::mul || (op == Op::div && is_floating(v.dtype)) ? 2 : 0;
    };
    if (family(v.op) == 0 || !is_constant(v.args[1])) return nullptr;
    const ValuePtr& inner = v.args[0];
    const bool chain = inner->kind == ValueKind::op && family(inner->op) == family(v.op) &&
                       is_constant(inner->args[1]);
    if (!chain) return nullptr;
    const Op forward = family(v.op) == 1 ? Op::add : Op::mul;
    const Op backward = family(v.op) == 1 ? Op::sub : Op::div;
    const Scalar joined = fold_op(inner->op == v.op ? forward : backward,
                                  std::array{inner->args[1]->scalar, v.args[1]->scalar});
    return make_op(inner->op, {inner->args[0], make_constant(joined)});
  }

  /// x^0 is 1; small powers of a load or a local are products.
  static ValuePtr unroll_power(const Value& v) {
    if (v.op != Op::pow) return nullptr;
    const ValuePtr& x = v.args[0];
    if (is_number(v.args[1], 0) || is_number(v.args[1], -0.0))
      return make_constant(convert(Scalar::of_int(DType::i64, 1), v.dtype));
    if (x->kind != ValueKind::load && x->kind != ValueKind::local) return nullptr;
    if (is_number(v.args[1], 2)) return make_op(Op::mul, {x, x});
    if (is_number(v.args[1], 3)) return make_op(Op::mul3, {x, x, x});
    const ValuePtr square = make_op(Op::mul, {x, x});
    return is_number(v.args[1], 4) ? make_op(Op::mul, {square, square}) : nullptr;
  }

  bool fast_math_;
};

}  // namespace

ValuePtr simplify_value(const ValuePtr& value, bool fast_math) {
  const ValueSimplifier simplifier(fast_math);
  return rebuild(value, [&](ValuePtr v) { return simplifier.node(std::move(v)); });
}

}  // namespace heddle::jit
