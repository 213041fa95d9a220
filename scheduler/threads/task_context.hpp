// What runs on the calling thread: a chain of tasks, innermost first (inline devices nest). A task
// counts until its callable is destroyed and the callbacks of its event have run: a wait there for
// a later ticket of that device waits for itself. Thread-local.
#pragma once

#include <cstdint>
#include <functional>
#include <list>

#include "heddle/scheduler.hpp"
#include "scheduler/threads/fiber.hpp"

namespace heddle::sched {

/// Users' callbacks that run within others: to a depth that any stack has room for; those beyond it
/// come after. They are those of one task, or of one thread outside tasks.
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
  Fiber* fiber = nullptr;  ///< what it can suspend; null on a worker's own stack
  TaskContext* outer = nullptr;
  Callbacks callbacks{};
  /// The label of a task that has ended, where its callable is destroyed and its callbacks run, on
  /// whichever thread learnt of it (S23): a wait there is that thread's. Null: the task runs.
  const char* ending = nullptr;
  /// A part of the task runs here, perhaps beside others: it waits for nothing.
  bool in_part = false;
};

/// The innermost task of this thread; null outside tasks.
[[nodiscard]] TaskContext* current_task() noexcept;

/// Whether what runs here is a part of a task.
[[nodiscard]] bool in_part() noexcept;

/// Makes `context` the innermost task while it lives.
class TaskScope {
 public:
  explicit TaskScope(TaskContext& context) noexcept;
  ~TaskScope();
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;
};

/// No task is the innermost one while this lives: what runs here is not part of it.
class OutsideTasks {
 public:
  OutsideTasks() noexcept;
  ~OutsideTasks();
  OutsideTasks(const OutsideTasks&) = delete;
  OutsideTasks& operator=(const OutsideTasks&) = delete;

 private:
  TaskContext* const task_;
};

/// While this lives, this thread tells what has ended on the queues of a completion domain (D15),
/// alone: it would wait for itself where it waited for that. In a simulation, whose hosts share
/// their thread, it is nothing: there each wait lets the others go on.
class TellsEnds {
 public:
  explicit TellsEnds(std::uint64_t domain) noexcept;
  ~TellsEnds();
  TellsEnds(const TellsEnds&) = delete;
  TellsEnds& operator=(const TellsEnds&) = delete;
  /// The domain of this thread; 0: none.
  [[nodiscard]] static std::uint64_t here() noexcept;
  /// Whether this is such a thread, outside tasks, which would suspend: it waits for nothing.
  [[nodiscard]] static bool in_callback() noexcept;

 private:
  const std::uint64_t outer_;
};

/// Leaves the innermost task's fiber, and with it the task, until somebody goes on with it.
void suspend_task() noexcept;

/// Whether waiting for `ticket` here cannot end: the innermost task, or one that it holds up
/// because it cannot suspend, is the task of that ticket or an earlier one.
[[nodiscard]] bool waits_for_itself(std::uint64_t timeline, std::uint64_t ticket) noexcept;

/// Runs a user's callback here and now, or, within many others, after these.
void run_nested(std::function<void()> callback) noexcept;

/// Goes on with what was put off here (callbacks, inline devices to drain, fibers to resume):
/// before this thread blocks, since it may wait for them.
void run_put_off() noexcept;
/// The same without callbacks.
void go_on_with_put_off() noexcept;
/// The same after callbacks, unless a caller of this one is at it already: it will do these too.
void settle_put_off() noexcept;

}  // namespace heddle::sched
