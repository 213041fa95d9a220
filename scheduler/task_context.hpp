// What runs on the calling thread: a chain of tasks, innermost first (inline devices nest).
// Thread-local.
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

}  // namespace heddle::sched
