// The rule of parallel loops: no iteration touches elements that another iteration writes, unless
// all accumulate in them atomically. Pure; any thread.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "jit/loop/accumulation.hpp"
#include "jit/loop/group_body.hpp"
#include "jit/loop/interval.hpp"
#include "jit/loop/own_scratch.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/value/int128.hpp"

namespace heddle::jit {
namespace {

/// A subscript as coefficient * variable of the parallel loop + terms that are fixed while the loop
/// runs + the range of its inner loops, from low to high.
struct Reach {
  std::int64_t coefficient = 0;
  std::vector<AffineTerm> fixed;
  Interval inner;
  std::int64_t constant = 0;
  /// The range of the inner loops that step less than the parallel loop does, as loops over
  /// neighbours that a thread takes at once.
  Interval near;
  std::int64_t step = 0;  ///< divides what each other inner loop adds; 0: there is none
};

struct Touch {
  std::vector<Reach> subscripts;
  bool writes = false;
  std::optional<Op> accumulates;  ///< atomically, by this operation
};

/// A buffer, or a local block that is declared around the loop.
struct TouchedMemory {
  bool is_local = false;
  std::uint32_t id = 0;
  auto operator<=>(const TouchedMemory&) const = default;
};

class Iterations {
 public:
  /// `apart`: buffers of which iterations have separate copies.
  Iterations(const Stmt& loop, const std::set<BufferId>& apart)
      : loop_(loop), most_apart_(static_cast<Int128>(loop.to) - loop.from - 1), apart_(apart) {
    if (most_apart_ > 0) block(loop.body);
  }

  /// The reason why iterations cannot run in parallel; empty if they can.
  std::string shared() const {
    if (!shared_.empty()) return shared_;
    for (const auto& [place, accesses] : accesses_) {
      const auto same = [&all = accesses](const Touch& each) {
        return each.accumulates == all.front().accumulates;
      };
      if (!std::ranges::all_of(accesses, same)) {
        return fmt::format("accumulates in t{} atomically, and accesses it otherwise too",
                           place.id);
      }
      if (accesses.front().accumulates) continue;
      for (const Touch& write : accesses) {
        const bool meets = write.writes && std::ranges::any_of(accesses, [&](const Touch& other) {
                             return !apart(write, other);
                           });
        if (meets) {
          return fmt::format("writes elements of {}{} that other iterations touch",
                             place.is_local ? 'x' : 't', place.id);
        }
      }
    }
    return {};
  }

 private:
  void block(const Block& body) {
    for (const StmtPtr& stmt : body) {
      const std::optional<Accumulation> atomic =
          stmt->atomic ? accumulation_of(*stmt) : std::nullopt;
      if (stmt->value) {
        walk(atomic ? *atomic->term : *stmt->value, [this](const Value& v) {
          if (v.kind == ValueKind::load) touch(v.buffer, v.subscripts, false);
          if (v.kind == ValueKind::local && !v.subscripts.empty())
            touch_block(v.local, v.subscripts, false);
        });
      }
      switch (stmt->kind) {
        case StmtKind::comment:
        case StmtKind::prefetch:
          break;
        case StmtKind::loop:
        case StmtKind::at:  // may be anywhere in its range
          if (stmt->from >= stmt->to) break;
          inner_[stmt->var] = stmt.get();
          block(stmt->body);
          break;
        case StmtKind::zero:
          if (apart_.contains(stmt->buffer)) break;
          shared_ = fmt::format("zeroes t{} in each iteration", stmt->buffer);
          break;
        case StmtKind::store:
          touch(stmt->buffer, stmt->subscripts, true,
                atomic ? std::optional(atomic->op) : std::nullopt);
          break;
        case StmtKind::declare:
          own_.insert(stmt->local);
          break;
        case StmtKind::assign:
          if (stmt->subscripts.empty() || loop_.mark != LoopMark::block) {
            if (!own_.contains(stmt->local))
              shared_ = fmt::format("assigns x{}, which all its iterations share", stmt->local);
          } else {
            touch_block(stmt->local, stmt->subscripts, true);
          }
          break;
      }
    }
  }

  void touch(BufferId buffer, const std::vector<Affine>& at, bool writes,
             std::optional<Op> accumulates = std::nullopt) {
    if (!apart_.contains(buffer)) touch({false, buffer}, at, writes, accumulates);
  }
  /// The threads of a group share the blocks declared around its block loops.
  void touch_block(LocalId local, const std::vector<Affine>& at, bool writes) {
    if (!own_.contains(local)) touch(TouchedMemory{true, local}, at, writes);
  }
  void touch(TouchedMemory place, const std::vector<Affine>& at, bool writes,
             std::optional<Op> accumulates = std::nullopt) {
    Touch access{{}, writes, accumulates};
    for (const Affine& subscript : at) access.subscripts.push_back(reach(subscript));
    accesses_[place].push_back(std::move(access));
  }

  Reach reach(const Affine& subscript) const {
    Reach result;
    result.inner = {subscript.constant, subscript.constant};
    result.constant = subscript.constant;
    const auto is_own = [this](const AffineTerm& term) {
      return term.kind == AffineTerm::Kind::loop && term.id == loop_.var;
    };
    const auto own = std::ranges::find_if(subscript.terms, is_own);
    if (own != subscript.terms.end()) result.coefficient = own->coefficient;
    for (const AffineTerm& term : subscript.terms) {
      if (is_own(term)) continue;
      const auto inner = term.kind == AffineTerm::Kind::loop ? inner_.find(term.id) : inner_.end();
      if (inner != inner_.end()) {
        const Stmt& loop = *inner->second;
        result.inner.add(term.coefficient, loop.from, loop.to - 1);
        if (magnitude(term.coefficient) < magnitude(result.coefficient)) {
          result.near.add(term.coefficient, loop.from, loop.to - 1);
        } else {
          result.step = std::gcd(result.step, term.coefficient);
        }
      } else {
        result.fixed.push_back(term);
      }
    }
    return result;
  }

  static Int128 magnitude(Int128 v) noexcept { return v < 0 ? -v : v; }

  /// True if, on some axis, two iterations are always further apart than the range of inner loops,
  /// or always nearer than the distance between the accesses; or further apart than the range of
  /// near inner loops, and nearer than the multiples that the other inner loops add.
  bool apart(const Touch& a, const Touch& b) const {
    if (a.subscripts.size() != b.subscripts.size()) return false;  // one access is flat
    for (std::size_t axis = 0; axis < a.subscripts.size(); ++axis) {
      const Reach& x = a.subscripts[axis];
      const Reach& y = b.subscripts[axis];
      if (x.coefficient != y.coefficient || x.fixed != y.fixed) continue;
      const Int128 step = magnitude(x.coefficient);
      const Int128 above = y.inner.highest - x.inner.lowest;
      const Int128 below = x.inner.highest - y.inner.lowest;
      if (std::max(above, below) < step || std::min(above, below) < -step * most_apart_)
        return true;
      const Int128 multiples = std::gcd(x.step, y.step);
      const Int128 between = static_cast<Int128>(x.constant) - y.constant;
      const Int128 near = std::max(y.near.highest - x.near.lowest, x.near.highest - y.near.lowest);
      if (multiples > 0 && near < step && step * most_apart_ + near < multiples &&
          between % multiples == 0)
        return true;
    }
    return false;
  }

  const Stmt& loop_;
  Int128 most_apart_;  ///< distance of the first and the last iteration
  const std::set<BufferId>& apart_;
  std::map<VarId, const Stmt*> inner_;
  std::set<LocalId> own_;
  std::map<TouchedMemory, std::vector<Touch>> accesses_;
  std::string shared_;
};

}  // namespace

std::string shared_by_iterations(const Stmt& nest, const std::set<BufferId>& own) {
  return Iterations(nest, own).shared();
}

bool shared_out_loops_share_nothing(const StmtPtr& stmt) {
  if (stmt->kind != StmtKind::loop) return true;
  const bool shared_out = stmt->mark == LoopMark::parallel || stmt->mark == LoopMark::block;
  return (!shared_out || shared_by_iterations(*stmt, {}).empty()) &&
         std::ranges::all_of(stmt->body, shared_out_loops_share_nothing);
}

namespace {

bool has_block_loops(const Block& body) {
  bool found = false;
  walk(body, [&](const Stmt& stmt) { found = found || is_block_loop(stmt); });
  return found;
}

/// The rule that a block loop inside block loops of `outside` iterations breaks as the threads of a
/// group, alone or nested; empty: none.
std::string broken_threads(const Stmt& loop, std::int64_t outside) {
  const std::int64_t extent = loop.to - loop.from;
  if (extent < 1) return fmt::format("block loop i{} has no threads", loop.var);
  if (extent > group_threads_max / outside) {
    return fmt::format("block loop i{} makes more than {} threads of a group", loop.var,
                       group_threads_max);
  }
  if (!has_block_loops(loop.body)) return {};
  const Stmt* inner = nullptr;
  for (const StmtPtr& stmt : loop.body) {
    if (stmt->kind == StmtKind::comment) continue;
    if (inner != nullptr || !is_block_loop(*stmt))
      return fmt::format("block loop i{} has others in it, and more than one alone", loop.var);
    inner = stmt.get();
  }
  return broken_threads(*inner, extent * outside);
}

/// The rule that a group's body breaks: block loops, local blocks that its threads share, and plain
/// loops around these are legal.
std::string broken_group(const Block& body) {
  for (const StmtPtr& stmt : body) {
    std::string rule;
    if (is_block_loop(*stmt)) {
      rule = broken_threads(*stmt, 1);
    } else if (stmt->kind == StmtKind::loop &&
               (stmt->mark == LoopMark::serial || stmt->mark == LoopMark::parallel)) {
      rule = broken_group(stmt->body);
    } else if (stmt->kind != StmtKind::comment &&
               (stmt->kind != StmtKind::declare || stmt->dims.empty() ||
                stmt->value->kind != ValueKind::constant)) {
      rule = "a group of threads does something besides block loops: which of them would?";
    }
    if (!rule.empty()) return rule;
  }
  return {};
}

/// The rule that a kernel's groups break.
std::string broken_groups(const Block& body) {
  for (const StmtPtr& stmt : body) {
    const Block alone{stmt};
    if (!has_block_loops(alone)) continue;
    if (stmt->kind != StmtKind::loop || stmt->mark != LoopMark::parallel)
      return "a block loop is in no parallel loop of the top level";
    if (std::string rule = broken_group(stmt->body); !rule.empty()) return rule;
    if (const auto bytes = group_needs(stmt).shared_bytes; bytes > group_bytes_max) {
      return fmt::format("threads of a group share blocks of {} bytes; there is room for {}", bytes,
                         group_bytes_max);
    }
  }
  return {};
}

}  // namespace

std::string broken_parallel_loop(const Loop& loop) {
  if (std::string rule = broken_groups(loop.body); !rule.empty()) return rule;
  std::string rule;
  std::optional<std::set<BufferId>> own;
  const auto look = [&](const Stmt& stmt, bool is_top) {
    const bool is_block = is_block_loop(stmt);
    if (!rule.empty() || stmt.kind != StmtKind::loop ||
        (stmt.mark != LoopMark::parallel && !is_block))
      return;
    std::string what = shared_by_iterations(stmt, {});
    if (is_top && !what.empty()) {  // most loops need no separate scratch
      if (!own) own = own_scratch(loop);
      what = shared_by_iterations(stmt, *own);
    }
    if (!what.empty())
      rule = fmt::format("{} loop i{} {}", is_block ? "block" : "parallel", stmt.var, what);
  };
  for (const StmtPtr& stmt : loop.body) {
    look(*stmt, true);
    walk(stmt->body, [&](const Stmt& inner) { look(inner, false); });
  }
  return rule;
}

}  // namespace heddle::jit
