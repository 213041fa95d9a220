// Pool: many devices on few threads. Devices that have something to do, and suspended tasks that
// may go on, are put into an inbox, which takes no lock and no memory; workers (pooled mode) or the
// host's poll() (manual mode, a pool without workers) share it out among themselves through a
// queue. Any thread.
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
  /// A pool that ends, with its workers, when the last holder of the result is gone. Throws
  /// Error(unavailable) when not one of `workers` threads can be started.
  [[nodiscard]] static std::shared_ptr<Pool> open(std::string name, unsigned workers,
                                                  std::chrono::nanoseconds spin, bool pin);
  ~Pool() override;

  // As a runner.
  void run(DeviceCore& device) noexcept override;
  void look_later(DeviceCore& device) noexcept override;
  void resume(std::shared_ptr<Fiber> fiber) noexcept override;
  std::uint64_t call_at(Clock::time_point when, std::function<void()> callback) override;
  void uncall(Clock::time_point when, std::uint64_t call) noexcept override;
  std::optional<bool> run_until(const Event& event, Deadline deadline) noexcept override;

  // As a source of visitors: workers, as long as nothing else is ready.
  void send_to(std::shared_ptr<HelperPlace> place) noexcept override;

  // For hosts of a pool without workers.

  /// Gives turns to what is ready, until nothing is or `deadline` has come. Whether there was any.
  bool poll(Deadline deadline) noexcept;
  /// Gives one device a turn of one task; waits for one until `deadline`. Whether there was one.
  bool run_one(Deadline deadline) noexcept;
  /// Readable while something is ready. The pool's own. Throws Error(exhausted).
  [[nodiscard]] int descriptor();

 private:
  /// What a thread does here, and until when.
  struct Visit;
  struct Traits : moodycamel::ConcurrentQueueDefaultTraits {
    /// What different workers shared out has no common order: takers turn to another one's this
    /// often, so that nothing waits for long.
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
    // seq_cst: pairs with the store in stop(); in push() it comes after having counted the item.
    return stop_.load(std::memory_order_seq_cst);
  }

  const std::string name_;
  const std::chrono::nanoseconds spin_;
  const bool hosted_;  // has no workers
  const std::uint32_t fork_generation_;
  ReadyCount<> count_;  // counts what is in the two that follow
  Inbox<ReadyLink> inbox_;
  moodycamel::ConcurrentQueue<Ready, Traits> queue_;
  Sleepers sleepers_;
  Timers timers_;
  std::atomic<bool> stop_{false};
  std::atomic<PoolDescriptor*> descriptor_{nullptr};  // owned

  std::mutex mutex_;  // guards what follows
  std::vector<std::thread> workers_;
};

}  // namespace heddle::sched
