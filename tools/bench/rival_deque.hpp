// The rival everybody writes first: a deque of std::function behind a mutex and a condition
// variable.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "tools/bench/processors.hpp"

namespace heddle::bench {

class DequeWorker {
 public:
  static constexpr const char* name = "mutex+condvar deque";

  explicit DequeWorker(int k) : worker_([this, k] { run(k); }) {}
  DequeWorker(const DequeWorker&) = delete;
  DequeWorker& operator=(const DequeWorker&) = delete;
  ~DequeWorker() {
    submit({});
    worker_.join();
  }

  void submit(std::function<void()> f) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(f));
      ++submitted_;
    }
    not_empty_.notify_one();
  }
  /// The submitting thread.
  void wait_idle() const {
    // acquire: pairs with the release in run().
    while (ended_.load(std::memory_order_acquire) != submitted_) spin_pause();
  }
  template <class F>
  void run_and_wait(F f) {
    submit(f);
    wait_idle();
  }

 private:
  void run(int k) {
    pin_this_thread(k);
    while (true) {
      std::unique_lock lock(mutex_);
      not_empty_.wait(lock, [this] { return !tasks_.empty(); });
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task) return;
      task();
      // release: pairs with the acquire in wait_idle().
      ended_.fetch_add(1, std::memory_order_release);
    }
  }

  std::mutex mutex_;
  std::condition_variable not_empty_;
  std::deque<std::function<void()>> tasks_;
  std::uint64_t submitted_ = 0;
  std::atomic<std::uint64_t> ended_{0};
  std::thread worker_;
};

}  // namespace heddle::bench
