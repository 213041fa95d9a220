// TaskTrace: a consumer's records for a trace: a task begins where the previous task ended, unless
// another record came between. For the consumer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "scheduler/device/identity.hpp"
#include "scheduler/observe/trace.hpp"

namespace heddle::sched {

class TaskTrace {
 public:
  explicit TaskTrace(const Identity& device) noexcept : device_(device) {}

  /// The next record begins now.
  void begin() noexcept { until_ = trace::stamp_if_on(); }
  /// The next record begins at the earlier `stamp` if no record was made since; 0: the stamp is
  /// from before the trace.
  void begin_at(std::uint64_t stamp) noexcept { until_ = stamp == 0 ? 0 : std::max(until_, stamp); }
  /// While tracing is on: the task ends now.
  void end_task(const char* label, std::uint64_t ticket, trace::Ended ended) noexcept {
    until_ = trace::record_task(until_, device_.id, label, ticket, ended);
  }
  /// The latest record to begin was the callbacks of `ticket`.
  void end_callbacks(std::uint64_t ticket) noexcept {
    if (until_ == 0 || !trace::on()) return;
    trace::record_pause(trace::Kind::callbacks, device_.id, device_.id, ticket, until_);
    begin();
  }

 private:
  const Identity& device_;
  std::uint64_t until_ = 0;  // end of the latest record; 0, or long ago: before the trace
};

}  // namespace heddle::sched
