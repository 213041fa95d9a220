// See rows_at_positions.hpp.
#include "jit/schedule/rows_at_positions.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "jit/schedule/lanes.hpp"
#include "jit/vector/lane_prims.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// True if neighbouring iterations access neighbouring elements, or the same element.
bool is_along(const std::vector<Affine>& subscripts, VarId var) {
  for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
    for (const AffineTerm& term : subscripts[axis].terms) {
      const bool moves = term.kind == AffineTerm::Kind::loop && term.id == var;
      if (moves && (axis + 1 < subscripts.size() || term.coefficient != 1)) return false;
    }
  }
  return true;
}

/// Straight-line code along a row at a position, inside loops and positions.
struct Rows {
  std::vector<StmtPtr> around;
  StmtPtr row;
  std::int64_t count = 0;
  bool changes = false;  ///< elements of a stored buffer are loaded
};

std::optional<Rows> find_rows(const Scheduling& in, const StmtPtr& nest) {
  Rows rows;
  for (StmtPtr each = nest;; each = StmtPtr(each->body[0])) {
    const bool is_position = each->kind == StmtKind::at;
    if (!is_position && (each->kind != StmtKind::loop || each->mark != LoopMark::serial))
      return std::nullopt;
    rows.around.push_back(each);
    if (each->body.size() != 1 || !binds_variable(*each->body[0])) break;
  }
  rows.row = rows.around.back();
  rows.around.pop_back();
  const StmtPtr& row = rows.row;
  if (rows.around.empty() || rows.around.back()->kind != StmtKind::at ||
      row->kind != StmtKind::loop || !is_straight(row->body))
    return std::nullopt;
  const std::optional<DType> type = lane_type(row->body);
  rows.count = row->to - row->from;
  if (!type || rows.count < 3 || rows.count >= in.target.lanes(*type)) return std::nullopt;
  std::set<BufferId> stored;
  bool works = true;
  for (const StmtPtr& stmt : row->body) {
    if (stmt->kind != StmtKind::store) continue;
    works = works && is_along(stmt->subscripts, row->var);
    stored.insert(stmt->buffer);
  }
  walk_values(row->body, [&](const Value& v) {
    if (v.kind != ValueKind::load) return;
    works = works && is_along(v.subscripts, row->var);
    rows.changes = rows.changes || stored.contains(v.buffer);
  });
  return works ? std::optional(std::move(rows)) : std::nullopt;
}

/// True if loads and stores of the row need no masks.
bool needs_no_mask(const Scheduling& in, const Rows& rows, DType type) {
  const LanePart part{.first = 0, .count = rows.count, .whole = false, .changed = true};
  const std::int64_t bytes = rows.count * static_cast<std::int64_t>(size_of(type));
  return in_pieces(part, type, in.target) || part_register(in.target, bytes).bytes == bytes;
}

}  // namespace

std::optional<Block> schedule_rows_at_positions(Scheduling& in, const StmtPtr& nest) {
  if (!has_mask_registers(in.target)) return std::nullopt;
  const std::optional<Rows> rows = find_rows(in, nest);
  if (!rows || (rows->changes && !needs_no_mask(in, *rows, *lane_type(rows->row->body))))
    return std::nullopt;
  const VarId lane = in.fresh.var();
  const StmtPtr lanes =
      make_loop(lane, 0, rows->count,
                copy_at(in, rows->row->body, rows->row->var,
                        affine_add(affine_var(lane), Affine{rows->row->from, {}})),
                LoopMark::lanes);
  if (!runs_as_vectors(in, lanes)) return std::nullopt;
  StmtPtr made = lanes;
  for (auto outer = rows->around.rbegin(); outer != rows->around.rend(); ++outer)
    made = with_body(**outer, {std::move(made)});
  return Block{std::move(made)};
}

}  // namespace heddle::jit
