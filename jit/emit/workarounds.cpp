// See emit/workarounds.hpp.
#include "jit/emit/workarounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/value/primitive_builder.hpp"

namespace heddle::jit {
namespace {

/// As GCC determines it (tree_expr_maybe_real_minus_zero_p).
bool is_never_minus_zero(const Value& v) noexcept {
  switch (v.kind) {
    case ValueKind::constant:
      return !(v.scalar.f == 0 && std::signbit(v.scalar.f));
    case ValueKind::cast:
      return !is_floating(v.args[0]->dtype);
    case ValueKind::op:
      return v.op == Op::abs || (v.op == Op::where && is_never_minus_zero(*v.args[1]) &&
                                 is_never_minus_zero(*v.args[2]));
    default:
      return false;
  }
}

class NestedSums {
 public:
  std::set<LocalId> found;

  void block(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::declare) depths_[stmt->local] = depth_;
      const bool is_nested = stmt->kind == StmtKind::assign && depth_ >= depths_[stmt->local] + 2;
      if (is_nested && !has_element_of_its_own(*stmt) && is_floating(stmt->value->dtype)) {
        walk(*stmt->value, [&](const Value& v) {
          if (v.kind == ValueKind::local && v.local == stmt->local) found.insert(v.local);
        });
      }
      if (!binds_variable(*stmt)) continue;
      const int loops = stmt->kind == StmtKind::loop ? 1 : 0;
      const Stmt* const around = innermost_;
      if (loops > 0) innermost_ = stmt.get();
      depth_ += loops;
      block(stmt->body);
      depth_ -= loops;
      innermost_ = around;
    }
  }

 private:
  /// True if each iteration of the innermost loop adds to another element of a block, and the loop
  /// is too long for GCC to unroll it whole.
  [[nodiscard]] bool has_element_of_its_own(const Stmt& assign) const {
    constexpr std::int64_t unrolled_max = 16;
    if (innermost_ == nullptr || innermost_->mark == LoopMark::unroll ||
        innermost_->to - innermost_->from <= unrolled_max)
      return false;
    return moves_with(assign.subscripts, innermost_->var);
  }

  int depth_ = 0;
  const Stmt* innermost_ = nullptr;  // loop
  std::map<LocalId, int> depths_;    // the depth of their declarations
};

/// Bits of TermFacts. Constants that a value may be under some condition:
constexpr TermFacts plus_zero = 1;
constexpr TermFacts minus_zero = 2;
constexpr TermFacts other_constant = 4;
constexpr TermFacts any_constant = plus_zero | minus_zero | other_constant;
/// The value may come from another iteration, or be computed from such a value.
constexpr TermFacts carried = 8;

/// True if the operation has no conditions.
bool is_plain(const Value& v) {
  switch (v.op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::mul3:
    case Op::fma:
      return true;
    case Op::abs:
    case Op::div:
    case Op::sqrt:
    case Op::recip:
      return is_floating(v.dtype);
    default:
      return false;
  }
}

/// True if the value is constant neither where the condition holds nor where it does not.
bool is_inequality(const Value& v) {
  return v.kind == ValueKind::op && (v.op == Op::lt || v.op == Op::le) &&
         is_floating(v.args[0]->dtype);
}

/// Finds buffers with elements that loops repeatedly compute from themselves.
class SummedBuffers {
 public:
  std::set<BufferId> found;

  explicit SummedBuffers(const Block& body) {
    block(body);
    for (const Stmt* const store : stores_)
      if (!found.contains(store->buffer) && reads_itself(*store)) found.insert(store->buffer);
  }

 private:
  void block(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::loop) {
        loops_.push_back(stmt->var);
        block(stmt->body);
        loops_.pop_back();
      }
      if (stmt->kind == StmtKind::at) block(stmt->body);
      if (stmt->kind == StmtKind::store && stays(*stmt)) stores_.push_back(stmt.get());
      const bool sets = stmt->kind == StmtKind::declare || stmt->kind == StmtKind::assign;
      if (sets) values_[stmt->local].push_back(stmt->value.get());
    }
  }

  /// True if some loop stores to the same element repeatedly.
  bool stays(const Stmt& store) const {
    std::set<VarId> moving;
    for (const Affine& index : store.subscripts) {
      for (const AffineTerm& term : index.terms)
        if (term.kind == AffineTerm::Kind::loop) moving.insert(term.id);
    }
    return std::ranges::any_of(loops_, [&](VarId var) { return !moving.contains(var); });
  }

  /// True if the stored value reads the element's buffer, directly or through locals.
  bool reads_itself(const Stmt& store) const {
    bool reads = false;
    std::set<LocalId> met;
    std::vector<const Value*> next{store.value.get()};
    while (!next.empty()) {
      const Value* const value = next.back();
      next.pop_back();
      walk(*value, [&](const Value& v) {
        reads |= v.kind == ValueKind::load && v.buffer == store.buffer;
        if (v.kind != ValueKind::local || !met.insert(v.local).second) return;
        const auto at = values_.find(v.local);
        if (at != values_.end()) next.insert(next.end(), at->second.begin(), at->second.end());
      });
    }
    return reads;
  }

  std::vector<VarId> loops_;         // surrounding loops
  std::vector<const Stmt*> stores_;  // stores that stay at an element
  std::map<LocalId, std::vector<const Value*>> values_;
};

/// The values of a kernel, and their operands and readers.
struct ValueGraph {
  struct Node {
    const Value* value = nullptr;
    TermFacts facts = 0;
    std::vector<std::size_t> operands, readers;
    std::vector<const Stmt*> kept_by;
  };
  std::vector<Node> nodes;  // operands first
  std::map<BufferId, std::vector<std::size_t>> loads;
  std::map<LocalId, std::vector<std::size_t>> locals;

  explicit ValueGraph(const Block& body) {
    walk(body, [this](const Stmt& stmt) {
      if (stmt.value) nodes[add(*stmt.value)].kept_by.push_back(&stmt);
    });
  }

  [[nodiscard]] std::vector<TermFacts> of_operands(const Node& node) const {
    std::vector<TermFacts> of;
    for (const std::size_t k : node.operands) of.push_back(nodes[k].facts);
    return of;
  }

 private:
  std::size_t add(const Value& value) {
    count_step();
    Node node{&value, 0, {}, {}, {}};
    for (const ValuePtr& arg : value.args) node.operands.push_back(add(*arg));
    const std::size_t at = nodes.size();
    for (const std::size_t k : node.operands) nodes[k].readers.push_back(at);
    if (value.kind == ValueKind::load) loads[value.buffer].push_back(at);
    if (value.kind == ValueKind::local) locals[value.local].push_back(at);
    nodes.push_back(std::move(node));
    return at;
  }
};

/// True if the sum equals its other operand where operand `k` is one of these constants.
bool leaves_sum(const Value& sum, std::size_t k, TermFacts constants) {
  if (sum.op == Op::add) return (constants & minus_zero) != 0;
  return sum.op == Op::sub && k == 1 && (constants & plus_zero) != 0;
}

/// True for a loop that GCC unrolls completely, not made vectors of, whose values have conditions.
bool is_short_choice(const Stmt& stmt, const LanePlan& plan) {
  constexpr std::int64_t unrolled_max = 16;  // max-completely-peel-times
  if (stmt.kind != StmtKind::loop || plan.vectors.contains(stmt.var) ||
      stmt.to - stmt.from > unrolled_max)
    return false;
  bool found = false;
  walk_values(stmt.body, [&](const Value& v) {
    found = found || (v.kind == ValueKind::op && (v.op == Op::where || v.dtype == DType::bool_));
  });
  return found;
}

}  // namespace

bool subtracts_unsigned_zero(const Value& value) noexcept {
  return value.kind == ValueKind::op && value.op == Op::sub && is_floating(value.dtype) &&
         is_never_minus_zero(*value.args[1]);
}

std::set<LocalId> nested_sums(const Block& body) {
  NestedSums sums;
  sums.block(body);
  return std::move(sums.found);
}

HiddenTerms::HiddenTerms(const Block& body) {
  for (const BufferId buffer : SummedBuffers(body).found) buffers_[buffer] = carried;
  walk(body, [this](const Stmt& stmt) {
    if (stmt.kind == StmtKind::assign) locals_[stmt.local] = carried;
    if (stmt.kind == StmtKind::zero) buffers_[stmt.buffer] |= plus_zero;
  });
  ValueGraph graph(body);
  // Facts spread to readers, in either direction of the statements' order.
  std::deque<std::size_t> next(graph.nodes.size());
  std::iota(next.begin(), next.end(), std::size_t{0});
  const auto spread = [&next](TermFacts& known, TermFacts facts, const auto& readers) {
    const TermFacts before = std::exchange(known, known | facts);
    if (known != before) next.insert(next.end(), readers.begin(), readers.end());
    return known != before;
  };
  for (; !next.empty(); next.pop_front()) {
    ValueGraph::Node& node = graph.nodes[next.front()];
    if (!spread(node.facts, facts(*node.value, graph.of_operands(node)), node.readers)) continue;
    for (const Stmt* const stmt : node.kept_by) {
      if (stmt->kind == StmtKind::store) {
        spread(buffers_[stmt->buffer], node.facts & any_constant, graph.loads[stmt->buffer]);
      } else if (stmt->kind != StmtKind::at) {
        spread(locals_[stmt->local], node.facts, graph.locals[stmt->local]);
      }
    }
  }
  for (const ValueGraph::Node& node : graph.nodes) {
    const std::vector<TermFacts> of = graph.of_operands(node);
    for (std::size_t k = 0; k < of.size(); ++k) any_ = any_ || hides(*node.value, k, of);
  }
}

bool HiddenTerms::hides(const Value& value, std::size_t k, std::span<const TermFacts> of) {
  if (value.kind != ValueKind::op || !is_floating(value.dtype)) return false;
  if (value.op == Op::where) return k > 0 && (of[k] & of[3 - k] & carried) != 0;
  return (value.op == Op::add || value.op == Op::sub) && (of[1 - k] & carried) != 0 &&
         value.args[k]->kind != ValueKind::constant && leaves_sum(value, k, of[k]);
}

TermFacts HiddenTerms::facts(const Value& value, std::span<const TermFacts> of) const {
  count_step();
  const auto known = [](const auto& facts, auto id) {
    const auto at = facts.find(id);
    return at == facts.end() ? TermFacts{0} : at->second;
  };
  switch (value.kind) {
    case ValueKind::constant:
      if (!is_floating(value.dtype) || value.scalar.f != 0) return other_constant;
      return std::signbit(value.scalar.f) ? minus_zero : plus_zero;
    case ValueKind::load:
      return known(buffers_, value.buffer);
    case ValueKind::local:
      return known(locals_, value.local);
    case ValueKind::embed:
      return any_constant;
    case ValueKind::op:
    case ValueKind::cast:
      break;
  }
  TermFacts facts = 0;
  for (const TermFacts each : of) facts |= each & carried;
  return facts | (value.kind == ValueKind::op ? constants_of_op(value, of)
                                              : constants_of_cast(value, of[0] & any_constant));
}

TermFacts HiddenTerms::constants_of_cast(const Value& value, TermFacts of) {
  const Value& from = *value.args[0];
  if (is_floating(from.dtype) && !is_floating(value.dtype)) return any_constant;
  // Small constants become zeros of smaller types.
  const bool keeps = is_floating(from.dtype) && size_of(from.dtype) <= size_of(value.dtype);
  return keeps || of == 0 ? of : any_constant;
}

TermFacts HiddenTerms::constants_of_op(const Value& value, std::span<const TermFacts> of) {
  const bool floating = is_floating(value.dtype);
  const auto may_be = [](TermFacts each) { return (each & any_constant) != 0; };
  if (is_plain(value)) {
    const bool sums = value.op == Op::add || value.op == Op::sub;
    if (sums && (hides(value, 0, of) || hides(value, 1, of))) return 0;
    // For integers, 0 * x is 0.
    if (floating ? !std::ranges::all_of(of, may_be) : std::ranges::none_of(of, may_be)) return 0;
    if (!floating || !sums) return any_constant;
    const TermFacts added = value.op == Op::add ? minus_zero : plus_zero;
    const bool is_minus = (of[0] & minus_zero) != 0 && (of[1] & added) != 0;
    return plus_zero | other_constant | (is_minus ? minus_zero : 0);
  }
  if (!floating) return any_constant;
  switch (value.op) {
    case Op::where:
      return is_inequality(*value.args[0]) ? of[1] | of[2] : any_constant;
    case Op::max:
    case Op::min:
      return of[0] | of[1];
    case Op::relu:
      return plus_zero | of[0];
    case Op::satur01:
      return plus_zero | other_constant | of[0];
    case Op::exp:
    case Op::exp2:
      return plus_zero | other_constant;
    case Op::neg:
      return (of[0] & other_constant) | ((of[0] & plus_zero) != 0 ? minus_zero : 0) |
             ((of[0] & minus_zero) != 0 ? plus_zero : 0);
    default:
      return any_constant;
  }
}

ScalarLoops::ScalarLoops(const Loop& loop, const LanePlan& plan) {
  const CarriedDependences of_loops = carried_dependences(loop, plan);
  walk(loop.body, [&](const Stmt& stmt) {
    const auto at = stmt.kind == StmtKind::loop ? of_loops.find(stmt.var) : of_loops.end();
    if (at == of_loops.end()) return;
    Guard& guard = guards_[stmt.var];
    for (const Place& place : at->second) {
      guard.ends_with_asm |= place.is_block;
      guard.hidden_stores.insert(place.id);
    }
    guard.ends_with_asm |= std::ranges::any_of(stmt.body, [](const StmtPtr& inner) {
      return binds_variable(*inner) || inner->kind == StmtKind::zero;
    });
    if (guard.ends_with_asm) guard.hidden_stores.clear();
  });
  walk(loop.body, [&](const Stmt& stmt) {
    if (stmt.kind != StmtKind::loop || plan.vectors.contains(stmt.var) ||
        std::ranges::none_of(stmt.body,
                             [&](const StmtPtr& inner) { return is_short_choice(*inner, plan); }))
      return;
    guards_[stmt.var] = {true, {}};
  });
}

bool ScalarLoops::ends_with_asm(const Stmt& loop) const {
  const auto at = guards_.find(loop.var);
  return at != guards_.end() && at->second.ends_with_asm;
}

std::set<BufferId> ScalarLoops::hidden_stores(const Stmt& loop) const {
  const auto at = guards_.find(loop.var);
  return at == guards_.end() ? std::set<BufferId>() : at->second.hidden_stores;
}

std::string_view asm_register(DType type) noexcept {
#if defined(__x86_64__)
  constexpr std::string_view floating = "x";
#elif defined(__aarch64__)
  constexpr std::string_view floating = "w";
#else
  constexpr std::string_view floating = "m";
#endif
  return type == DType::f32 || type == DType::f64 ? floating : "r";
}

PrimFunction hide_function(DType type) {
  const DType bits = type == DType::f64 ? DType::u64 : DType::u32;
  PrimBuilder in(fmt::format("hide_{}", name(type)), {type, DType::u64});
  return in.finish(same_bits(same_bits(in.param(0), bits) ^ cast(in.param(1), bits), type));
}

}  // namespace heddle::jit
