// See schedule/schedule.hpp: the order of the steps.
#include "jit/schedule/schedule.hpp"

#include <algorithm>

#include "heddle/status.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/lower/passes.hpp"
#include "jit/schedule/bool_reductions.hpp"
#include "jit/schedule/choices.hpp"
#include "jit/schedule/column_reduction.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/costly_terms.hpp"
#include "jit/schedule/elementwise.hpp"
#include "jit/schedule/found_extremes.hpp"
#include "jit/schedule/functions_apart.hpp"
#include "jit/schedule/fuse.hpp"
#include "jit/schedule/gathers_apart.hpp"
#include "jit/schedule/gathers_joined.hpp"
#include "jit/schedule/gpu_groups.hpp"
#include "jit/schedule/hoist.hpp"
#include "jit/schedule/joined_axes.hpp"
#include "jit/schedule/joined_copies.hpp"
#include "jit/schedule/lanes.hpp"
#include "jit/schedule/narrowed_indices.hpp"
#include "jit/schedule/one_hot_sums.hpp"
#include "jit/schedule/overlapped_loops.hpp"
#include "jit/schedule/parallel.hpp"
#include "jit/schedule/positions_ahead.hpp"
#include "jit/schedule/prefetch.hpp"
#include "jit/schedule/recurrences.hpp"
#include "jit/schedule/repeated_positions.hpp"
#include "jit/schedule/row_reduction.hpp"
#include "jit/schedule/rows_at_positions.hpp"
#include "jit/schedule/rows_in_blocks.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/schedule/scratch_locals.hpp"
#include "jit/schedule/settled_positions.hpp"
#include "jit/schedule/short_rows.hpp"
#include "jit/schedule/shrunk_scratch.hpp"
#include "jit/schedule/sorted_rows.hpp"
#include "jit/schedule/stream.hpp"
#include "jit/schedule/sum_blocks.hpp"
#include "jit/schedule/sums_of_rows.hpp"
#include "jit/schedule/sums_of_stored_rows.hpp"
#include "jit/schedule/terms.hpp"
#include "jit/schedule/transpose.hpp"
#include "jit/schedule/transposes_apart.hpp"
#include "jit/schedule/turned_inputs.hpp"
#include "jit/schedule/turned_reads.hpp"
#include "jit/schedule/turned_scratch.hpp"
#include "jit/schedule/unread_elements.hpp"
#include "jit/schedule/unrolled_rows.hpp"
#include "jit/schedule/widened_loads.hpp"
#include "jit/vector/lane_prims.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// The steps that neither the caller nor the caller's choices leave out.
class Steps {
 public:
  Steps(std::span<const ScheduleStep> without, std::span<const ScheduleStep> more)
      : without_(without), more_(more) {}
  [[nodiscard]] bool take(ScheduleStep step) const {
    return std::ranges::find(without_, step) == without_.end() &&
           std::ranges::find(more_, step) == more_.end();
  }

 private:
  std::span<const ScheduleStep> without_, more_;
};

struct ScheduleClass {
  ScheduleStep step;
  std::optional<Block> (*schedule)(Scheduling& in, const StmtPtr& nest);
};
/// In the order of their attempts.
constexpr ScheduleClass classes[] = {{ScheduleStep::elementwise, schedule_short_products},
                                     {ScheduleStep::contraction, schedule_contraction},
                                     {ScheduleStep::reduction, schedule_column_reduction},
                                     {ScheduleStep::elementwise, schedule_unrolled_rows},
                                     {ScheduleStep::reduction, schedule_short_rows},
                                     {ScheduleStep::transpose, schedule_transpose},
                                     {ScheduleStep::elementwise, schedule_rows_at_positions},
                                     {ScheduleStep::elementwise, schedule_elementwise}};

/// The result of `make`; or nothing, and no scratch, if its blocks exceed the kernel's remaining
/// budget.
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

/// Schedules each nest as a whole if possible, otherwise the nests inside. Blocks of a nest of the
/// top level are out of scope at the next nest.
Block scheduled(Scheduling& in, const Steps& steps, const Block& body, bool is_top = false) {
  Block result;
  std::int64_t stays = 0;  // bytes of blocks that `result` declares
  for (std::size_t k = 0, next = 0; k < body.size(); ++k) {
    const StmtPtr& stmt = body[k];
    while (next < result.size()) stays += block_bytes(*result[next++]);
    in.is_top = is_top;
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

std::vector<std::string> sum_orders(const Loop& scheduled) {
  std::vector<std::string> orders;
  walk(scheduled.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::comment && !stmt.order.empty()) orders.push_back(stmt.order);
  });
  std::ranges::sort(orders);
  return orders;
}

Lowered schedule(Lowered lowered, const Target& machine, std::span<const ScheduleStep> without,
                 const std::optional<ContractionTile>& tile, const ScheduleChoices& choices,
                 bool fast_math, bool unordered_scatters) {
  if (tile) check_tile(*tile, machine);
  check_choices(choices, machine);
  const Steps steps(without, choices.without);
  if (!machine.is_gpu() && machine.isa == Isa::none) return lowered;
  drop_unread_elements(lowered);
  if (machine.is_gpu()) {
    const auto takes = [&](ScheduleStep step) { return steps.take(step); };
    return schedule_on_gpu(std::move(lowered), machine, takes, tile, unordered_scatters);
  }
  const Target target = with_choices(machine, choices);
  Scheduling in{lowered, target, Fresh(lowered.loop), tile, choices, fast_math};
  if (steps.take(ScheduleStep::contraction) && add_at_places(in))
    lowered = drop_dead(std::move(lowered));
  if (steps.take(ScheduleStep::elementwise)) {
    lowered.loop.body = with_settled_positions(in.fresh, lowered.loop.body, settled_parts_max);
    lowered.loop.body = with_narrowed_indices(lowered.loop.body);
    lowered.loop.body = with_gathers_joined(in, lowered.loop.body);
    lowered.loop.body = with_gathers_apart(in, lowered.loop.body);
    lowered.loop.body = with_sums_of_rows(in.fresh, lowered.loop.body);
    join_stored_rows(in);
    join_short_axes(in);
    if (has_half(target)) lowered.loop.body = with_widened_loads(lowered.loop.body);
  }
  if (steps.take(ScheduleStep::reduction)) {
    lowered.loop.body = with_integers_for_bools(lowered.loop.body);
    lowered.loop.body = with_found_extremes(in, lowered.loop.body);
  }
  if (steps.take(ScheduleStep::transpose)) {
    lowered.loop.body = with_sorted_rows_side_by_side(in, lowered.loop.body);
    lowered.loop.body = with_transposes_apart(in, lowered.loop.body);
    lowered.loop.body = with_turned_scratch(in, lowered.loop.body);
    lowered.loop.body = with_turned_inputs(in, lowered.loop.body);
    lowered.loop.body = with_turned_reads(in, lowered.loop.body);
  }
  if (steps.take(ScheduleStep::reduction) || steps.take(ScheduleStep::contraction))
    lowered.loop.body = with_whole_terms(lowered.loop.body);
  if (steps.take(ScheduleStep::reduction) && steps.take(ScheduleStep::elementwise))
    lowered.loop.body = with_functions_apart(in, lowered.loop.body);
  const auto stays_alone = [&](const StmtPtr& stmt) {
    if (steps.take(ScheduleStep::elementwise) && is_among_short_rows(in, stmt)) return false;
    return (steps.take(ScheduleStep::contraction) &&
            find_contraction(lowered.loop, stmt).has_value()) ||
           (steps.take(ScheduleStep::transpose) && is_transpose(lowered.loop, stmt)) ||
           (steps.take(ScheduleStep::reduction) && is_column_reduction(in, stmt));
  };
  if (steps.take(ScheduleStep::fuse)) {
    if (steps.take(ScheduleStep::reduction) && steps.take(ScheduleStep::elementwise))
      lowered.loop.body = with_costly_terms_apart(in, lowered.loop.body, stays_alone);
    lowered.loop.body = with_rows_of_recurrences(in.fresh, lowered.loop.body, stays_alone);
    const auto becomes_vectors = [&](const StmtPtr& nest) {
      return is_elementwise(in, nest) ||
             (steps.take(ScheduleStep::elementwise) && is_short_product(in, nest));
    };
    lowered.loop.body = fuse_loops(lowered.loop.body, stays_alone, becomes_vectors);
    store_scratch_in_locals(in);
    lowered.loop.body = with_rows_in_blocks(in, lowered.loop.body, stays_alone);
    join_copies(lowered);
  }
  shrink_scratch(lowered);
  const bool hoists = steps.take(ScheduleStep::hoist);
  if (hoists) store_shared_values(in);
  in.counted_accesses.clear();  // of the kernel as it was before
  Block after = scheduled(in, steps, lowered.loop.body, true);
  if (hoists) after = share_loads(in.fresh, share_values(in.fresh, hoist_values(in.fresh, after)));
  if (steps.take(ScheduleStep::elementwise))
    after = with_positions_ahead(in, with_repeated_positions(in, after));
  if (steps.take(ScheduleStep::fuse)) after = with_overlapped_loops(in.fresh, after);
  if (steps.take(ScheduleStep::prefetch)) after = fetch_rows_ahead(in, after);
  if (steps.take(ScheduleStep::reduction)) after = with_sums_in_blocks(in, after);
  lowered.loop.body = renumbered(with_subtractions(after));
  if (steps.take(ScheduleStep::parallel))
    lowered.loop.body = mark_parallel(lowered.loop, target.profile.part_bytes);
  const auto lanes = std::make_shared<const LanePlan>(plan_lanes(lowered.loop, target));
  if (has_half(target)) lowered.loop.body = with_plain_loads(lowered.loop.body, lanes->vectors);
  if (steps.take(ScheduleStep::stream)) stream_outputs(lowered, target, *lanes);
  lowered.lanes = lanes;
  lowered.verified = verified_after("schedule", lowered.loop, lowered.verified);
  return lowered;
}

}  // namespace heddle::jit
