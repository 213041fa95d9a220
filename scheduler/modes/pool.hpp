// Pool: many devices on few threads. Devices with work, and suspended tasks that may continue, go
// into an inbox, which takes no lock and no memory; workers (pooled mode) or the host's poll()
// (manual mode, a pool without workers) distribute the entries among themselves through a queue.
// Any thread.
#pragma once

#include <concurrentqueue/concurrentqueue.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "scheduler/device/helpers.hpp"
#include "scheduler/device/runner.hpp"
#include "scheduler/modes/sleepers.hpp"
#include "scheduler/modes/timers.hpp"
#include "scheduler/protocol/inbox.hpp"
#include "scheduler/protocol/ready_count.hpp"
#include "scheduler/threads/fiber.hpp"
#include "scheduler/threads/ready.hpp"

namespace heddle::sched {

class PoolDescriptor;

class Pool final : public Runner, public VisitorSource, public std::enable_shared_from_this<Pool> {
 public:
  /// Opens a pool that ends, with its workers, when the result's last owner releases it. Throws
  /// Error(unavailable) when none of `workers` threads can be started.
  [[nodiscard]] static std::shared_ptr<Pool> open(std::string name, unsigned workers,
                                                  std::chrono::nanoseconds spin, bool pin);
  ~Pool() override;

  // Runner.
  void run(DeviceCore& device) noexcept override;
  void look_later(DeviceCore& device) noexcept override;
  void resume(std::shared_ptr<Fiber> fiber) noexcept override;
  std::uint64_t call_at(Clock::time_point when, std::function<void()> callback) override;
  void uncall(Clock::time_point when, std::uint64_t call) noexcept override;
  std::optional<bool> run_until(const Event& event, Deadline deadline) noexcept override;

  // Source of visitors: workers visit while no other entry is ready.
  void send_to(std::shared_ptr<HelperPlace> place) noexcept override;

  // For hosts of a pool without workers.

  /// Gives turns to ready entries until none is ready or `deadline` has passed. Returns whether any
  /// turn ran.
  bool poll(Deadline deadline) noexcept;
  /// Gives a device a turn of one task; waits until `deadline` for a ready device. Returns whether
  /// a turn ran.
  bool run_one(Deadline deadline) noexcept;
  /// Readable while an entry is ready. Owned by the pool. Throws Error(exhausted).
  [[nodiscard]] int descriptor();

 private:
  /// A thread's stay in the pool: purpose and deadline.
  struct Visit;
  struct Traits : moodycamel::ConcurrentQueueDefaultTraits {
    /// Entries queued by different workers have no common order: takers switch to another worker's
    /// entries this often, which bounds the wait of every entry.
    static const std::uint32_t EXPLICIT_CONSUMER_CONSUMPTION_QUOTA_BEFORE_ROTATE = 4;
    static void* malloc(std::size_t bytes) { return ::operator new(bytes, std::nothrow); }
    static void free(void* memory) { ::operator delete(memory); }
  };

  Pool(std::string name, std::chrono::nanoseconds spin, bool hosted);
  void start_workers(unsigned count, bool pin);
  void stop() noexcept;
  void work(Sleepers::Place& place) noexcept;

  void push(Ready ready) noexcept;
  void put_in_inbox(Ready ready) noexcept;
  void drop_ready() noexcept;
  [[nodiscard]] bool take(moodycamel::ConsumerToken& token, Ready& ready) noexcept;
  [[nodiscard]] bool empty_inbox(Ready& first) noexcept;
  [[nodiscard]] bool give_turn(Ready& ready, Fiber* fiber, std::uint32_t tasks_max) noexcept;
  void visit(Visit& visit) noexcept;
  static void visit_on_fiber(void* visit) noexcept;
  void go_round(Visit& visit, Fiber* fiber) noexcept;
  void settle_descriptor() noexcept;
  [[nodiscard]] bool next(Visit& visit, Ready& ready) noexcept;
  void sleep(Visit& visit) noexcept;
  void wake_one() noexcept;
  void run_timers() noexcept;
  [[nodiscard]] bool stopping() const noexcept {
    // seq_cst: pairs with the store in stop(); in push() the load comes after the count of the
    // entry.
    return stop_.load(std::memory_order_seq_cst);
  }

  const std::string name_;
  const std::chrono::nanoseconds spin_;
  const bool hosted_;  // has no workers
  const std::uint32_t fork_generation_;
  ReadyCount<> count_;  // counts entries of inbox_ and queue_
  Inbox<ReadyLink> inbox_;
  moodycamel::ConcurrentQueue<Ready, Traits> queue_;
  Sleepers sleepers_;
  Timers timers_;
  std::atomic<bool> stop_{false};
  std::atomic<PoolDescriptor*> descriptor_{nullptr};  // owned

  std::mutex mutex_;  // guards workers_
  std::vector<std::thread> workers_;
};

}  // namespace heddle::sched
