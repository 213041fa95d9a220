// See unread_elements.hpp.
#include "jit/schedule/unread_elements.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <utility>
#include <vector>

#include "jit/loop/address.hpp"
#include "jit/loop/interval.hpp"
#include "jit/loop/kernel_uses.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/lower/passes.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/schedule/shrunk_scratch.hpp"

namespace heddle::jit {
namespace {

Affine shifted(Affine index, std::int64_t by) {
  index.constant += by;
  return index;
}

/// lowest, lowest + step, ...: `count` places on an axis.
struct Places {
  std::int64_t lowest = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;

  /// The numbers of those within [from, to): from, to.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> numbers(std::int64_t from,
                                                              std::int64_t to) const {
    const auto before = [&](std::int64_t place) {
      const std::int64_t beyond = std::max<std::int64_t>(0, place - lowest);
      return std::min(count, (beyond + step - 1) / step);
    };
    return {before(from), before(to)};
  }
  [[nodiscard]] bool contains(std::int64_t place) const {
    const auto [from, to] = numbers(place, place + 1);
    return from < to;
  }
  /// The number of an index that reaches these places alone.
  [[nodiscard]] Affine number(Affine index) const {
    index.constant = (index.constant - lowest) / step;
    for (AffineTerm& term : index.terms) term.coefficient /= step;
    return index;
  }
  /// The place of a number.
  [[nodiscard]] Affine place(const Affine& number) const {
    return shifted(affine_scale(number, step), lowest);
  }
};

/// Gathers the places that loads reach.
class Reached {
 public:
  void add(const Affine& index, const KernelUses& uses) {
    using Ends = std::optional<std::pair<std::int64_t, std::int64_t>>;
    const std::optional<Interval> at = reach(index, [&](const AffineTerm& term) -> Ends {
      if (term.kind != AffineTerm::Kind::loop) return std::nullopt;
      const auto [from, to] = uses.bounds(term.id);
      return from < to ? Ends({from, to - 1}) : std::nullopt;
    });
    is_known_ = is_known_ && at.has_value();
    if (!is_known_) return;
    const std::int64_t lowest = narrow(at->lowest), highest = narrow(at->highest);
    if (!ends_) ends_ = {lowest, highest};
    step_ = std::gcd(step_, lowest - ends_->first);
    for (const AffineTerm& term : index.terms) step_ = std::gcd(step_, term.coefficient);
    ends_ = {std::min(ends_->first, lowest), std::max(ends_->second, highest)};
  }

  /// None where they are unknown, or no load reaches any.
  [[nodiscard]] std::optional<Places> places() const {
    if (!ends_ || !is_known_) return std::nullopt;
    const auto [lowest, highest] = *ends_;
    const std::int64_t all = highest - lowest + 1;
    const std::int64_t step = std::max<std::int64_t>(1, step_);
    const std::int64_t apart = (highest - lowest) / step + 1;
    // loops over places with gaps read their operands with gaps, which compilers are slow at
    constexpr std::int64_t gain_min = 2;
    return all >= gain_min * apart ? Places{lowest, step, apart} : Places{lowest, 1, all};
  }

 private:
  std::optional<std::pair<std::int64_t, std::int64_t>> ends_;
  std::int64_t step_ = 0;
  bool is_known_ = true;
};

/// The statements that store to a buffer, along one of its axes.
class StoredAxis {
 public:
  StoredAxis(BufferId buffer, std::size_t axis, const Block& writers)
      : buffer_(buffer), axis_(axis) {
    walk(writers, [&](const Stmt& stmt) {
      if (stores(stmt)) add_store(stmt.subscripts[axis_]);
    });
    walk(writers, [&](const Stmt& stmt) {
      const auto loop = binds_variable(stmt) ? loops_.find(stmt.var) : loops_.end();
      by_places_ = by_places_ && (loop == loops_.end() || (stmt.kind == StmtKind::loop &&
                                                           computes_its_place(stmt, loop->second)));
    });
  }

  /// True if the statements can leave out places.
  [[nodiscard]] bool is_by_places() const noexcept { return by_places_; }
  /// True for a load of the place that the surrounding loop computes.
  [[nodiscard]] bool is_own(const Affine& at) const {
    if (at.terms.size() != 1) return false;
    const auto loop = loops_.find(at.terms[0].id);
    return loop != loops_.end() && at == shifted(affine_var(loop->first), loop->second);
  }

  /// The statements without the computation of other places.
  [[nodiscard]] Block left(const Block& body, const Places& places) const {
    Block result;
    for (const StmtPtr& stmt : body) {
      const auto loop = binds_variable(*stmt) ? loops_.find(stmt->var) : loops_.end();
      if (loop != loops_.end()) {
        append(result, over(*stmt, loop->second, places));
      } else if (binds_variable(*stmt)) {
        result.push_back(with_body(*stmt, left(stmt->body, places)));
      } else if (!stores(*stmt) || places.contains(stmt->subscripts[axis_].constant)) {
        result.push_back(stmt);
      }
    }
    return result;
  }

 private:
  [[nodiscard]] bool stores(const Stmt& stmt) const {
    return stmt.kind == StmtKind::store && stmt.buffer == buffer_;
  }

  void add_store(const Affine& at) {
    if (at.terms.empty()) return;
    const AffineTerm& term = at.terms[0];
    by_places_ = by_places_ && at.terms.size() == 1 && term.kind == AffineTerm::Kind::loop &&
                 term.coefficient == 1 &&
                 loops_.try_emplace(term.id, at.constant).first->second == at.constant;
  }

  /// True if each iteration only computes elements at variable + offset.
  [[nodiscard]] bool computes_its_place(const Stmt& loop, std::int64_t offset) const {
    const Affine place = shifted(affine_var(loop.var), offset);
    std::set<LocalId> declared;
    bool alone = true;
    walk(loop.body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::declare) declared.insert(stmt.local);
      if (stmt.kind == StmtKind::assign) alone = alone && declared.contains(stmt.local);
      if (stmt.kind == StmtKind::zero) alone = false;
      if (stmt.kind == StmtKind::store)
        alone = alone && stores(stmt) && stmt.subscripts[axis_] == place;
    });
    return alone;
  }

  /// The loop over the places, from 0 on as every step expects; a single one needs no loop.
  [[nodiscard]] static Block over(const Stmt& loop, std::int64_t offset, const Places& places) {
    const auto [from, to] = places.numbers(loop.from + offset, loop.to + offset);
    if (from == to) return {};
    const bool is_single = to - from == 1;
    const Affine number = is_single ? Affine{from, {}} : shifted(affine_var(loop.var), from);
    Substitution by;
    by.vars[loop.var] = shifted(places.place(number), -offset);
    Block body;
    for (const StmtPtr& each : loop.body) body.push_back(substitute(each, by));
    if (is_single) return body;
    return {make_loop(loop.var, 0, to - from, std::move(body), loop.mark)};
  }

  const BufferId buffer_;
  const std::size_t axis_;
  std::map<VarId, std::int64_t> loops_;  // that store at variable + offset
  bool by_places_ = true;
};

/// Long statements, which lowering does not make, would be walked for each scratch that they store.
constexpr std::size_t statements_max = 256;
/// Rows that lose a smaller part lie across vectors and tiles, which takes more than is gained.
constexpr std::int64_t unread_part_min = 8;

class UnreadElements {
 public:
  explicit UnreadElements(Lowered& lowered)
      : lowered_(lowered), uses_(lowered.loop), loads_(lowered.loop.buffers.size()) {
    for (std::uint32_t slot = 0; slot < lowered.loop.body.size(); ++slot) gather_loads(slot);
  }

  /// The last scratch first: where less of it is computed, less is read of the scratch before.
  void drop() {
    std::vector<std::pair<KernelUses::Position, BufferId>> scratch;
    for (BufferId buffer = 0; buffer < lowered_.loop.buffers.size(); ++buffer) {
      const KernelUses::Positions& writers = uses_.writers(buffer);
      if (lowered_.loop.buffers[buffer].role == Role::scratch && !writers.empty())
        scratch.emplace_back(*writers.begin(), buffer);
    }
    std::ranges::sort(scratch, std::greater());
    for (const auto& [first, buffer] : scratch) {
      const std::size_t axes = lowered_.loop.buffers[buffer].type.dims.size();
      for (std::size_t axis = 0; axis < axes; ++axis) leave_read(buffer, axis);
    }
    if (!shrunk_.empty()) renumber_places();
  }

 private:
  using Subscripts = std::vector<Affine>;

  void gather_loads(std::uint32_t slot) {
    walk_values(uses_.slot(slot), [&](const Value& v) {
      if (v.kind == ValueKind::load && lowered_.loop.buffers[v.buffer].role == Role::scratch)
        loads_[v.buffer][slot].push_back(v.subscripts);
    });
  }
  void forget_loads(std::uint32_t slot) {
    walk_values(uses_.slot(slot), [&](const Value& v) {
      if (v.kind == ValueKind::load) loads_[v.buffer].erase(slot);
    });
  }

  void leave_read(BufferId buffer, std::size_t axis) {
    std::set<std::uint32_t> slots;
    for (const KernelUses::Position at : uses_.writers(buffer)) slots.insert(at.slot);
    Block writers;
    for (const std::uint32_t slot : slots) {
      if (uses_.statements(slot) > statements_max) return;
      append(writers, uses_.slot(slot));
    }
    const StoredAxis stored(buffer, axis, writers);
    if (!stored.is_by_places()) return;
    const Dims& dims = lowered_.loop.buffers[buffer].type.dims;
    Reached reached;
    for (const auto& [slot, loads] : loads_[buffer]) {
      for (const Subscripts& at : loads) {
        if (is_flat(dims, at)) return;
        if (!stored.is_own(at[axis])) reached.add(at[axis], uses_);
      }
    }
    const std::optional<Places> places = reached.places();
    if (!places || places->count >= dims[axis]) return;
    const bool is_innermost = axis + 1 == dims.size();
    if (is_innermost && (dims[axis] - places->count) * unread_part_min < dims[axis]) return;
    for (const std::uint32_t slot : slots) {
      forget_loads(slot);
      uses_.replace(slot, stored.left(uses_.slot(slot), *places));
      gather_loads(slot);
    }
    shrunk_[buffer][axis] = *places;
  }

  /// Subscripts become the numbers of the places.
  void renumber_places() {
    Block body;
    for (const StmtPtr& stmt : uses_.body()) {
      body.push_back(with_subscripts(stmt, [&](BufferId buffer, Subscripts at) {
        if (const auto axes = shrunk_.find(buffer); axes != shrunk_.end()) {
          for (const auto& [axis, places] : axes->second) at[axis] = places.number(at[axis]);
        }
        return at;
      }));
    }
    for (const auto& [buffer, axes] : shrunk_) {
      for (const auto& [axis, places] : axes) set_extent(lowered_, buffer, axis, places.count);
    }
    lowered_.loop.body = std::move(body);
    lowered_ = drop_dead(std::move(lowered_));
  }

  Lowered& lowered_;
  KernelUses uses_;
  std::vector<std::map<std::uint32_t, std::vector<Subscripts>>> loads_;  // by buffer and slot
  std::map<BufferId, std::map<std::size_t, Places>> shrunk_;
};

}  // namespace

void drop_unread_elements(Lowered& lowered) { UnreadElements(lowered).drop(); }

}  // namespace heddle::jit
