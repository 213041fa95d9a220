// The simplest rival: a deque of std::function behind a mutex and a condition variable.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "tools/bench/worker_rival.hpp"

namespace heddle::bench {
namespace {

class DequeWorker {
 public:
  static constexpr const char* name = "mutex+condvar deque";
  static constexpr Kind kind = Kind::rival;

  explicit DequeWorker(int k) : worker_([this, k] { run(k); }) {}
  DequeWorker(const DequeWorker&) = delete;
  DequeWorker& operator=(const DequeWorker&) = delete;
  ~DequeWorker() {
    submit({});
    worker_.join();
  }

  /// Any thread.
  void submit(std::function<void()> f) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(f));
    }
    not_empty_.notify_one();
  }
  void wait_ended(std::uint64_t count) const { ended_.wait(count); }

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
      ended_.add();
    }
  }

  std::mutex mutex_;
  std::condition_variable not_empty_;
  std::deque<std::function<void()>> tasks_;
  EndedCount ended_;
  std::thread worker_;
};

}  // namespace

Rival deque_rival() { return worker_rival<DequeWorker>(); }

}  // namespace heddle::bench
