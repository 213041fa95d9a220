// See repeated_positions.hpp.
#include "jit/schedule/repeated_positions.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "jit/loop/position.hpp"
#include "jit/schedule/lanes.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// The fewest rows with the same positions, and the most positions: they stay in the first-level
/// cache.
constexpr std::int64_t rows_min = 8, positions_max = 2048;
/// Beyond so many elements at each position, a check takes a small part of the time.
constexpr std::int64_t elements_at_each_max = 4;

/// A loop whose rows repeat positions.
class RowsOf {
 public:
  RowsOf(Scheduling& in, const StmtPtr& loop) : in_(in), loop_(*loop) {}

  /// The loop, whose iterations begin with the positions; none if no position is repeated.
  [[nodiscard]] std::optional<StmtPtr> with_positions_first() {
    walk(loop_.body, [this](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) stored_.insert(stmt.buffer);
    });
    Block rows = read_at_kept(loop_.body);
    if (positions_.empty()) return std::nullopt;
    Block body = std::move(positions_);
    append(body, rows);
    return with_body(loop_, std::move(body));
  }

 private:
  Block read_at_kept(const Block& body) {
    Block result;
    for (const StmtPtr& stmt : body) {
      if (!binds_variable(*stmt) || stmt->mark != LoopMark::serial) {
        result.push_back(stmt);
        continue;
      }
      const ValuePtr known = stmt->kind == StmtKind::at ? kept(*stmt) : nullptr;
      around_.push_back(stmt);
      Block inner = read_at_kept(stmt->body);
      around_.pop_back();
      result.push_back(with_body(known ? *with_value(*stmt, known) : *stmt, std::move(inner)));
    }
    return result;
  }

  /// The position, from scratch; null where it is not repeated, or may not be computed before.
  [[nodiscard]] ValuePtr kept(const Stmt& at) {
    const ValuePtr value = value_in_range(at);
    if (!value || !is_narrow(at.body) || reads_changed(*value)) return nullptr;
    std::int64_t rows = 1, count = 1;
    std::vector<StmtPtr> own;
    for (const StmtPtr& each : around_) {
      const bool varies = !is_uniform(*at.value, each->var, {});
      if (varies && (each->kind != StmtKind::loop || each->from != 0)) return nullptr;
      if (varies) {
        own.push_back(each);
        count *= each->to;
        if (count > positions_max) return nullptr;
      } else if (each->kind == StmtKind::loop) {
        rows *= std::max<std::int64_t>(0, each->to - each->from);
      }
    }
    if (own.empty() || rows < rows_min) return nullptr;
    Dims dims;
    std::vector<Affine> place;
    for (const StmtPtr& each : own) {
      dims.push_back(each->to);
      place.push_back(affine_var(each->var));
    }
    const BufferId positions = in_.add_scratch("positions", value->dtype, dims);
    Block fill = filled(own.back(), make_store(positions, place, value));
    for (std::size_t k = own.size() - 1; k-- > 0;)
      fill = {make_loop(own[k]->var, 0, own[k]->to, std::move(fill))};
    append(positions_, with_own_names(in_.fresh, fill, {}));
    return make_load(positions, value->dtype, place);
  }

  /// The loop around a store of positions, as vectors if possible.
  [[nodiscard]] Block filled(const StmtPtr& loop, const StmtPtr& store) {
    const DType type = store->value->dtype;
    std::int64_t lanes = unrolled_vectors * in_.target.lanes(type);
    while (lanes > 1 && loop->to % lanes != 0) lanes /= 2;
    if (lanes >= std::max<std::int64_t>(2, in_.target.lanes(type))) {
      const VarId vector = in_.fresh.var(), lane = in_.fresh.var();
      const Affine at = affine_add(affine_var(vector, lanes), affine_var(lane));
      const StmtPtr vectors =
          make_loop(lane, 0, lanes, copy_at(in_, {store}, loop->var, at), LoopMark::lanes);
      if (runs_as_vectors(in_, vectors)) return {make_loop(vector, 0, loop->to / lanes, {vectors})};
    }
    return {make_loop(loop->var, 0, loop->to, {store})};
  }

  [[nodiscard]] static bool is_narrow(const Block& body) {
    bool narrow = true;
    walk(body, [&](const Stmt& stmt) {
      narrow =
          narrow && (stmt.kind != StmtKind::loop || stmt.to - stmt.from <= elements_at_each_max);
    });
    return narrow;
  }

  /// True if the loop computes what the value reads.
  [[nodiscard]] bool reads_changed(const Value& value) const {
    bool changed = false;
    walk(value, [&](const Value& v) {
      changed = changed || v.kind == ValueKind::local ||
                (v.kind == ValueKind::load && stored_.contains(v.buffer));
    });
    return changed;
  }

  Scheduling& in_;
  const Stmt& loop_;
  std::vector<StmtPtr> around_;  ///< within an iteration
  std::set<BufferId> stored_;
  Block positions_;  ///< loops that compute them
};

}  // namespace

Block with_repeated_positions(Scheduling& in, const Block& body) {
  Block made;
  for (const StmtPtr& stmt : body) {
    const bool is_loop = stmt->kind == StmtKind::loop && stmt->mark == LoopMark::serial;
    std::optional<StmtPtr> first = is_loop ? RowsOf(in, stmt).with_positions_first() : std::nullopt;
    if (is_loop && !first) first = with_body(*stmt, with_repeated_positions(in, stmt->body));
    made.push_back(first.value_or(stmt));
  }
  return made;
}

}  // namespace heddle::jit
