// Tasks of random graphs that end later than they return: how they end and in which order is drawn,
// by whoever ends one; and what must hold of them (S23). Any thread.
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

/// Of a device: its tasks that have begun, and whose ends nobody has reported.
struct InFlight {
  std::uint32_t max = 0;  ///< DeviceOptions::in_flight
  std::atomic<std::uint32_t> unreported{0};
  /// The ticket whose callable went last. Its completer's: not atomic, so that a second one is a
  /// data race, which ThreadSanitizer sees.
  std::uint64_t last_gone = 0;
};

/// Of a task; it outlives that. Not atomic either: who issues a task, who ends it and who looks
/// back come after each other.
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

  /// For the callable of a task to keep: complains where that goes too early, or out of turn.
  [[nodiscard]] std::shared_ptr<Kept> keep(InFlight& device, LateEnd& task);
  /// That task is issued.
  [[nodiscard]] std::shared_ptr<Unreported> begin(Kept& kept, sched::Completion completion);
  /// A task begins that ends as it returns.
  void check_alone(const InFlight& device);
  /// For end_one().
  void leave(std::shared_ptr<Unreported> task);
  /// Ends one of those that were left; false: there is none.
  bool end_one(const Draw& draw);
  void end(Unreported& task, const Draw& draw);
  [[nodiscard]] Counts counts() const noexcept;

 private:
  const std::function<void(const char*)> complain_;
  std::atomic<std::uint64_t> begun_{0}, beside_others_{0}, dropped_{0}, failed_{0};
  std::mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<Unreported>> left_;
};

}  // namespace heddle::stress
