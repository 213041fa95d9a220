// See settled_positions.hpp.
#include "jit/schedule/settled_positions.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "jit/loop/affine_value.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/system/limits.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

class PositionSettler {
 public:
  PositionSettler(Fresh& fresh, int parts) : fresh_(fresh), parts_max_(parts) {}

  Block settled(const Block& body) {
    Block result;
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::loop)
        append(result, settled_loop(*stmt));
      else if (stmt->kind == StmtKind::at)
        append(result, settled_at(*stmt));
      else
        result.push_back(stmt);
    }
    return result;
  }

 private:
  Block settled_loop(const Stmt& loop) {
    ranges_[loop.var] = {loop.from, loop.to};
    const Cuts cuts = cuts_of(loop);
    if (std::optional<Block> periods = by_periods(loop, cuts)) return *std::move(periods);
    const bool cut = !cuts.at.empty() && copies(loop) <= parts_max_;
    const int parts_max = parts_max_;
    if (cut) parts_max_ /= 1 + static_cast<int>(cuts.at.size());
    Block result;
    std::int64_t from = loop.from;
    const auto add = [&](std::int64_t to) {
      const StmtPtr part = cut ? part_of(loop, from, to) : nullptr;
      const Stmt& here = part ? *part : loop;
      ranges_[here.var] = {here.from, here.to};
      Block body = settled(here.body);
      from = to;
      if (!body.empty()) result.push_back(with_body(here, std::move(body)));
    };
    if (cut) {
      for (const std::int64_t at : cuts.at) add(at);
    }
    add(loop.to);
    parts_max_ = parts_max;
    ranges_[loop.var] = {loop.from, loop.to};
    return result;
  }

  /// The loop, settled, as a loop of whole periods, with a loop over each period inside, and the
  /// rests before and behind; none if no period is whole, or no position is settled so.
  std::optional<Block> by_periods(const Stmt& loop, const Cuts& cuts) {
    if (cuts.period == 1 || !cuts.at.empty() || copies_short_rows(loop.body) ||
        computes_few(loop.body, cuts.period))
      return std::nullopt;
    const auto multiple = [&](std::int64_t of) { return of * cuts.period - cuts.phase; };
    const std::int64_t first = -narrow(floor_div(-(loop.from + cuts.phase), cuts.period));
    const std::int64_t last = narrow(floor_div(loop.to + cuts.phase, cuts.period));
    if (last <= first) return std::nullopt;
    const VarId period = fresh_.var(), inside = fresh_.var();
    inside_periods_.insert(inside);
    Substitution by;
    by.vars[loop.var] = affine_add(affine_var(period, cuts.period),
                                   affine_add(affine_var(inside), Affine{multiple(first), {}}));
    const StmtPtr each =
        make_loop(inside, 0, cuts.period, with_own_names(fresh_, loop.body, std::move(by)));
    Block parts{make_loop(period, 0, last - first, {each})};
    if (loop.from < multiple(first))
      parts.insert(parts.begin(), part_of(loop, loop.from, multiple(first)));
    if (multiple(last) < loop.to) parts.push_back(part_of(loop, multiple(last), loop.to));
    const int parts_max = parts_max_;
    parts_max_ /= static_cast<int>(parts.size());
    std::optional<Block> made;
    if (parts_max_ > 0) made = settled(parts);
    parts_max_ = parts_max;
    const auto count = static_cast<std::int64_t>(parts.size()) * positions(loop.body);
    return made && positions(*made) < count ? made : std::nullopt;
  }
  static std::int64_t positions(const Block& body) {
    std::int64_t count = 0;
    walk(body, [&](const Stmt& stmt) { count += stmt.kind == StmtKind::at ? 1 : 0; });
    return count;
  }

  /// True if functions of one element at a position would leave lanes idle: they are computed for
  /// many positions at once, in vectors.
  static bool computes_few(const Block& body, std::int64_t period) {
    constexpr std::int64_t rows_max = 4;  // beyond, rows are not turned in registers
    bool few = false;
    walk(body, [&](const Stmt& stmt) {
      few |= stmt.value && stmt.kind != StmtKind::at && has_costly(*stmt.value);
    });
    return few && period > rows_max;
  }
  /// True if each iteration copies a row that vectors move faster at a position, by masks.
  static bool copies_short_rows(const Block& body) {
    constexpr std::int64_t elements_max = 15;
    bool is_short = false, computes = false;
    walk(body, [&](const Stmt& stmt) {
      is_short |= stmt.kind == StmtKind::loop && stmt.to - stmt.from <= elements_max;
      computes |= stmt.kind == StmtKind::store && stmt.value->kind != ValueKind::load;
    });
    return is_short && !computes;
  }

  /// Iterations from .. to of the loop, with names of its own; it begins at 0.
  StmtPtr part_of(const Stmt& loop, std::int64_t from, std::int64_t to) {
    const VarId var = fresh_.var();
    Substitution by;
    by.vars[loop.var] = affine_add(affine_var(var), Affine{from, {}});
    return make_loop(var, 0, to - from, with_own_names(fresh_, loop.body, std::move(by)),
                     loop.mark);
  }

  Block settled_at(const Stmt& at) {
    const std::optional<Affine> value = affine_value(*at.value, ranges_);
    const std::optional<Interval> range = value ? reach(*value, ranges_) : std::nullopt;
    if (!range) return unsettled(at);
    if (range->lowest >= at.from && range->highest < at.to) return settled_with(at, *value);
    const bool is_below = range->highest < at.from, is_above = range->lowest >= at.to;
    if (!is_below && !is_above) return unsettled(at);
    if (!at.nearest) return {};
    return settled_with(at, Affine{is_below ? at.from : at.to - 1, {}});
  }
  Block unsettled(const Stmt& at) {
    Block body = settled(at.body);
    if (body.empty()) return {};
    return {with_body(at, std::move(body))};
  }
  Block settled_with(const Stmt& at, const Affine& value) {
    Substitution by;
    by.vars[at.var] = value;
    Block body;
    for (const StmtPtr& stmt : at.body) body.push_back(substitute(stmt, by));
    return settled(body);
  }

  /// The cuts of a loop around positions alone, or around a period's.
  [[nodiscard]] Cuts cuts_of(const Stmt& loop) {
    Cuts cuts{loop.var};
    if (loop.mark != LoopMark::serial) return cuts;
    const Block* body = &loop.body;
    if (body->size() == 1 && inside_periods_.contains(body->front()->var)) {
      const Stmt& inside = *body->front();
      ranges_[inside.var] = {inside.from, inside.to};
      body = &inside.body;
    }
    while (body->size() == 1 && body->front()->kind == StmtKind::at) {
      const Stmt& at = *body->front();
      if (const auto value = affine_value(*at.value, ranges_, &cuts)) {
        add_cut(*value, at.from, ranges_, cuts);
        add_cut(*value, at.to, ranges_, cuts);
      }
      body = &at.body;
    }
    return cuts;
  }

  /// The copies of the innermost statements if this loop and the loops inside are cut.
  int copies(const Stmt& loop) {
    int inside = 1;
    walk(loop.body, [&](const Stmt& stmt) {
      if (stmt.kind != StmtKind::loop) return;
      ranges_[stmt.var] = {stmt.from, stmt.to};
      inside *= 1 + static_cast<int>(cuts_of(stmt).at.size());
      inside = std::min(inside, parts_max_ + 1);
    });
    return inside * (1 + static_cast<int>(cuts_of(loop).at.size()));
  }

  Fresh& fresh_;
  int parts_max_;
  LoopRanges ranges_;
  std::set<VarId> inside_periods_;  ///< variables of the loops over a period
};

}  // namespace

Block with_settled_positions(Fresh& fresh, const Block& body, int parts) {
  return PositionSettler(fresh, parts).settled(body);
}

}  // namespace heddle::jit
