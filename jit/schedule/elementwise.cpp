// See schedule/elementwise.hpp.
#include "jit/schedule/elementwise.hpp"

#include <algorithm>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/lanes.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/schedule/stages.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// Operations, loads and stores per iteration beyond which the iteration has fewer vectors: fewer
/// vectors also keep the loads going, and compilers take more than twice as long over twice the
/// code.
constexpr std::int64_t unrolled_steps_max = 256;

std::int64_t vector_width(const Scheduling& in, const Block& body) {
  const std::optional<DType> type = lane_type(body);
  return type ? in.target.lanes(*type) : 0;
}

/// The number of vectors that an iteration of an elementwise loop processes.
std::int64_t vectors_at_once(const Block& body) {
  std::int64_t steps = 0;
  walk(body, [&](const Stmt& stmt) { steps += stmt.kind == StmtKind::store ? 1 : 0; });
  walk_values(body, [&](const Value& v) {
    const bool counts = v.kind == ValueKind::op || v.kind == ValueKind::load;
    steps += counts ? 1 : 0;
  });
  return std::clamp<std::int64_t>(unrolled_steps_max / std::max<std::int64_t>(steps, 1), 1,
                                  unrolled_vectors);
}

}  // namespace

bool is_elementwise(const Scheduling& in, const StmtPtr& nest) {
  if (nest->kind != StmtKind::loop) return false;
  if (!is_straight(nest->body)) {
    return std::ranges::all_of(nest->body,
                               [&in](const StmtPtr& inner) { return is_elementwise(in, inner); });
  }
  const std::int64_t width = vector_width(in, nest->body);
  return width > 1 && runs_as_vectors(in, make_loop(nest->var, nest->from, nest->from + width,
                                                    nest->body, LoopMark::lanes));
}

std::optional<Block> schedule_elementwise(Scheduling& in, const StmtPtr& nest) {
  if (nest->kind != StmtKind::loop || nest->mark != LoopMark::serial || !is_straight(nest->body))
    return std::nullopt;
  const std::int64_t width = vector_width(in, nest->body);
  const std::int64_t extent = nest->to - nest->from;
  // f16 also uses lanes for less than a vector: compilers take long over scalar conversions.
  if (width < 2 || extent < (uses_half(nest->body) ? 2 : width)) return std::nullopt;
  const auto lanes = [&](std::int64_t count, const Affine& from) {
    const VarId l = in.fresh.var();
    return make_loop(l, 0, count,
                     copy_at(in, nest->body, nest->var, affine_add(from, affine_var(l))),
                     LoopMark::lanes);
  };
  // An element may depend on an element that is a vector or more before it.
  std::int64_t tile = std::min(extent, vectors_at_once(nest->body) * width);
  if (!runs_as_vectors(in, lanes(tile, Affine{nest->from, {}}))) tile = std::min(extent, width);
  if (!runs_as_vectors(in, lanes(tile, Affine{nest->from, {}}))) return std::nullopt;
  Block result;
  for (const Segment& segment : whole_tiles(extent, tile)) {
    const std::int64_t from = nest->from + segment.offset;
    if (segment.count == 1) {
      append(result, in_stages(in, lanes(segment.size, Affine{from, {}})));
    } else {
      const VarId outer = in.fresh.var();
      const Affine base = affine_add(affine_var(outer, segment.size), Affine{from, {}});
      result.push_back(
          make_loop(outer, 0, segment.count, in_stages(in, lanes(segment.size, base))));
    }
  }
  return result;
}

}  // namespace heddle::jit
