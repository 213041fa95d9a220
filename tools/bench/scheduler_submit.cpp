// Submit and run: the cost of a task from end to end when the pipeline is full.
#include "tools/bench/against.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/limit_ring.hpp"
#include "tools/bench/limit_shared_ring.hpp"
#include "tools/bench/subject.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {

void add_submit_rows(std::vector<Row>& rows) {
  constexpr const char* name = "submit";
  Against by_one(rows,
                 {name, "submit+run, 1 producer", "task", submit_contender<HeddleWorker>(), {}});
  by_one(submit_contender<RingWorker>());
  by_one(&Rival::submit);

  // Longer slices: with few processors producers take turns, some milliseconds each.
  constexpr auto slice = std::chrono::milliseconds(40);
  Against by_two(
      rows,
      {name, "submit+run, 2 producers", "task", submit_contender<HeddleWorker>(2), {}, slice});
  by_two(submit_contender<SharedRingWorker>(2));
  by_two(&Rival::submit_by_two);
  Against by_four(
      rows,
      {name, "submit+run, 4 producers", "task", submit_contender<HeddleWorker>(4), {}, slice});
  by_four(submit_contender<SharedRingWorker>(4));
  by_four(&Rival::submit_by_four);
}

}  // namespace heddle::bench
