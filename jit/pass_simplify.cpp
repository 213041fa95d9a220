// Simplification: constants, identities, loops that run at most once, locals used once. Exact in
// IEEE arithmetic (signed zeros, NaN and infinities included) unless fast_math. Pure; any thread.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "jit/passes.hpp"
#include "jit/rewrite.hpp"

namespace heddle::jit {
namespace {

bool is_constant(const ValuePtr& v) { return v->kind == ValueKind::constant; }

/// The constant equals `number`; of zeros, the sign must agree for floats.
bool is_number(const ValuePtr& v, double number) {
  if (!is_constant(v)) return false;
  if (!is_floating(v->dtype)) return static_cast<double>(v->scalar.i) == number;
  return v->scalar.f == number && std::signbit(v->scalar.f) == std::signbit(number);
}

class Simplifier {
 public:
  explicit Simplifier(bool fast_math) : fast_math_(fast_math) {}

  Block block(const Block& body) {
    Block result;
    for (const StmtPtr& stmt : body) statement(stmt, result);
    return collapse(result);
  }

 private:
  void statement(const StmtPtr& stmt, Block& result) {
    if (stmt->kind != StmtKind::loop) {
      result.push_back(stmt->value ? with_value(*stmt, value(stmt->value)) : stmt);
      return;
    }
    if (stmt->from >= stmt->to) return;
    Block body = block(stmt->body);
    const bool empty =
        std::ranges::all_of(body, [](const StmtPtr& s) { return s->kind == StmtKind::comment; });
    if (empty) return;
    const bool declares =
        std::ranges::any_of(body, [](const StmtPtr& s) { return s->kind == StmtKind::declare; });
    if (stmt->to == stmt->from + 1 && !declares) {
      Substitution once;
      once.vars[stmt->var].constant = stmt->from;
      for (const StmtPtr& inner : body) result.push_back(substitute(inner, once));
      return;
    }
    result.push_back(with_body(*stmt, std::move(body)));
  }

  ValuePtr value(const ValuePtr& v) {
    return rebuild(v, [this](ValuePtr node) { return node_once(std::move(node)); });
  }

  ValuePtr node_once(ValuePtr v) {
    if (v->kind == ValueKind::cast) return make_cast(v->args[0], v->dtype);
    if (v->kind == ValueKind::embed && v->index.terms.empty()) {
      return make_constant(Scalar::of_int(DType::i64, v->index.constant));
    }
    if (v->kind != ValueKind::op) return v;
    if (std::ranges::all_of(v->args, is_constant)) {
      std::vector<Scalar> args;
      for (const ValuePtr& arg : v->args) args.push_back(arg->scalar);
      if (const auto folded = fold_op(v->op, v->dtype, args)) return make_constant(*folded);
    }
    if (ValuePtr same = identity(*v)) return same;
    if (ValuePtr joined = reassociate(*v)) return joined;
    if (fast_math_ || !is_floating(v->dtype)) {
      if (ValuePtr power = unroll_power(*v)) return power;
    }
    return v;
  }

  /// The operand that the operation leaves as it is, or the constant it must be; null when there is
  /// none.
  ValuePtr identity(const Value& v) const {
    const bool loose = fast_math_ || !is_floating(v.dtype);  // no NaN, no signed zero to keep
    const auto arg = [&](std::size_t k) { return v.args[k]; };
    const auto zero = [&](const ValuePtr& x) {
      return is_number(x, 0.0) || (loose && is_number(x, -0.0));
    };
    const auto nothing = make_constant(convert(Scalar{}, v.dtype));
    switch (v.op) {
      case Op::identity:
      case Op::arg1:
        return arg(0);
      case Op::arg2:
        return arg(1);
      case Op::add:  // x + -0 is x for every x; x + 0 turns -0 into 0
        if (is_number(arg(1), -0.0) || (loose && zero(arg(1)))) return arg(0);
        if (is_number(arg(0), -0.0) || (loose && zero(arg(0)))) return arg(1);
        return nullptr;
      case Op::sub:
        return zero(arg(1)) ? arg(0) : nullptr;
      case Op::mul:
        if (is_number(arg(1), 1)) return arg(0);
        if (is_number(arg(0), 1)) return arg(1);
        return loose && (zero(arg(0)) || zero(arg(1))) ? nothing : nullptr;
      case Op::div:
        if (is_number(arg(1), 1)) return arg(0);
        return loose && zero(arg(0)) ? nothing : nullptr;
      case Op::pow:
        return is_number(arg(1), 1) ? arg(0) : nullptr;
      case Op::where:
        return is_constant(arg(0)) ? arg(arg(0)->scalar.i != 0 ? 1 : 2) : nullptr;
      case Op::and_:
        if (is_number(arg(0), 0) || is_number(arg(1), 0)) return nothing;
        if (is_number(arg(0), 1)) return arg(1);
        return is_number(arg(1), 1) ? arg(0) : nullptr;
      case Op::or_:
        if (is_number(arg(0), 1)) return arg(0);
        if (is_number(arg(1), 1)) return arg(1);
        if (is_number(arg(0), 0)) return arg(1);
        return is_number(arg(1), 0) ? arg(0) : nullptr;
      default:
        return nullptr;
    }
  }

  /// (x + c) + d is x + (c + d), for wrapping integers always, for floats under fast_math.
  ValuePtr reassociate(const Value& v) const {
    if ((v.op != Op::add && v.op != Op::mul) || (is_floating(v.dtype) && !fast_math_))
      return nullptr;
    const auto& [inner, outer_constant] = std::pair(v.args[0], v.args[1]);
    const bool fits = is_constant(outer_constant) && inner->kind == ValueKind::op &&
                      inner->op == v.op && is_constant(inner->args[1]);
    if (!fits) return nullptr;
    const auto joined =
        fold_op(v.op, v.dtype, std::array{inner->args[1]->scalar, outer_constant->scalar});
    return joined ? make_op(v.op, {inner->args[0], make_constant(*joined)}) : nullptr;
  }

  /// x^2 and x^3 as products, x^0 as 1.
  static ValuePtr unroll_power(const Value& v) {
    if (v.op != Op::pow) return nullptr;
    const ValuePtr& x = v.args[0];
    if (is_number(v.args[1], 0))
      return make_constant(convert(Scalar::of_int(DType::i64, 1), v.dtype));
    const bool cheap = x->kind == ValueKind::load || x->kind == ValueKind::local;
    if (!cheap) return nullptr;
    if (is_number(v.args[1], 2)) return make_op(Op::mul, {x, x});
    if (is_number(v.args[1], 3)) return make_op(Op::mul3, {x, x, x});
    return nullptr;
  }

  /// Expressions grow by collapsing up to this depth: text stays readable, compilers' nesting
  /// limits are far.
  static constexpr int collapsed_depth_max = 24;

  struct Uses {
    int reads = 0;
    bool assigned = false;
    const Stmt* reader = nullptr;  // the statement of this very block that reads it
  };

  static std::map<LocalId, Uses> count_uses(const Block& body) {
    std::map<LocalId, Uses> uses;
    for (const StmtPtr& stmt : body) {
      const Block alone{stmt};
      walk_values(alone, [&](const Value& v) {
        if (v.kind != ValueKind::local) return;
        Uses& use = uses[v.local];
        ++use.reads;
        use.reader = stmt.get();
      });
      walk(alone, [&](const Stmt& inner) {
        if (inner.kind == StmtKind::assign) uses[inner.local].assigned = true;
      });
    }
    return uses;
  }

  /// `let` used once by a later statement of the same block, with nothing stored in between, moves
  /// into it; unused ones go.
  static Block collapse(const Block& body) {
    std::map<LocalId, Uses> uses = count_uses(body);
    std::map<LocalId, ValuePtr> moving;
    Block result;
    for (const StmtPtr& stmt : body) {
      StmtPtr now = stmt;
      if (stmt->value && !moving.empty()) {
        ValuePtr v = rebuild(stmt->value, [&](ValuePtr node) -> ValuePtr {
          if (node->kind != ValueKind::local) return node;
          const auto at = moving.find(node->local);
          return at == moving.end() ? node : at->second;
        });
        if (v != stmt->value) now = with_value(*stmt, std::move(v));
      }
      if (now->kind == StmtKind::declare) {
        const Uses& use = uses[now->local];
        if (use.reads == 0 && !use.assigned) continue;
        if (use.reads == 1 && !use.assigned && movable(*now, *use.reader, body, stmt.get())) {
          moving[now->local] = now->value;
          continue;
        }
      }
      result.push_back(now);
    }
    return result;
  }

  static bool movable(const Stmt& declare, const Stmt& reader, const Block& body,
                      const Stmt* original) {
    if (!reader.value || depth(*declare.value) + depth(*reader.value) > collapsed_depth_max)
      return false;
    auto at = std::ranges::find_if(body, [&](const StmtPtr& s) { return s.get() == original; });
    for (++at; at->get() != &reader; ++at) {
      if ((*at)->kind != StmtKind::declare && (*at)->kind != StmtKind::comment) return false;
    }
    return true;
  }

  bool fast_math_;
};

}  // namespace

Lowered simplify(Lowered lowered, bool fast_math) {
  // Each round may open the next (a loop unrolled to one iteration makes subscripts constant); few
  // are ever needed.
  for (int round = 0; round < 8; ++round) {
    Block body = Simplifier(fast_math).block(lowered.loop.body);
    const bool settled = std::ranges::equal(
        body, lowered.loop.body, [](const StmtPtr& a, const StmtPtr& b) { return equal(*a, *b); });
    lowered.loop.body = std::move(body);
    if (settled) break;
  }
  return lowered;
}

}  // namespace heddle::jit
