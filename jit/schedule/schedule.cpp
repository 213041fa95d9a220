// See schedule/schedule.hpp: the order of the steps.
#include "jit/schedule/schedule.hpp"

#include <algorithm>

#include "heddle/status.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/column_reduction.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/elementwise.hpp"
#include "jit/schedule/fuse.hpp"
#include "jit/schedule/hoist.hpp"
#include "jit/schedule/prefetch.hpp"
#include "jit/schedule/row_reduction.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/schedule/stream.hpp"
#include "jit/schedule/terms.hpp"
#include "jit/schedule/transpose.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// Variables and locals by first appearance, as the text wants them.
Block renumbered(const Block& body) {
  Substitution by;
  walk(body, [&](const Stmt& stmt) {
    if (binds_variable(stmt)) by.loops.try_emplace(stmt.var, static_cast<VarId>(by.loops.size()));
    if (stmt.kind == StmtKind::declare)
      by.locals.try_emplace(stmt.local, static_cast<LocalId>(by.locals.size()));
  });
  Block result;
  for (const StmtPtr& stmt : body) result.push_back(substitute(stmt, by));
  return result;
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

/// Nests first as a whole, then what is inside them. Blocks of each nest of the top level are out
/// of scope where the next one begins.
Block scheduled(Scheduling& in, const Steps& steps, const Block& body, bool is_top = false) {
  Block result;
  std::int64_t stays = 0;  // bytes of blocks that `result` declares
  for (std::size_t k = 0, next = 0; k < body.size(); ++k) {
    const StmtPtr& stmt = body[k];
    while (next < result.size()) stays += block_bytes(*result[next++]);
    if (is_top) in.block_bytes_left = block_bytes_max - stays;
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
    } else if (binds_variable(*stmt) && stmt->mark != LoopMark::lanes) {
      result.push_back(with_body(*stmt, scheduled(in, steps, stmt->body)));
    } else {
      result.push_back(stmt);
    }
  }
  return result;
}

}  // namespace

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
           (steps.take(ScheduleStep::transpose) && is_transpose(lowered.loop, stmt)) ||
           (steps.take(ScheduleStep::reduction) && is_column_reduction(in, stmt));
  };
  if (steps.take(ScheduleStep::fuse))
    lowered.loop.body = fuse_loops(lowered.loop.body, stays_alone,
                                   [&](const StmtPtr& nest) { return is_elementwise(in, nest); });
  shrink_scratch(lowered);
  const bool hoists = steps.take(ScheduleStep::hoist);
  if (hoists) store_shared_values(in);
  Block after = scheduled(in, steps, lowered.loop.body, true);
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
