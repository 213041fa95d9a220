// oneTBB's parallel_for, in an arena of two that the host joins.
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include "tools/bench/processors.hpp"
#include "tools/bench/rivals.hpp"
#include "tools/bench/row_loop.hpp"

namespace heddle::bench {
namespace {

constexpr const char* name = "oneTBB parallel_for";

/// The host, and one worker on the worker's processor.
class ArenaOfTwo {
 public:
  void run(RowLoop& loop) {
    arena_.execute([&loop] {
      tbb::parallel_for(tbb::blocked_range<std::size_t>(0, loop.rows()),
                        [&loop](const tbb::blocked_range<std::size_t>& part) {
                          loop.run(part.begin(), part.end());
                        });
    });
  }

 private:
  class Pinning : public tbb::task_scheduler_observer {
   public:
    explicit Pinning(tbb::task_arena& arena) : tbb::task_scheduler_observer(arena) {
      observe(true);
    }
    ~Pinning() override { observe(false); }
    void on_scheduler_entry(bool worker) override {
      if (worker) pin_this_thread(worker_processor);
    }
  };

  tbb::global_control threads_{tbb::global_control::max_allowed_parallelism, 2};
  tbb::task_arena arena_{2, 1};
  Pinning pinning_{arena_};
};

Contender loops(RowCost cost) {
  return {name, Kind::rival, [cost](nanoseconds length, Samples& samples) {
            ArenaOfTwo two;
            return timed_loops(name, cost, length, samples,
                               [&two](RowLoop& loop) { two.run(loop); });
          }};
}

}  // namespace

Rival tbb_for_rival() {
  Rival rival;
  rival.empty_loop = loops(RowCost::none);
  rival.meeting_loop = loops(RowCost::meeting);
  rival.even_loop = loops(RowCost::even);
  rival.uneven_loop = loops(RowCost::uneven);
  return rival;
}

}  // namespace heddle::bench
