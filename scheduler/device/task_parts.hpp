// TaskParts: who runs the numbered parts of the running task, whatever the mode of its device; the
// one way in which parts are shared out.
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
  together,     ///< by the task's thread and those that help
  in_order,     ///< by the task's thread alone
  interleaved,  ///< by that one too, as so many processors might: see run_interleaved()
};

/// A part that runs a task itself leaves the helpers to others: what is nested takes no more
/// threads.
[[nodiscard]] Sharing sharing_of(const TaskContext& task) noexcept;

/// As many parts have begun as there are processors, and the seed says which of them runs next.
/// Between two of them other devices go on. `begins(part)`: whether it may, asked in ascending
/// order; false: none after it does either. `run(part, member)`: no two parts that have begun have
/// one member, which is below `width`. How many parts have begun.
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

/// On the thread that runs the task, within it.
class TaskParts {
 public:
  /// Of the innermost task of this thread. Outside tasks nobody helps.
  TaskParts() noexcept : task_(current_task()) {}

  /// Whether several parts would be one after the other on this thread and nothing else.
  [[nodiscard]] bool alone() const noexcept;
  /// Calls `function(context, part, member)` for each part in [0, parts), begun in ascending order,
  /// and returns when all have ended. `member`: below Helpers::width(), as for PartFunction. Once
  /// `stop` is requested no more begin; returns how many were not run. What runs meanwhile is seen
  /// in snapshots of the device. The device's helpers have been prepared.
  std::uint32_t run(std::uint32_t parts, PartFunction function, void* context,
                    const std::stop_token& stop) const noexcept;

 private:
  TaskContext* const task_;
};

}  // namespace heddle::sched
