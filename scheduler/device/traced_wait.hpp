// TracedWait: records a wait in the trace. Used by the waiting thread.
#pragma once

#include <cstdint>

#include "heddle/event.hpp"
#include "scheduler/observe/trace.hpp"

namespace heddle::sched {

/// The thread or device of `track` waited for `event` from `begin` until now; 0: not traced then.
void trace_wait(const Event& event, std::uint64_t track, std::uint64_t begin) noexcept;

/// A wait of this thread or its task for `event`, during the lifetime of the object; `event` lives
/// longer.
class TracedWait {
 public:
  explicit TracedWait(const Event& event) noexcept : event_(event), begin_(trace::stamp_if_on()) {}
  ~TracedWait() {
    if (begin_ != 0) [[unlikely]]
      trace_wait(event_, trace::track_here(), begin_);
  }
  TracedWait(const TracedWait&) = delete;
  TracedWait& operator=(const TracedWait&) = delete;

 private:
  const Event& event_;
  const std::uint64_t begin_;
};

}  // namespace heddle::sched
