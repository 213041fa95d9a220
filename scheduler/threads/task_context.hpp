// The tasks that run on the calling thread: a chain, innermost first (inline devices nest). A task
// counts until its callable is destroyed and the callbacks of its event have run: a wait there for
// a later ticket of that device would be a wait for itself. Thread-local.
#pragma once

#include <cstdint>
#include <functional>
#include <list>

#include "heddle/scheduler.hpp"
#include "scheduler/threads/fiber.hpp"

namespace heddle::sched {

/// User callbacks inside other callbacks, up to a depth for which any stack has room; deeper
/// callbacks run later. Owned by a task, or by a thread outside tasks.
class Callbacks {
 public:
  void run(std::function<void()> callback) noexcept;
  void run_put_off() noexcept;

 private:
  unsigned depth_ = 0;
  std::list<std::function<void()>> put_off_;
};

struct TaskContext {
  DeviceCore* device = nullptr;
  std::uint64_t timeline = 0;
  std::uint64_t ticket = 0;
  Fiber* fiber = nullptr;  ///< the fiber it can suspend; null on a worker's own stack
  TaskContext* outer = nullptr;
  Callbacks callbacks{};
  /// The label of an ended task, during the destructor of the callable and the callbacks, on the
  /// thread that learned of the end (S23): a wait there is a wait of that thread. Null: the task
  /// runs.
  const char* ending = nullptr;
  /// A part of the task runs here, perhaps beside other parts: no waits are allowed.
  bool in_part = false;
};

/// The innermost task of this thread; null outside tasks.
[[nodiscard]] TaskContext* current_task() noexcept;

/// True if a part of a task runs here.
[[nodiscard]] bool in_part() noexcept;

/// Makes `context` the innermost task during its lifetime.
class TaskScope {
 public:
  explicit TaskScope(TaskContext& context) noexcept;
  ~TaskScope();
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;
};

/// During its lifetime no task is the innermost: code here is not part of a task.
class OutsideTasks {
 public:
  OutsideTasks() noexcept;
  ~OutsideTasks();
  OutsideTasks(const OutsideTasks&) = delete;
  OutsideTasks& operator=(const OutsideTasks&) = delete;

 private:
  TaskContext* const task_;
};

/// During its lifetime, this thread alone reports ends on the queues of a completion domain (D15):
/// a wait for such an end would be a wait for itself. No effect in a simulation, whose hosts share
/// their thread: there a wait lets other hosts continue.
class TellsEnds {
 public:
  explicit TellsEnds(std::uint64_t domain) noexcept;
  ~TellsEnds();
  TellsEnds(const TellsEnds&) = delete;
  TellsEnds& operator=(const TellsEnds&) = delete;
  /// The domain of this thread; 0: none.
  [[nodiscard]] static std::uint64_t here() noexcept;
  /// True if this thread reports ends and is outside tasks, which would suspend: no waits are
  /// allowed.
  [[nodiscard]] static bool in_callback() noexcept;

 private:
  const std::uint64_t outer_;
};

/// Leaves the innermost task's fiber, and with it the task, until a thread resumes it.
void suspend_task() noexcept;

/// True if a wait for `ticket` here cannot end: the innermost task, or a blocked task below it, has
/// this ticket or an earlier ticket.
[[nodiscard]] bool waits_for_itself(std::uint64_t timeline, std::uint64_t ticket) noexcept;

/// Runs a user's callback at once, or after the current callbacks if they are nested too deep.
void run_nested(std::function<void()> callback) noexcept;

/// Runs postponed work of this thread (callbacks, inline devices to drain, fibers to resume):
/// called before the thread blocks, since it may wait for the postponed work.
void run_put_off() noexcept;
/// run_put_off() without callbacks.
void go_on_with_put_off() noexcept;
/// Called after callbacks: go_on_with_put_off(), unless an outer caller is already doing it and
/// will do this work too.
void settle_put_off() noexcept;

}  // namespace heddle::sched
