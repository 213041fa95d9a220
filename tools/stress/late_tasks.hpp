// Tasks of random graphs that end later than they return: the thread that ends a task draws how and
// in which order tasks end; and the checks on these tasks (S23). Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "heddle/scheduler.hpp"

namespace heddle::stress {

/// Per device: tasks that have begun, without a reported end.
struct InFlight {
  std::uint32_t max = 0;  ///< DeviceOptions::in_flight
  std::atomic<std::uint32_t> unreported{0};
  /// The ticket whose callable was destroyed last. Written by the completing thread: not atomic, so
  /// that a second completing thread is a data race, reported by ThreadSanitizer.
  std::uint64_t last_gone = 0;
};

/// Per task, and outlives the task. Not atomic either: issuing, ending and checking a task are
/// ordered.
struct LateEnd {
  int reports = 0;
  bool reported_bad = false;
};

class LateTasks {
 public:
  class Kept;
  class Unreported;
  /// A number below a bound.
  using Draw = std::function<std::uint64_t(std::uint64_t bound)>;
  struct Counts {
    std::uint64_t begun, beside_others, dropped, failed;
  };

  explicit LateTasks(std::function<void(const char*)> complain);

  /// A token kept by a task's callable: reports destruction that is too early, or out of order.
  [[nodiscard]] std::shared_ptr<Kept> keep(InFlight& device, LateEnd& task);
  /// The task is issued.
  [[nodiscard]] std::shared_ptr<Unreported> begin(Kept& kept, sched::Completion completion);
  /// A task begins that ends when it returns.
  void check_alone(const InFlight& device);
  /// Keeps a task for end_one().
  void leave(std::shared_ptr<Unreported> task);
  /// Ends one of the kept tasks; false: none is kept.
  bool end_one(const Draw& draw);
  void end(Unreported& task, const Draw& draw);
  [[nodiscard]] Counts counts() const noexcept;

 private:
  const std::function<void(const char*)> complain_;
  std::atomic<std::uint64_t> begun_{0}, beside_others_{0}, dropped_{0}, failed_{0};
  std::mutex mutex_;  // guards the members below
  std::vector<std::shared_ptr<Unreported>> left_;
};

}  // namespace heddle::stress
