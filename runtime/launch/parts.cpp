// See runtime/launch/parts.hpp.
#include "runtime/launch/parts.hpp"

#include <algorithm>
#include <atomic>
#include <span>
#include <stop_token>

#include "heddle/scheduler.hpp"
#include "jit/code/core.hpp"
#include "jit/schedule/parallel.hpp"
#include "scheduler/device/task_parts.hpp"
#include "scheduler/threads/floating.hpp"

namespace heddle::rt {
namespace {

/// More parts than processors, so a fast thread takes more parts and a slow thread fewer.
constexpr std::uint32_t parts_per_processor = 4;
/// Maximum number of entries copied per part; a kernel with more entries runs as one part.
constexpr std::size_t entries_copied_max = 256;

struct Job {
  heddle_kernel_function function;
  const heddle_kernel_args& args;
  const std::vector<jit::OwnEntry>* own;  // null: none
  std::byte* own_from;                    // scratch of member 1
  std::size_t own_bytes;
  heddle_kernel_status* said = nullptr;  // status per part
};

void run_part(Job& job, std::uint32_t part, std::uint32_t member, std::uint32_t parts) noexcept {
  const sched::DefaultFloating floating;
  heddle_kernel_args args = job.args;
  args.part = part;
  args.num_parts = parts;
  args.status = &job.said[part];
  if (job.own == nullptr || member == 0) return job.function(&args);
  heddle_kernel_buffer buffers[entries_copied_max];  // NOLINT: only num_buffers are initialised
  std::copy_n(args.buffers, args.num_buffers, buffers);
  std::byte* const mine = job.own_from + (member - 1) * job.own_bytes;
  for (const jit::OwnEntry& each : *job.own) buffers[each.place].data = mine + each.offset;
  args.buffers = buffers;
  job.function(&args);
}

void share_out(Execution& execution, Job& job, std::uint32_t parts_worth, bool stops) noexcept {
  struct Parts {
    Job& job;
    std::uint32_t count;
  };
  const sched::TaskParts task;
  Parts parts{job, task.alone() ? 1 : std::min(parts_worth, parts_per_processor * execution.width)};
  if (parts.count == 1) {
    job.said = job.args.status;
    return run_part(job, 0, 0, 1);
  }
  heddle_kernel_status said[jit::parts_max];  // NOLINT: only `count` are initialised
  // Parts left out by a stop request keep code 0; they may come before parts that ran.
  std::fill_n(said, parts.count, heddle_kernel_status{});
  job.said = said;
  const auto part = [](void* context, std::uint32_t number, std::uint32_t member) noexcept {
    const Parts& of = *static_cast<Parts*>(context);
    run_part(of.job, number, member, of.count);
  };
  const std::uint32_t left =
      task.run(parts.count, part, &parts, stops ? this_task::stop_token() : std::stop_token());
  // relaxed: a statistic; pairs with the load in the statistics.
  execution.parts.fetch_add(parts.count - left, std::memory_order_relaxed);
  const std::span all(said, parts.count);
  const auto first = std::ranges::find_if(all, [](const auto& each) { return each.code != 0; });
  if (first != all.end()) {
    *job.args.status = *first;
  } else if (left > 0) {
    *job.args.status = {HEDDLE_KERNEL_STOPPED, 0};
  }
}

}  // namespace

std::size_t scratch_bytes(const Execution& execution, const jit::Core& core) {
  return core.scratch.bytes + (execution.width - 1) * core.own_bytes;
}

void launch_in_parts(Execution& execution, const dev::Module& module, std::size_t index,
                     const heddle_kernel_args& args, const jit::KernelStep& kernel,
                     std::byte* own) noexcept {
  const bool has_own = !kernel.own.empty();
  Job job{module.host_function(index), args, has_own ? &kernel.own : nullptr, own,
          kernel.own_bytes};
  const bool alone = has_own && args.num_buffers > entries_copied_max;
  share_out(execution, job, alone ? 1 : kernel.parts, kernel.looks_at_stop);
}

void launch_in_parts(Execution& execution, const dev::Module& module, std::size_t index,
                     const heddle_kernel_args& args, std::uint32_t parts) noexcept {
  Job job{module.host_function(index), args, nullptr, nullptr, 0};
  share_out(execution, job, parts, false);
}

}  // namespace heddle::rt
