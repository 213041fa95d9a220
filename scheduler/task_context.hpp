// What runs on the calling thread: a chain of tasks, innermost first (inline devices nest). A task
// counts until its callable is destroyed and the callbacks of its event have run: who waits there
// for a later ticket of that device waits for itself. Thread-local.
#pragma once

#include <cstdint>

#include "heddle/scheduler.hpp"

namespace heddle::sched {

struct TaskContext {
  DeviceCore* device = nullptr;
  const Timeline* timeline = nullptr;
  std::uint64_t ticket = 0;
  const char* label = "";
  TaskContext* outer = nullptr;
};

/// The innermost task of this thread; null outside tasks.
[[nodiscard]] TaskContext* current_task() noexcept;

/// Makes `context` the innermost task while it lives.
class TaskScope {
 public:
  explicit TaskScope(TaskContext& context) noexcept;
  ~TaskScope();
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;
};

/// Whether this thread runs a task of `timeline` with this ticket or an earlier one: waiting for
/// `ticket` here cannot end.
[[nodiscard]] bool waits_for_itself(const Timeline& timeline, std::uint64_t ticket) noexcept;

/// Drains the inline devices that this thread has put off: before it blocks, since it may wait for
/// them.
void run_put_off() noexcept;
/// The same after callbacks, unless a caller of this one is at it already: it will do these too.
void settle_put_off() noexcept;

}  // namespace heddle::sched
