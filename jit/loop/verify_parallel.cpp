// The rule of parallel loops: no iteration touches what another one writes. Pure; any thread.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "jit/loop/interval.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/value/int128.hpp"

namespace heddle::jit {
namespace {

/// A subscript as coefficient * variable of the parallel loop + what is fixed while it runs + what
/// its inner loops add, from low to high.
struct Reach {
  std::int64_t coefficient = 0;
  std::vector<AffineTerm> fixed;
  Interval inner;
};

struct Touch {
  std::vector<Reach> subscripts;
  bool writes = false;
};

class Iterations {
 public:
  explicit Iterations(const Stmt& loop)
      : loop_(loop), most_apart_(static_cast<Int128>(loop.to) - loop.from - 1) {
    if (most_apart_ > 0) block(loop.body);
  }

  /// What keeps them from running at once; empty if nothing does.
  std::string shared() const {
    if (!shared_.empty()) return shared_;
    for (const auto& [buffer, accesses] : accesses_) {
      for (const Touch& write : accesses) {
        const bool meets = write.writes && std::ranges::any_of(accesses, [&](const Touch& other) {
                             return !apart(write, other);
                           });
        if (meets) return fmt::format("writes elements of t{} that other iterations touch", buffer);
      }
    }
    return {};
  }

 private:
  void block(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (stmt->value) {
        walk(*stmt->value, [this](const Value& v) {
          if (v.kind == ValueKind::load) touch(v.buffer, v.subscripts, false);
        });
      }
      switch (stmt->kind) {
        case StmtKind::comment:
        case StmtKind::prefetch:
          break;
        case StmtKind::loop:
        case StmtKind::at:  // anywhere in its range, for all that is known
          if (stmt->from >= stmt->to) break;
          inner_[stmt->var] = stmt.get();
          block(stmt->body);
          break;
        case StmtKind::zero:
          shared_ = fmt::format("zeroes t{} in each iteration", stmt->buffer);
          break;
        case StmtKind::store:
          touch(stmt->buffer, stmt->subscripts, true);
          break;
        case StmtKind::declare:
          own_.insert(stmt->local);
          break;
        case StmtKind::assign:
          if (!own_.contains(stmt->local))
            shared_ = fmt::format("assigns x{}, which all its iterations share", stmt->local);
          break;
      }
    }
  }

  void touch(BufferId buffer, const std::vector<Affine>& at, bool writes) {
    Touch access{{}, writes};
    for (const Affine& subscript : at) access.subscripts.push_back(reach(subscript));
    accesses_[buffer].push_back(std::move(access));
  }

  Reach reach(const Affine& subscript) const {
    Reach result;
    result.inner = {subscript.constant, subscript.constant};
    for (const AffineTerm& term : subscript.terms) {
      const bool of_loop = term.kind == AffineTerm::Kind::loop;
      const auto inner = of_loop ? inner_.find(term.id) : inner_.end();
      if (of_loop && term.id == loop_.var) {
        result.coefficient = term.coefficient;
      } else if (inner != inner_.end()) {
        result.inner.add(term.coefficient, inner->second->from, inner->second->to - 1);
      } else {
        result.fixed.push_back(term);
      }
    }
    return result;
  }

  /// On some axis two iterations are further apart than what inner loops may add, or always nearer
  /// than what is between the accesses.
  bool apart(const Touch& a, const Touch& b) const {
    for (std::size_t axis = 0; axis < a.subscripts.size(); ++axis) {
      const Reach& x = a.subscripts[axis];
      const Reach& y = b.subscripts[axis];
      if (x.coefficient != y.coefficient || x.fixed != y.fixed) continue;
      const Int128 wide = x.coefficient;
      const Int128 step = wide < 0 ? -wide : wide;
      const Int128 above = y.inner.highest - x.inner.lowest;
      const Int128 below = x.inner.highest - y.inner.lowest;
      if (std::max(above, below) < step || std::min(above, below) < -step * most_apart_)
        return true;
    }
    return false;
  }

  const Stmt& loop_;
  Int128 most_apart_;  ///< the first and the last iteration
  std::map<VarId, const Stmt*> inner_;
  std::set<LocalId> own_;
  std::map<BufferId, std::vector<Touch>> accesses_;
  std::string shared_;
};

}  // namespace

std::string broken_parallel_loop(const Block& body) {
  std::string rule;
  walk(body, [&rule](const Stmt& stmt) {
    if (!rule.empty() || stmt.kind != StmtKind::loop || stmt.mark != LoopMark::parallel) return;
    if (const std::string what = Iterations(stmt).shared(); !what.empty())
      rule = fmt::format("parallel loop i{} {}", stmt.var, what);
  });
  return rule;
}

}  // namespace heddle::jit
