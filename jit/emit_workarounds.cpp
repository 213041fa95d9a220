// See emit_workarounds.hpp.
#include "jit/emit_workarounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "jit/primitive_builder.hpp"
#include "jit/rewrite.hpp"

namespace heddle::jit {
namespace {

/// As far as GCC sees it (tree_expr_maybe_real_minus_zero_p).
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
      if (is_nested && is_floating(stmt->value->dtype)) {
        walk(*stmt->value, [&](const Value& v) {
          if (v.kind == ValueKind::local && v.local == stmt->local) found.insert(v.local);
        });
      }
      if (stmt->kind != StmtKind::loop) continue;
      ++depth_;
      block(stmt->body);
      --depth_;
    }
  }

 private:
  int depth_ = 0;
  std::map<LocalId, int> depths_;  // of the declarations
};

/// Constants that a value may be under some condition: sets of these.
constexpr unsigned plus_zero = 1;
constexpr unsigned minus_zero = 2;
constexpr unsigned other_constant = 4;
constexpr unsigned any_constant = plus_zero | minus_zero | other_constant;

/// Of operations without conditions.
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

/// Whether nothing is constant where this holds, nor where it does not.
bool is_inequality(const Value& v) {
  return v.kind == ValueKind::op && (v.op == Op::lt || v.op == Op::le) &&
         is_floating(v.args[0]->dtype);
}

/// Finds buffers with elements that loops compute from themselves, over and over.
class SummedBuffers {
 public:
  std::set<BufferId> found;

  /// Whether there was anything new.
  bool block(const Block& body) {
    bool changed = false;
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::loop) {
        loops_.push_back(stmt->var);
        changed |= block(stmt->body);
        loops_.pop_back();
      }
      if (stmt->value) changed |= note(*stmt);
    }
    return changed;
  }

 private:
  bool note(const Stmt& stmt) {
    std::set<BufferId> read;
    walk(*stmt.value, [&](const Value& v) {
      if (v.kind == ValueKind::load) read.insert(v.buffer);
      if (v.kind == ValueKind::local) read.merge(std::set(sources_[v.local]));
    });
    if (stmt.kind == StmtKind::store)
      return read.contains(stmt.buffer) && stays(stmt) && found.insert(stmt.buffer).second;
    const std::size_t before = sources_[stmt.local].size();
    sources_[stmt.local].merge(read);
    return sources_[stmt.local].size() != before;
  }

  /// Some loop stores to one element again.
  bool stays(const Stmt& store) const {
    std::set<VarId> moving;
    for (const Affine& index : store.subscripts) {
      for (const AffineTerm& term : index.terms)
        if (term.kind == AffineTerm::Kind::loop) moving.insert(term.id);
    }
    return std::ranges::any_of(loops_, [&](VarId var) { return !moving.contains(var); });
  }

  std::vector<VarId> loops_;  // around
  std::map<LocalId, std::set<BufferId>> sources_;
};

/// Whether the operand is the sum where it is one of these constants.
bool leaves_sum(const Value& sum, std::size_t k, unsigned constants) {
  if (sum.op == Op::add) return (constants & minus_zero) != 0;
  return sum.op == Op::sub && k == 1 && (constants & plus_zero) != 0;
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
  SummedBuffers sums;
  while (sums.block(body)) {
  }
  summed_ = std::move(sums.found);
  walk(body, [this](const Stmt& stmt) {
    if (stmt.kind == StmtKind::assign) carried_.insert(stmt.local);
    if (stmt.kind == StmtKind::zero) stored_[stmt.buffer] = plus_zero;
  });
  for (bool changed = true; changed;) {
    changed = false;
    walk(body, [&](const Stmt& stmt) {
      if (!stmt.value) return;
      const bool stores = stmt.kind == StmtKind::store;
      if (!stores && is_carried(*stmt.value)) changed |= carried_.insert(stmt.local).second;
      unsigned& known = stores ? stored_[stmt.buffer] : constants_[stmt.local];
      const unsigned before = std::exchange(known, known | constants(*stmt.value));
      changed |= known != before;
    });
  }
  walk_values(body, [this](const Value& v) {
    for (std::size_t k = 0; k < v.args.size(); ++k) any_ = any_ || hides(v, k);
  });
}

bool HiddenTerms::hides(const Value& value, std::size_t k) const {
  if (value.kind != ValueKind::op || !is_floating(value.dtype)) return false;
  const bool sums = value.op == Op::add || value.op == Op::sub;
  if (sums && !is_carried(*value.args[1 - k])) return false;  // which is cheaper to ask
  if (sums) return hides_term(value, k, constants(*value.args[k]));
  return value.op == Op::where && k > 0 && is_carried(*value.args[k]) &&
         is_carried(*value.args[3 - k]);
}

bool HiddenTerms::hides_term(const Value& sum, std::size_t k, unsigned constants) const {
  return sum.args[k]->kind != ValueKind::constant && leaves_sum(sum, k, constants) &&
         is_carried(*sum.args[1 - k]);
}

bool HiddenTerms::is_carried(const Value& value) const {
  if (value.kind == ValueKind::local) return carried_.contains(value.local);
  if (value.kind == ValueKind::load) return summed_.contains(value.buffer);
  return std::ranges::any_of(value.args, [this](const ValuePtr& arg) { return is_carried(*arg); });
}

unsigned HiddenTerms::constants(const Value& value) const {
  switch (value.kind) {
    case ValueKind::constant:
      if (!is_floating(value.dtype) || value.scalar.f != 0) return other_constant;
      return std::signbit(value.scalar.f) ? minus_zero : plus_zero;
    case ValueKind::load: {
      const auto at = stored_.find(value.buffer);
      return at == stored_.end() ? 0 : at->second;
    }
    case ValueKind::local: {
      const auto at = constants_.find(value.local);
      return at == constants_.end() ? 0 : at->second;
    }
    case ValueKind::embed:
      return any_constant;
    case ValueKind::op:
    case ValueKind::cast:
      break;
  }
  std::vector<unsigned> of;  // the operands
  for (const ValuePtr& arg : value.args) of.push_back(constants(*arg));
  if (value.kind == ValueKind::op) return constants(value, of);
  const Value& from = *value.args[0];
  if (is_floating(from.dtype) && !is_floating(value.dtype)) return any_constant;
  // Small constants become zeros of smaller types.
  const bool keeps = is_floating(from.dtype) && size_of(from.dtype) <= size_of(value.dtype);
  return keeps || of[0] == 0 ? of[0] : any_constant;
}

unsigned HiddenTerms::constants(const Value& value, std::span<const unsigned> of) const {
  const bool floating = is_floating(value.dtype);
  const auto may_be = [](unsigned each) { return each != 0; };
  if (is_plain(value)) {
    const bool sums = value.op == Op::add || value.op == Op::sub;
    if (floating && sums && (hides_term(value, 0, of[0]) || hides_term(value, 1, of[1]))) return 0;
    // 0 * x is 0 of integers.
    if (floating ? !std::ranges::all_of(of, may_be) : std::ranges::none_of(of, may_be)) return 0;
    if (!floating || !sums) return any_constant;
    const unsigned added = value.op == Op::add ? minus_zero : plus_zero;
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
  const CarriedDependences carried = carried_dependences(loop, plan);
  walk(loop.body, [&](const Stmt& stmt) {
    const auto at = stmt.kind == StmtKind::loop ? carried.find(stmt.var) : carried.end();
    if (at == carried.end()) return;
    Guard& guard = guards_[stmt.var];
    for (const Place& place : at->second) {
      guard.ends_with_asm |= place.is_block;
      guard.hidden_stores.insert(place.id);
    }
    guard.ends_with_asm |= std::ranges::any_of(stmt.body, [](const StmtPtr& inner) {
      return inner->kind == StmtKind::loop || inner->kind == StmtKind::zero;
    });
    if (guard.ends_with_asm) guard.hidden_stores.clear();
  });
}

bool ScalarLoops::ends_with_asm(const Stmt& loop) const {
  const auto at = guards_.find(loop.var);
  return at != guards_.end() && at->second.ends_with_asm;
}

const std::set<BufferId>& ScalarLoops::hidden_stores(const Stmt& loop) const {
  static const std::set<BufferId> none;
  const auto at = guards_.find(loop.var);
  return at == guards_.end() ? none : at->second.hidden_stores;
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
