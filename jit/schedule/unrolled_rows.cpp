// See unrolled_rows.hpp.
#include "jit/schedule/unrolled_rows.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/lanes.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/vector/lane_prims.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// Values of an unrolled row beyond which compilers take long.
constexpr std::size_t row_values_max = 512;
/// Rows of four elements take twelve permutations: compilers do better with plain arithmetic.
constexpr std::int64_t row_elements_max = 4;
/// Fewer rows than this are a tile of a product.
constexpr std::int64_t rows_of_product_min = 64;

/// The body of a loop over rows as straight-line code: it loads each element once, before the
/// stores, and stores each element once, at the end; scratch that nothing else reads, never.
class UnrolledRow {
 public:
  UnrolledRow(Scheduling& in, const StmtPtr& nest) : in_(in), nest_(*nest) {}

  [[nodiscard]] bool unroll() {
    return add(nest_.body, {}) && longest_ > 0 &&
           (has_products_ ||
            (has_more_ && (longest_ < row_elements_max || !has_plain_arithmetic(nest_.body))));
  }

  [[nodiscard]] Block body() {
    Block made = values_;
    const std::vector<std::int64_t>& all = in_.all_accesses();
    const std::vector<std::int64_t> own = accesses_of_buffers(nest_.body, all.size());
    for (const auto& [place, local] : elements_) {
      const BufferId buffer = place.first;
      const bool is_needed = in_.lowered.loop.buffers[buffer].role != Role::scratch ||
                             own[buffer] != all[buffer] || loaded_.contains(buffer);
      if (stored_.contains(place) && is_needed)
        made.push_back(
            make_store(place.first, place.second, make_local(local.first, local.second)));
    }
    return made;
  }

 private:
  using Place = std::pair<BufferId, std::vector<Affine>>;

  /// Adds the statements, of an iteration of the loops inside: `by`. False where they have another
  /// form.
  [[nodiscard]] bool add(const Block& body, const Substitution& by) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::comment) continue;
      if (stmt->kind == StmtKind::loop) {
        const std::int64_t count = stmt->to - stmt->from;
        if (stmt->mark != LoopMark::serial || count < 2 || count > row_elements_max) return false;
        longest_ = std::max(longest_, count);
        for (std::int64_t k = stmt->from; k < stmt->to; ++k) {
          Substitution at = by;
          at.vars[stmt->var] = Affine{k, {}};
          if (!add(stmt->body, at)) return false;
        }
        continue;
      }
      if (values_.size() > row_values_max || !add(*stmt, by)) return false;
      has_more_ = has_more_ || (by.vars.empty() && stmt->kind != StmtKind::comment);
    }
    return true;
  }

  [[nodiscard]] bool add(const Stmt& stmt, const Substitution& by) {
    const bool is_value = stmt.kind == StmtKind::declare || stmt.kind == StmtKind::assign;
    if ((!is_value && stmt.kind != StmtKind::store) || !stmt.dims.empty()) return false;
    bool works = true;
    const ValuePtr value = rebuild(substitute(stmt.value, by), [&](ValuePtr v) {
      if (v->kind == ValueKind::local) {
        const auto known = locals_.find(v->local);
        works = works && v->subscripts.empty() && known != locals_.end();
        return works ? make_local(known->second, v->dtype) : v;
      }
      if (v->kind != ValueKind::load) return v;
      return element(std::move(v), works);
    });
    if (!works) return false;
    if (stmt.kind == StmtKind::assign) {
      has_products_ = has_products_ || by.vars.size() > 1;
      const auto known = locals_.find(stmt.local);
      if (known == locals_.end() || !stmt.subscripts.empty()) return false;
      values_.push_back(make_assign(known->second, value));
      return true;
    }
    const LocalId local = in_.fresh.local();
    values_.push_back(make_declare(local, value));
    if (stmt.kind == StmtKind::declare) {
      locals_[stmt.local] = local;
      return true;
    }
    Place place{stmt.buffer, subscripts(stmt, by)};
    if (stmt.atomic || stmt.stream || may_meet_another(place, true)) return false;
    elements_[place] = {local, value->dtype};
    stored_.insert(std::move(place));
    return true;
  }

  static std::vector<Affine> subscripts(const Stmt& store, const Substitution& by) {
    std::vector<Affine> at;
    for (const Affine& each : store.subscripts) at.push_back(substitute(each, by));
    return at;
  }

  /// The local of the element, which is loaded or was stored before.
  [[nodiscard]] ValuePtr element(ValuePtr load, bool& works) {
    const Place place{load->buffer, load->subscripts};
    auto known = elements_.find(place);
    if (known == elements_.end()) {
      works = works && !may_meet_another(place, false);
      const LocalId local = in_.fresh.local();
      values_.push_back(make_declare(local, load));
      loaded_.insert(load->buffer);
      known = elements_.emplace(place, std::pair{local, load->dtype}).first;
      if (!is_uniform(*load, nest_.var, {})) has_more_ = has_more_ || !is_of_row(*load);
    }
    return make_local(known->second.first, load->dtype);
  }

  /// True if other subscripts of the same buffer, of which one access stores, may mean the same
  /// element.
  [[nodiscard]] bool may_meet_another(const Place& place, bool stores) const {
    return std::ranges::any_of(elements_, [&](const auto& known) {
      const Place& other = known.first;
      return other.first == place.first && other != place && (stores || stored_.contains(other)) &&
             !are_apart(other.second, place.second);
    });
  }

  /// True if the subscripts differ by a constant on an axis.
  static bool are_apart(const std::vector<Affine>& a, const std::vector<Affine>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t axis = 0; axis < a.size(); ++axis)
      if (a[axis].terms == b[axis].terms && a[axis].constant != b[axis].constant) return true;
    return false;
  }

  [[nodiscard]] bool is_of_row(const Value& load) const {
    return row_access(in_.lowered.loop.buffers[load.buffer].type, load.subscripts, nest_.var,
                      in_.target)
        .has_value();
  }

  Scheduling& in_;
  const Stmt& nest_;
  Block values_;
  std::map<LocalId, LocalId> locals_;
  std::map<Place, std::pair<LocalId, DType>> elements_;  ///< that are loaded or stored
  std::set<Place> stored_;
  std::set<BufferId> loaded_;
  std::int64_t longest_ = 0;   ///< row
  bool has_more_ = false;      ///< more than elements of rows
  bool has_products_ = false;  ///< of rows and short matrices, or of short matrices
};

/// True if all loops inside a loop are along short rows.
bool has_short_loops(const Stmt& nest) {
  bool are_short = nest.kind == StmtKind::loop;
  walk(nest.body, [&](const Stmt& stmt) {
    are_short = are_short && (!binds_variable(stmt) || stmt.to - stmt.from <= row_elements_max);
  });
  return are_short;
}

/// Adds the buffers that the statement loads, and those that it stores.
void add_buffers(const Stmt& stmt, std::set<BufferId>* loaded, std::set<BufferId>& stored) {
  if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) stored.insert(stmt.buffer);
  if (stmt.value && loaded != nullptr) {
    walk(*stmt.value, [&](const Value& v) {
      if (v.kind == ValueKind::load) loaded->insert(v.buffer);
    });
  }
  for (const StmtPtr& inner : stmt.body) add_buffers(*inner, loaded, stored);
}

/// The loops down to the loop over rows, where this is around loops along short rows alone; empty:
/// there is no such loop.
std::vector<StmtPtr> loops_to_rows(const StmtPtr& nest) {
  std::vector<StmtPtr> loops{nest};
  for (; is_serial_loop(loops.back()); loops.push_back(loops.back()->body[0])) {
    const Stmt& loop = *loops.back();
    if (loop.to - loop.from >= rows_of_product_min && has_short_loops(loop)) return loops;
    if (loop.body.size() != 1) break;
  }
  return {};
}

}  // namespace

std::optional<Block> schedule_unrolled_rows(Scheduling& in, const StmtPtr& nest) {
  if (nest->kind != StmtKind::loop || nest->mark != LoopMark::serial ||
      !has_mask_registers(in.target) || is_straight(nest->body))
    return std::nullopt;
  UnrolledRow row(in, nest);
  if (!row.unroll()) return std::nullopt;
  const Block body = row.body();
  const std::optional<DType> type = lane_type(body);
  const std::int64_t width = type ? in.target.lanes(*type) : 0, extent = nest->to - nest->from;
  if (width < 2 || extent < width) return std::nullopt;
  const auto lanes = [&](const Affine& from) {
    const VarId lane = in.fresh.var();
    return make_loop(lane, 0, width,
                     copy_at(in, body, nest->var, affine_add(from, affine_var(lane))),
                     LoopMark::lanes);
  };
  if (!runs_as_vectors(in, lanes(Affine{nest->from, {}}))) return std::nullopt;
  const Segment whole = whole_tiles(extent, width)[0];
  const VarId outer = in.fresh.var();
  Block made{make_loop(outer, 0, whole.count,
                       {lanes(affine_add(affine_var(outer, width), Affine{nest->from, {}}))})};
  const std::int64_t rest = nest->from + whole.count * width;
  if (rest < nest->to) made.push_back(make_loop(nest->var, rest, nest->to, nest->body));
  return made;
}

std::optional<Block> schedule_short_products(Scheduling& in, const StmtPtr& nest) {
  if (!has_mask_registers(in.target)) return std::nullopt;
  const std::vector<StmtPtr> loops = loops_to_rows(nest);
  if (loops.empty() || !find_contraction(in.lowered.loop, nest)) return std::nullopt;
  std::optional<Block> made = schedule_unrolled_rows(in, loops.back());
  for (std::size_t k = loops.size() - 1; made && k-- > 0;)
    made = Block{with_body(*loops[k], *std::move(made))};
  return made;
}

bool is_short_product(Scheduling& in, const StmtPtr& nest) {
  return schedule_short_products(in, nest).has_value();
}

bool is_among_short_rows(Scheduling& in, const StmtPtr& nest) {
  if (!has_short_loops(*nest) || !is_short_product(in, nest)) return false;
  std::set<BufferId> written, known;
  for (const StmtPtr& stmt : in.lowered.loop.body) add_buffers(*stmt, nullptr, written);
  add_buffers(*nest, &known, known);
  for (bool grows = true; grows;) {
    grows = false;
    for (const StmtPtr& stmt : in.lowered.loop.body) {
      if (!is_serial_loop(stmt) || stmt->from != nest->from || stmt->to != nest->to) continue;
      std::set<BufferId> theirs;
      add_buffers(*stmt, &theirs, theirs);
      const auto is_shared = [&](BufferId buffer) {
        return written.contains(buffer) && known.contains(buffer);
      };
      if (std::ranges::none_of(theirs, is_shared)) continue;
      if (!has_short_loops(*stmt)) return false;
      const std::size_t before = known.size();
      known.merge(theirs);
      grows = grows || known.size() != before;
    }
  }
  return true;
}

}  // namespace heddle::jit
