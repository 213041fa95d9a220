// TaskParts: runs the numbered parts of the running task, whatever the mode of its device; the only
// way in which parts are shared among threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <utility>

#include "scheduler/device/hooks.hpp"
#include "scheduler/threads/task_context.hpp"
#include "scheduler/threads/team.hpp"

namespace heddle::sched {

enum class Sharing : std::uint8_t {
  together,  ///< by the task's thread and its helpers
  in_order,  ///< by the task's thread alone
  /// by the task's thread alone, in the order of many processors: see run_interleaved()
  interleaved,
};

/// A part that runs a nested task leaves the helpers to other tasks: nested parts take no more
/// threads.
[[nodiscard]] Sharing sharing_of(const TaskContext& task) noexcept;

/// Simulates as many processors as `width`: that many parts have begun, and the seed says which of
/// them runs next. Between two parts other devices continue. `begins(part)`: whether the part may
/// begin, asked in ascending order; false: no later part begins either. `run(part, member)`: no two
/// begun parts share a member, which is below `width`. Returns how many parts have begun.
template <class Begins, class Run>
std::uint32_t run_interleaved(Hooks& simulation, std::uint32_t width, std::size_t parts,
                              const Begins& begins, const Run& run) {
  struct Begun {
    std::size_t part;
    std::uint32_t member;
  };
  std::array<Begun, width_max> begun{};
  width = std::min(width, width_max);
  for (std::uint32_t member = 0; member < width; ++member) begun[member].member = member;
  std::size_t count = 0, next = 0;
  while (true) {
    for (; count < width && next < parts && begins(next); ++count) begun[count].part = next++;
    if (count == 0) return static_cast<std::uint32_t>(next);
    const std::size_t first = simulation.draw(count);
    std::swap(begun[first], begun[--count]);
    run(begun[count].part, begun[count].member);
    simulation.point();
  }
}

/// Used on the thread that runs the task, inside the task.
class TaskParts {
 public:
  /// For the innermost task of this thread. Outside tasks there are no helpers.
  TaskParts() noexcept : task_(current_task()) {}

  /// True if several parts would simply run in sequence on this thread.
  [[nodiscard]] bool alone() const noexcept;
  /// Calls `function(context, part, member)` for each part in [0, parts), begun in ascending order,
  /// and returns when all begun parts have ended. `member`: below Helpers::width(), as for
  /// PartFunction. Once `stop` is requested no more parts begin; returns how many were not run.
  /// Snapshots of the device show the running part. The device's helpers must be prepared.
  std::uint32_t run(std::uint32_t parts, PartFunction function, void* context,
                    const std::stop_token& stop) const noexcept;

 private:
  TaskContext* const task_;
};

}  // namespace heddle::sched
