// Simplification of statements: loops that run at most once, locals that hold a constant or are
// used once. Pure; any thread.
#include <algorithm>
#include <map>
#include <set>

#include "jit/loop/rewrite.hpp"
#include "jit/lower/passes.hpp"
#include "jit/value/int128.hpp"

namespace heddle::jit {
namespace {

/// Joining locals makes expressions at most this deep: the text stays readable, far from compilers'
/// nesting limits.
constexpr int joined_depth_max = 24;

class Simplifier {
 public:
  Simplifier(const Block& body, bool fast_math) : fast_math_(fast_math) {
    walk(body, [this](const Stmt& stmt) {
      if (stmt.kind == StmtKind::assign) assigned_.insert(stmt.local);
    });
  }

  Block block(const Block& body) {
    Block result;
    for (const StmtPtr& stmt : body) statement(stmt, result);
    sink_behind_loops(result);
    return join_once_used(result);
  }

 private:
  void statement(const StmtPtr& stmt, Block& result) {
    if (stmt->kind == StmtKind::loop) return loop(stmt, result);
    if (stmt->kind == StmtKind::at) return position(stmt, result);
    if (!stmt->value) {
      result.push_back(stmt);
      return;
    }
    ValuePtr v = simplify_value(known(stmt->value), fast_math_);
    if (stmt->kind == StmtKind::declare && is_fixed(*stmt, *v)) known_.emplace(stmt->local, v);
    if (stmt->kind == StmtKind::assign) {
      if (ValuePtr joined = joined_with_last(*stmt, v, result)) {
        result.back() = with_value(*result.back(), simplify_value(joined, fast_math_));
        return;
      }
    }
    result.push_back(v == stmt->value ? stmt : with_value(*stmt, std::move(v)));
  }

  void loop(const StmtPtr& stmt, Block& result) {
    if (stmt->from >= stmt->to) return;
    Block body = block(stmt->body);
    if (is_empty(body)) return;
    if (stmt->to - stmt->from == 1) return run_once(*stmt, stmt->from, body, result);
    result.push_back(with_body(*stmt, std::move(body)));
  }

  /// A position with a known value is replaced by the value.
  void position(const StmtPtr& stmt, Block& result) {
    if (stmt->from >= stmt->to) return;
    const ValuePtr v = simplify_value(known(stmt->value), fast_math_);
    Block body = block(stmt->body);
    if (is_empty(body)) return;
    if (stmt->nearest && stmt->to - stmt->from == 1)
      return run_once(*stmt, stmt->from, body, result);
    if (v->kind == ValueKind::constant) {
      const Int128 found = v->dtype == DType::u64
                               ? static_cast<Int128>(static_cast<std::uint64_t>(v->scalar.i))
                               : static_cast<Int128>(v->scalar.i);
      const auto inside = static_cast<std::int64_t>(
          std::clamp<Int128>(found, stmt->from, static_cast<Int128>(stmt->to) - 1));
      if (stmt->nearest || inside == found) run_once(*stmt, inside, body, result);
      return;
    }
    const StmtPtr done = v == stmt->value ? stmt : with_value(*stmt, v);
    if (stays(*v, body)) body = without_same_positions(*done, body);
    result.push_back(with_body(*done, std::move(body)));
  }

  /// True if the value is the same before and in the body.
  bool stays(const Value& value, const Block& body) const {
    bool same = true;
    std::set<BufferId> loads;
    walk(value, [&](const Value& v) {
      if (v.kind == ValueKind::load) loads.insert(v.buffer);
      if (v.kind == ValueKind::local && assigned_.contains(v.local)) same = false;
    });
    walk(body, [&](const Stmt& inner) {
      const bool writes = inner.kind == StmtKind::store || inner.kind == StmtKind::zero;
      if (writes && loads.contains(inner.buffer)) same = false;
    });
    return same;
  }

  /// The body of a position without positions of the same value and range, which are the position's
  /// own variable: a scatter checks the place of its store, and moves that of its load inside.
  static Block without_same_positions(const Stmt& outer, const Block& body) {
    Block result;
    for (const StmtPtr& stmt : body) {
      if (!binds_variable(*stmt)) {
        result.push_back(stmt);
        continue;
      }
      Block inner = without_same_positions(outer, stmt->body);
      const bool same = stmt->kind == StmtKind::at && stmt->from == outer.from &&
                        stmt->to == outer.to && (stmt->nearest || !outer.nearest) &&
                        equal(*stmt->value, *outer.value);
      if (!same) {
        result.push_back(with_body(*stmt, std::move(inner)));
        continue;
      }
      Substitution by;
      by.vars[stmt->var] = affine_var(outer.var);
      for (const StmtPtr& each : inner) result.push_back(substitute(each, by));
    }
    return result;
  }

  static bool is_empty(const Block& body) {
    return std::ranges::all_of(body, [](const StmtPtr& s) { return s->kind == StmtKind::comment; });
  }

  /// Appends the body with the variable's value substituted. Names of its locals are unique, so
  /// they need no new scope.
  static void run_once(const Stmt& stmt, std::int64_t value, const Block& body, Block& result) {
    Substitution once;
    once.vars[stmt.var].constant = value;
    for (const StmtPtr& inner : body) result.push_back(substitute(inner, once));
  }

  /// Replaces locals that hold constants, or other locals that never change, by their values.
  ValuePtr known(const ValuePtr& value) const {
    return rebuild(value, [this](ValuePtr v) {
      if (v->kind != ValueKind::local) return v;
      const auto at = known_.find(v->local);
      return at == known_.end() ? std::move(v) : at->second;
    });
  }

  bool is_fixed(const Stmt& declare, const Value& v) const {
    if (assigned_.contains(declare.local)) return false;
    return v.kind == ValueKind::constant ||
           (v.kind == ValueKind::local && !assigned_.contains(v.local));
  }

  /// For `x = e` directly followed by `x = f(x)`, with at most one use of x: f(e), to be assigned
  /// in place of e. Otherwise null.
  static ValuePtr joined_with_last(const Stmt& assign, const ValuePtr& v, const Block& before) {
    const bool sets = !before.empty() && (before.back()->kind == StmtKind::declare ||
                                          before.back()->kind == StmtKind::assign);
    if (!sets || before.back()->local != assign.local) return nullptr;
    const ValuePtr& start = before.back()->value;
    int uses = 0;
    walk(*v, [&](const Value& x) {
      if (x.kind == ValueKind::local && x.local == assign.local) ++uses;
    });
    const bool small = start->kind == ValueKind::constant ||
                       (uses <= 1 && depth(*start) + depth(*v) <= joined_depth_max);
    if (!small) return nullptr;
    return rebuild(v, [&](ValuePtr x) {
      const bool own = x->kind == ValueKind::local && x->local == assign.local;
      return own ? start : std::move(x);
    });
  }

  /// Moves a `let` that a loop precedes its first reader behind that loop: sums are recognised as a
  /// start and loops side by side, and what follows them as one group of statements.
  void sink_behind_loops(Block& body) const {
    // A `let` passes few statements: long blocks take no more time than they have statements.
    constexpr std::size_t passed_max = 16;
    const auto is_loop = [](const StmtPtr& stmt) { return stmt->kind == StmtKind::loop; };
    const auto loops_end = std::find_if(body.rbegin(), body.rend(), is_loop).base();
    for (auto k = static_cast<std::size_t>(loops_end - body.begin()); k-- > 0;) {
      if (body[k]->kind != StmtKind::declare || assigned_.contains(body[k]->local)) continue;
      const std::size_t end = std::min(body.size(), k + 1 + passed_max);
      std::size_t last_loop = k;
      for (std::size_t at = k + 1; at < end && may_pass(*body[k], body[at]); ++at) {
        if (is_loop(body[at])) last_loop = at;
      }
      const auto from = body.begin() + static_cast<std::ptrdiff_t>(k);
      std::rotate(from, from + 1, from + static_cast<std::ptrdiff_t>(last_loop - k + 1));
    }
  }

  /// True if `let` gives the same value after `stmt`, which does not read it.
  static bool may_pass(const Stmt& let, const StmtPtr& stmt) {
    bool may = true;
    std::set<BufferId> loads;
    std::set<LocalId> locals;
    walk(*let.value, [&](const Value& v) {
      if (v.kind == ValueKind::load) loads.insert(v.buffer);
      if (v.kind == ValueKind::local) locals.insert(v.local);
    });
    walk(Block{stmt}, [&](const Stmt& s) {
      const bool writes = s.kind == StmtKind::store || s.kind == StmtKind::zero;
      if (writes && loads.contains(s.buffer)) may = false;
      if (s.kind == StmtKind::assign && locals.contains(s.local)) may = false;
    });
    walk_values(Block{stmt}, [&](const Value& v) {
      if (v.kind == ValueKind::local && v.local == let.local) may = false;
    });
    return may;
  }

  struct Uses {
    int reads = 0;
    std::size_t reader = 0;  // the last statement of the same block that reads the local
  };

  static std::map<LocalId, Uses> count_uses(const Block& body) {
    std::map<LocalId, Uses> uses;
    for (std::size_t k = 0; k < body.size(); ++k) {
      const auto count = [&](const Value& v) {
        if (v.kind != ValueKind::local) return;
        Uses& use = uses[v.local];
        ++use.reads;
        use.reader = k;
      };
      walk_values(Block{body[k]}, count);
      // The body of a position is not part of the statement's own value.
      if (body[k]->kind == StmtKind::at) walk_values(body[k]->body, count);
    }
    return uses;
  }

  /// Moves a `let` with a single use into the using statement, if that is a later statement of the
  /// same block with only other declarations in between; removes unused declarations.
  Block join_once_used(const Block& body) const {
    const std::map<LocalId, Uses> uses = count_uses(body);
    const std::vector<std::size_t> ends = declarations_end(body);
    std::vector<int> depths;
    for (const StmtPtr& stmt : body) depths.push_back(stmt->value ? depth(*stmt->value) : 0);
    std::map<LocalId, ValuePtr> moving;
    Block result;
    for (std::size_t k = 0; k < body.size(); ++k) {
      StmtPtr now = body[k];
      if (now->value && !moving.empty()) {
        ValuePtr v = rebuild(now->value, [&](ValuePtr node) {
          if (node->kind != ValueKind::local) return node;
          const auto at = moving.find(node->local);
          return at == moving.end() ? std::move(node) : at->second;
        });
        if (v != now->value) now = with_value(*now, std::move(v));
      }
      if (now->kind == StmtKind::declare && !assigned_.contains(now->local)) {
        const auto use = uses.find(now->local);
        if (use == uses.end()) continue;
        const std::size_t reader = use->second.reader;
        if (use->second.reads == 1 && reader <= ends[k] && body[reader]->value &&
            depth(*now->value) + depths[reader] <= joined_depth_max) {
          moving[now->local] = now->value;
          continue;
        }
      }
      result.push_back(std::move(now));
    }
    return result;
  }

  /// For each statement: the next statement that is neither a declaration nor a comment.
  static std::vector<std::size_t> declarations_end(const Block& body) {
    std::vector<std::size_t> ends(body.size());
    std::size_t end = body.size();
    for (std::size_t k = body.size(); k-- > 0;) {
      ends[k] = end;
      const StmtKind kind = body[k]->kind;
      if (kind != StmtKind::declare && kind != StmtKind::comment) end = k;
    }
    return ends;
  }

  bool fast_math_;
  std::set<LocalId> assigned_;         // assigned by some statement after their declaration
  std::map<LocalId, ValuePtr> known_;  // constants, and aliases of locals that never change
};

}  // namespace

Lowered simplify(Lowered lowered, bool fast_math) {
  // Each round may enable the next (a loop unrolled to a single iteration makes subscripts
  // constant); few rounds are ever needed.
  for (int round = 0; round < 8; ++round) {
    Block body = Simplifier(lowered.loop.body, fast_math).block(lowered.loop.body);
    const bool settled = std::ranges::equal(
        body, lowered.loop.body, [](const StmtPtr& a, const StmtPtr& b) { return equal(*a, *b); });
    lowered.loop.body = std::move(body);
    if (settled) break;
  }
  return lowered;
}

}  // namespace heddle::jit
