// A trace that does not know the device yet.
#include "scheduler/device/task_trace.hpp"

#include <algorithm>

namespace heddle::sched {

/// Names the device in a trace that does not know it. What was traced before is of another one.
void TaskTrace::name() noexcept {
  until_ = std::max(until_, trace::name(device_.id, device_.name()));
  session_ = trace::session_now();
}

}  // namespace heddle::sched
