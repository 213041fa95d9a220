// The rival in wide use: oneTBB, an arena of one worker that the submitting thread does not join.
#pragma once

#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <atomic>
#include <cstdint>

#include "tools/bench/processors.hpp"

namespace heddle::bench {

class TbbWorker {
 public:
  static constexpr const char* name = "oneTBB task_arena::enqueue";

  explicit TbbWorker(int k) : arena_(1, 0), pinning_(arena_, k) {}
  TbbWorker(const TbbWorker&) = delete;
  TbbWorker& operator=(const TbbWorker&) = delete;
  ~TbbWorker() { wait_idle(); }

  template <class F>
  void submit(F f) {
    ++submitted_;
    arena_.enqueue([this, f] {
      f();
      // release: pairs with the acquire in wait_idle().
      ended_.fetch_add(1, std::memory_order_release);
    });
  }
  /// The submitting thread.
  void wait_idle() const {
    // acquire: pairs with the release in submit()'s task.
    while (ended_.load(std::memory_order_acquire) != submitted_) spin_pause();
  }
  template <class F>
  void run_and_wait(F f) {
    submit(f);
    wait_idle();
  }

 private:
  /// Binds whichever thread serves the arena to the arena's processor.
  class Pinning : public tbb::task_scheduler_observer {
   public:
    Pinning(tbb::task_arena& arena, int k) : tbb::task_scheduler_observer(arena), k_(k) {
      observe(true);
    }
    ~Pinning() override { observe(false); }
    void on_scheduler_entry(bool) override { pin_this_thread(k_); }

   private:
    const int k_;
  };

  // Two arenas of one worker each, beside the submitting thread.
  tbb::global_control threads_{tbb::global_control::max_allowed_parallelism, 3};
  tbb::task_arena arena_;
  Pinning pinning_;
  std::uint64_t submitted_ = 0;
  std::atomic<std::uint64_t> ended_{0};
};

}  // namespace heddle::bench
