// See schedule/elementwise.hpp.
#include "jit/schedule/elementwise.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

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

/// The statements, where a stored element that a later statement loads goes to that statement by a
/// local: stages of functions keep their order of loads and stores (stages.cpp).
Block with_stored_locals(Scheduling& in, const Block& body) {
  using Place = std::pair<BufferId, std::vector<Affine>>;
  const auto is_loaded = [&](const Place& place, std::size_t from) {
    bool found = false;
    walk_values(
        {body.begin() + static_cast<std::ptrdiff_t>(from), body.end()}, [&](const Value& v) {
          found = found || (v.kind == ValueKind::load && Place{v.buffer, v.subscripts} == place);
        });
    return found;
  };
  std::map<Place, LocalId> stored;
  Block made;
  for (std::size_t k = 0; k < body.size(); ++k) {
    const StmtPtr& stmt = body[k];
    if (!stmt->value) {
      made.push_back(stmt);
      continue;
    }
    const StmtPtr now = with_value(*stmt, rebuild(stmt->value, [&](ValuePtr v) {
      if (v->kind != ValueKind::load) return v;
      const auto known = stored.find({v->buffer, v->subscripts});
      return known == stored.end() ? v : make_local(known->second, v->dtype);
    }));
    const Place place{now->buffer, now->subscripts};
    if (now->kind != StmtKind::store) {
      made.push_back(now);
      continue;
    }
    std::erase_if(stored, [&](const auto& other) { return other.first.first == now->buffer; });
    if (size_of(now->value->dtype) < 4 || !is_loaded(place, k + 1)) {
      made.push_back(now);
      continue;
    }
    const LocalId local = stored[place] = in.fresh.local();
    made.push_back(make_declare(local, now->value));
    made.push_back(with_value(*now, make_local(local, now->value->dtype)));
  }
  return stored.empty() ? body : made;
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
  const Block body = with_stored_locals(in, nest->body);
  const auto lanes = [&](std::int64_t count, const Affine& from) {
    const VarId l = in.fresh.var();
    return make_loop(l, 0, count, copy_at(in, body, nest->var, affine_add(from, affine_var(l))),
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
