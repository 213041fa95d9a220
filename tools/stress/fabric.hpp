// State shared by the threads of a round: devices that come and go, events to wait for, and the
// result of each submission. Any thread, unless stated otherwise.
//
// An event only waits for events published before its submission, so waits form no cycle. Tasks
// never block on full queues: blocked tasks could wait for one another through awaits.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "heddle/scheduler.hpp"
#include "tools/stress/checks.hpp"
#include "tools/stress/late_tasks.hpp"
#include "tools/stress/tally.hpp"

namespace heddle::stress {

using Random = std::mt19937_64;

/// True once in `n` draws.
[[nodiscard]] inline bool once_in(std::uint64_t n, Random& random) { return random() % n == 0; }

/// The plan of a task, and its observed effects. Written by its submitter, then by the task; read
/// again when its device is idle.
struct Fate {
  enum class Failure : std::uint8_t { none, throws, returns };

  Event event;
  Event other;  ///< the awaited event
  bool awaits = false;
  bool waits_shortly = false;
  bool works = false;  ///< runs for some time
  bool submits = false;
  bool contained = false;
  Failure failure = Failure::none;
  std::uint64_t seed = 0;
  std::atomic<int> runs{0};
  bool ran_well = false;
  bool failed = false;  ///< failed as planned
  bool ends_later = false;
  LateEnd late;
};

/// A submitter: records the results of its tasks, and counts. One thread, or a device's tasks.
struct Submitter {
  std::deque<Fate> fates;
  Tally tally;
  bool in_task = false;
};

struct Target {
  Target(sched::TaskDevice opened, const sched::DeviceOptions& options)
      : device(std::move(opened)), single_producer(options.single_producer) {
    nested.in_task = true;
    in_flight.max = options.in_flight;
  }

  const sched::TaskDevice device;
  const bool single_producer;
  std::atomic<std::uint64_t> accepted{0}, inside{0}, overlaps{0};
  // Written by the submitter's tasks: not atomic, so that a second consumer is a data race,
  // reported by ThreadSanitizer.
  std::uint64_t last_ticket = 0, misordered = 0;
  InFlight in_flight;
  Submitter nested;
};

class Fabric {
 public:
  explicit Fabric(Random& random);

  /// Submits a random task to a random device.
  void submit(Random& random, Submitter& submitter);
  /// Lets a random device wait for a random event.
  void wait_on_device(Random& random, Submitter& submitter);
  /// Shuts a random device down, and opens a replacement.
  void reopen(Random& random, Submitter& submitter);
  void watch_descriptor(Random& random, Submitter& submitter);
  /// Ends a random task in flight; false: no task is in flight.
  bool end_one(Random& random);

  [[nodiscard]] Target& target(Random& random) { return *slots_[random() % slots_used_].load(); }
  [[nodiscard]] Event draw(Random& random);
  void publish(Event event);
  void complain(std::string what);

  [[nodiscard]] Scheduler& scheduler() noexcept { return scheduler_; }
  [[nodiscard]] bool has_manual() const noexcept { return has_manual_; }

  // After the last submission: one thread.

  /// Waits until all tasks have ended; false: not by the deadline.
  [[nodiscard]] bool await_devices(Event::Clock::time_point deadline);
  /// Includes callbacks and descriptors.
  [[nodiscard]] bool settle(Event::Clock::time_point deadline);
  /// Checks the invariants, and runs one more task on each open device. After settle().
  void check_all(const std::vector<const Submitter*>& hosts, Tally& tally);
  [[nodiscard]] std::vector<std::string> take_complaints();
  /// Snapshots of all devices.
  [[nodiscard]] std::string describe();

 private:
  Target& open(Random& random);
  Status run_task(Target& target, Fate& fate);
  Event submit_late(Target& target, Fate& fate, const sched::SubmitOptions& options);
  Event submit_sized(Target& target, Fate& fate, Random& random,
                     const sched::SubmitOptions& options);
  void count_refusal(const Event& event, Tally& tally);
  void expect(bool holds, const char* what);

  Scheduler scheduler_;
  std::atomic<bool> has_manual_{false};
  std::array<std::atomic<Target*>, 6> slots_{};
  const std::size_t slots_used_;
  /// Held by some callables; after the destruction of all callables only this owner remains.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  LateTasks late_{[this](const char* what) { complain(what); }};
  std::atomic<std::uint64_t> callbacks_due_{0}, callbacks_run_{0};

  std::mutex mutex_;  // guards the members below
  std::deque<Target> targets_;
  std::vector<std::string> complaints_;
  std::mutex board_mutex_;  // guards the members below
  std::vector<Event> board_;
  std::size_t oldest_ = 0;
  std::vector<std::pair<Event, FileDescriptor>> descriptors_;
};

}  // namespace heddle::stress
