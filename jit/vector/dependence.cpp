// See vector/dependence.hpp. The tests are the textbook tests (Banerjee's bounds, the greatest
// common divisor), axis by axis, restricted to the distances that all axes allow.
#include "jit/vector/dependence.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "jit/loop/interval.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/value/int128.hpp"

namespace heddle::jit {
namespace {

/// The most pairs of accesses to a place that are tested, per loop: further pairs are assumed to
/// meet.
constexpr std::size_t pairs_max = 4096;

struct Access {
  std::vector<Affine> at;
  bool writes = false;
  bool whole = false;  ///< every element
  friend bool operator==(const Access&, const Access&) = default;
};
using Accesses = std::map<Place, std::vector<Access>>;

/// First and last value of a loop's variable.
using VarRange = std::pair<std::int64_t, std::int64_t>;

Int128 magnitude(Int128 v) { return v < 0 ? -v : v; }
Int128 gcd(Int128 a, Int128 b) { return b == 0 ? magnitude(a) : gcd(b, a % b); }

/// Tests whether accesses of two iterations of a loop meet.
class Meeting {
 public:
  Meeting(VarId loop, const std::map<VarId, VarRange>& outer, const std::map<VarId, VarRange>& own)
      : loop_(loop), outer_(outer), own_(own) {}

  bool operator()(const Access& a, const Access& b) const {
    // different sizes: one access is flat
    if (a.whole || b.whole || a.at.size() != b.at.size()) return true;
    const auto [first, last] = own_.at(loop_);
    const Int128 most = static_cast<Int128>(last) - first;
    Distances common{-most, most};
    for (std::size_t axis = 0; axis < a.at.size(); ++axis) {
      if (!narrow(a.at[axis], b.at[axis], common)) return false;
    }
    return common.least <= common.most && (common.least != 0 || common.most != 0);
  }

 private:
  /// Iterations from a's to b's.
  struct Distances {
    Int128 least, most;
  };

  struct Coefficients {
    std::int64_t a = 0, b = 0;
  };

  /// Returns false where the subscripts are equal at no distance in `common`; removes impossible
  /// distances from `common`.
  bool narrow(const Affine& a, const Affine& b, Distances& common) const {
    std::map<std::pair<AffineTerm::Kind, std::uint32_t>, Coefficients> terms;
    for (const AffineTerm& term : a.terms) terms[{term.kind, term.id}].a = term.coefficient;
    for (const AffineTerm& term : b.terms) terms[{term.kind, term.id}].b = term.coefficient;
    // The range of a's subscript minus b's, both at a's iteration.
    const Int128 constant = static_cast<Int128>(a.constant) - b.constant;
    Interval rest{constant, constant};
    Int128 divisor = 0;
    bool fits = true;
    const auto add = [&](Int128 coefficient, VarRange range) {
      fits = fits && coefficient == jit::narrow(coefficient);
      rest.add(jit::narrow(coefficient), range.first, range.second);
      divisor = gcd(divisor, coefficient);
    };
    Coefficients moves;
    for (const auto& [key, of] : terms) {
      const auto& [kind, id] = key;
      const Int128 difference = static_cast<Int128>(of.a) - of.b;
      const auto own = kind == AffineTerm::Kind::loop ? own_.find(id) : own_.end();
      const auto outer = kind == AffineTerm::Kind::loop ? outer_.find(id) : outer_.end();
      if (own != own_.end() && id == loop_) {
        moves = of;
        if (difference != 0) add(difference, own->second);
      } else if (own != own_.end()) {  // iterations of inner loops are unrelated
        add(of.a, own->second);
        add(-static_cast<Int128>(of.b), own->second);
      } else if (difference != 0) {
        if (outer == outer_.end()) return true;  // a static index: any value
        add(difference, outer->second);
      }
    }
    return !fits || solve(moves, rest, constant, divisor, common);
  }

  /// moves.b * distance = a value of `rest`, which is `constant` plus multiples of `divisor`.
  static bool solve(Coefficients moves, Interval rest, Int128 constant, Int128 divisor,
                    Distances& common) {
    const Int128 step = moves.b;
    const Int128 all = gcd(divisor, step);
    if (all == 0 ? constant != 0 : constant % all != 0) return false;
    if (step == 0) return rest.lowest <= 0 && rest.highest >= 0;
    if (step < 0) rest = {-rest.highest, -rest.lowest};
    const Int128 size = magnitude(step);
    common.least = std::max(common.least, -floor_div(-rest.lowest, size));
    common.most = std::min(common.most, floor_div(rest.highest, size));
    return common.least <= common.most;
  }

  VarId loop_;
  const std::map<VarId, VarRange>& outer_;  // the surrounding loops
  const std::map<VarId, VarRange>& own_;    // the loop and the loops inside
};

class Finder {
 public:
  Finder(const LanePlan& plan, CarriedDependences& found) : plan_(plan), found_(found) {}

  void block(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (!binds_variable(*stmt) || is_vector(*stmt) || stmt->from >= stmt->to) continue;
      if (stmt->kind == StmtKind::loop) loop(*stmt);
      outer_[stmt->var] = {stmt->from, stmt->to - 1};
      block(stmt->body);
      outer_.erase(stmt->var);
    }
  }

 private:
  bool is_vector(const Stmt& stmt) const { return plan_.vectors.contains(stmt.var); }

  void loop(const Stmt& stmt) {
    if (stmt.to - stmt.from < 2) return;
    own_ = {{stmt.var, {stmt.from, stmt.to - 1}}};
    made_.clear();
    accesses_.clear();
    collect(stmt.body);
    const Meeting meet(stmt.var, outer_, own_);
    for (const auto& [place, accesses] : accesses_) {
      const auto writes =
          static_cast<std::size_t>(std::ranges::count_if(accesses, &Access::writes));
      if (writes == 0) continue;
      const bool many = writes * accesses.size() > pairs_max;
      const bool carried = many || std::ranges::any_of(accesses, [&](const Access& a) {
                             return a.writes && std::ranges::any_of(accesses, [&](const Access& b) {
                                      return meet(a, b);
                                    });
                           });
      if (carried) found_[stmt.var].insert(place);
    }
  }

  void collect(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (stmt->value) {
        walk(*stmt->value, [this](const Value& v) {
          if (v.kind == ValueKind::load) add({false, v.buffer}, {v.subscripts, false, false});
          if (v.kind == ValueKind::local && !v.subscripts.empty())
            add({true, v.local}, {v.subscripts, false, false});
        });
      }
      switch (stmt->kind) {
        case StmtKind::comment:
        case StmtKind::prefetch:
          break;
        case StmtKind::loop:
        case StmtKind::at:  // anywhere in its range, in each iteration
          if (is_vector(*stmt) || stmt->from >= stmt->to) break;
          own_[stmt->var] = {stmt->from, stmt->to - 1};
          collect(stmt->body);
          break;
        case StmtKind::zero:
          add({false, stmt->buffer}, {{}, true, true});
          break;
        case StmtKind::store:
          add({false, stmt->buffer}, {stmt->subscripts, true, false});
          break;
        case StmtKind::declare:
          made_.insert(stmt->local);  // new in each iteration
          break;
        case StmtKind::assign:
          if (!stmt->subscripts.empty()) add({true, stmt->local}, {stmt->subscripts, true, false});
          break;
      }
    }
  }

  void add(Place place, Access access) {
    if (place.is_block && made_.contains(place.id)) return;
    std::vector<Access>& known = accesses_[place];
    // Beyond the limit no pairs are tested, so duplicates do no harm.
    const bool few = known.size() * known.size() <= pairs_max;
    if (!few || std::ranges::find(known, access) == known.end()) known.push_back(std::move(access));
  }

  const LanePlan& plan_;
  CarriedDependences& found_;
  std::map<VarId, VarRange> outer_, own_;  // including positions
  std::set<LocalId> made_;
  Accesses accesses_;
};

}  // namespace

CarriedDependences carried_dependences(const Loop& loop, const LanePlan& plan) {
  CarriedDependences found;
  Finder(plan, found).block(loop.body);
  return found;
}

}  // namespace heddle::jit
