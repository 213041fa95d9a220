// See schedule/schedule.hpp: the order of classes, and what they share.
#include "jit/schedule/schedule.hpp"

#include <algorithm>
#include <map>

#include "heddle/status.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// Variables and locals by first appearance, as the text wants them.
Block renumbered(const Block& body) {
  Substitution by;
  walk(body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::loop)
      by.loops.try_emplace(stmt.var, static_cast<VarId>(by.loops.size()));
    if (stmt.kind == StmtKind::declare)
      by.locals.try_emplace(stmt.local, static_cast<LocalId>(by.locals.size()));
  });
  Block result;
  for (const StmtPtr& stmt : body) result.push_back(substitute(stmt, by));
  return result;
}

/// The bytes of all local blocks together.
std::int64_t block_bytes(const Block& body) {
  std::int64_t bytes = 0;
  walk(body, [&bytes](const Stmt& stmt) {
    if (stmt.kind == StmtKind::declare && !stmt.dims.empty())
      bytes += ArrayType{stmt.value->dtype, stmt.dims}.num_bytes().value_or(block_bytes_max);
  });
  return bytes;
}

void append(Block& to, const Block& more) { to.insert(to.end(), more.begin(), more.end()); }

/// Those that the caller did not leave out.
class Steps {
 public:
  explicit Steps(std::span<const ScheduleStep> without) : without_(without) {}
  [[nodiscard]] bool take(ScheduleStep step) const {
    return std::ranges::find(without_, step) == without_.end();
  }

 private:
  std::span<const ScheduleStep> without_;
};

struct ScheduleClass {
  ScheduleStep step;
  std::optional<Block> (*schedule)(Scheduling& in, const StmtPtr& nest);
};
/// In the order in which they are tried.
constexpr ScheduleClass classes[] = {{ScheduleStep::contraction, schedule_contraction},
                                     {ScheduleStep::reduction, schedule_column_reduction},
                                     {ScheduleStep::transpose, schedule_transpose},
                                     {ScheduleStep::elementwise, schedule_elementwise}};

/// What `make` gives, unless its blocks exceed what the kernel may still have: then nothing, and no
/// scratch.
template <class Make>
std::optional<Block> within_budget(Scheduling& in, const Make& make) {
  const std::size_t buffers = in.lowered.loop.buffers.size();
  std::optional<Block> made = make();
  if (!made) return std::nullopt;
  const std::int64_t bytes = block_bytes(*made);
  if (bytes > in.block_bytes_left) {
    in.drop_scratch(buffers);
    return std::nullopt;
  }
  in.block_bytes_left -= bytes;
  return made;
}

/// Nests first as a whole, then what is inside them.
Block scheduled(Scheduling& in, const Steps& steps, const Block& body) {
  Block result;
  for (std::size_t k = 0; k < body.size(); ++k) {
    const StmtPtr& stmt = body[k];
    if (k + 1 < body.size() && stmt->kind == StmtKind::declare &&
        steps.take(ScheduleStep::reduction)) {
      const auto made =
          within_budget(in, [&] { return schedule_row_reduction(in, stmt, body[k + 1]); });
      if (made) {
        append(result, *made);
        ++k;
        continue;
      }
    }
    std::optional<Block> made;
    for (const ScheduleClass& each : classes) {
      if (!made && steps.take(each.step))
        made = within_budget(in, [&] { return each.schedule(in, stmt); });
    }
    if (made) {
      append(result, *made);
    } else if (stmt->kind == StmtKind::loop && stmt->mark != LoopMark::lanes) {
      result.push_back(with_body(*stmt, scheduled(in, steps, stmt->body)));
    } else {
      result.push_back(stmt);
    }
  }
  return result;
}

}  // namespace

Fresh::Fresh(const Loop& loop) {
  walk(loop.body, [this](const Stmt& stmt) {
    if (stmt.kind == StmtKind::loop) next_var = std::max(next_var, stmt.var + 1);
    if (stmt.kind == StmtKind::declare) next_local = std::max(next_local, stmt.local + 1);
  });
}

void Scheduling::drop_scratch(std::size_t from) {
  const auto kept = static_cast<std::ptrdiff_t>(from);
  lowered.loop.buffers.erase(lowered.loop.buffers.begin() + kept, lowered.loop.buffers.end());
  lowered.tensors.erase(lowered.tensors.begin() + kept, lowered.tensors.end());
}

BufferId Scheduling::add_scratch(const char* label, DType type, Dims dims) {
  Tensor tensor(label, type, std::move(dims));
  lowered.loop.buffers.push_back({Role::scratch, tensor.type()});
  lowered.tensors.push_back(std::move(tensor));
  return static_cast<BufferId>(lowered.loop.buffers.size() - 1);
}

std::vector<Segment> balanced_tiles(std::int64_t extent, std::int64_t size) {
  const std::int64_t tiles = (extent + size - 1) / size;
  const std::int64_t large = (extent + tiles - 1) / tiles;
  const std::int64_t small = tiles * large - extent;  // tiles that are one shorter
  std::vector<Segment> segments{{0, tiles - small, large}};
  if (small > 0) segments.push_back({(tiles - small) * large, small, large - 1});
  return segments;
}

std::vector<Segment> whole_tiles(std::int64_t extent, std::int64_t size) {
  std::vector<Segment> segments;
  const std::int64_t whole = extent / size;
  if (whole > 0) segments.push_back({0, whole, size});
  if (extent % size > 0) segments.push_back({whole * size, 1, extent % size});
  return segments;
}

bool is_straight(const Block& body) {
  return std::ranges::all_of(body, [](const StmtPtr& stmt) {
    return (stmt->kind == StmtKind::declare && stmt->dims.empty()) ||
           stmt->kind == StmtKind::assign || stmt->kind == StmtKind::store ||
           stmt->kind == StmtKind::comment;
  });
}

Block copied(Scheduling& in, const Block& body, Substitution by) {
  for (const StmtPtr& stmt : body) {
    if (stmt->kind == StmtKind::declare) by.locals[stmt->local] = in.fresh.local();
  }
  Block result;
  for (const StmtPtr& stmt : body) result.push_back(substitute(stmt, by));
  return result;
}

Lowered schedule(Lowered lowered, const Target& target, std::span<const ScheduleStep> without,
                 const std::optional<ContractionTile>& tile) {
  if (tile) check_tile(*tile, target);
  if (target.isa == Isa::none) return lowered;
  Scheduling in{lowered, target, Fresh(lowered.loop), tile};
  const Steps steps(without);
  if (steps.take(ScheduleStep::reduction) || steps.take(ScheduleStep::contraction))
    lowered.loop.body = with_whole_terms(lowered.loop.body);
  const auto stays_alone = [&](const StmtPtr& stmt) {
    return (steps.take(ScheduleStep::contraction) &&
            find_contraction(lowered.loop, stmt).has_value()) ||
           (steps.take(ScheduleStep::transpose) && is_transpose(lowered.loop, stmt));
  };
  if (steps.take(ScheduleStep::fuse))
    lowered.loop.body = fuse_loops(lowered.loop.body, stays_alone,
                                   [&](const StmtPtr& nest) { return is_elementwise(in, nest); });
  shrink_scratch(lowered);
  const bool hoists = steps.take(ScheduleStep::hoist);
  if (hoists) store_shared_values(in);
  Block after = scheduled(in, steps, lowered.loop.body);
  if (hoists) after = share_values(in.fresh, hoist_values(in.fresh, after));
  if (steps.take(ScheduleStep::prefetch)) after = fetch_rows_ahead(in, after);
  lowered.loop.body = renumbered(after);
  const auto lanes = std::make_shared<const LanePlan>(plan_lanes(lowered.loop, target));
  if (steps.take(ScheduleStep::stream)) stream_outputs(lowered, target, *lanes);
  lowered.lanes = lanes;
  lowered.verified = verified_after("schedule", lowered.loop, lowered.verified);
  return lowered;
}

}  // namespace heddle::jit
