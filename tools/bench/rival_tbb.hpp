// oneTBB's arena of one worker, not joined by the submitting thread, for the oneTBB rivals.
#pragma once

#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <cstddef>

#include "tools/bench/processors.hpp"

namespace heddle::bench {

class TbbArena {
 public:
  /// `workers` threads, on the processors from the k-th.
  explicit TbbArena(int k, int workers = 1)
      : threads_(tbb::global_control::max_allowed_parallelism,
                 static_cast<std::size_t>(2 * workers + 1)),
        arena_(workers, 0),
        pinning_(arena_, k) {}

  template <class F>
  void enqueue(F f) {
    arena_.enqueue(f);
  }

 private:
  /// Binds the threads that serve the arena to the arena's processors.
  class Pinning : public tbb::task_scheduler_observer {
   public:
    Pinning(tbb::task_arena& arena, int k) : tbb::task_scheduler_observer(arena), k_(k) {
      observe(true);
    }
    ~Pinning() override { observe(false); }
    void on_scheduler_entry(bool worker) override {
      // The host enters too, to wait for the end of a flow graph.
      if (worker) pin_this_thread(k_ + tbb::this_task_arena::current_thread_index());
    }

   private:
    const int k_;
  };

  tbb::global_control threads_;  // enough for two arenas beside the submitting thread
  tbb::task_arena arena_;
  Pinning pinning_;
};

}  // namespace heddle::bench
