// Submit and run: the cost of a task from end to end when the pipeline is full.
#include <utility>

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

  // Other loops of users: events kept, few tasks between two waits or many, short and long queues.
  const auto against_ring = [&](const char* row, Contender subject, Contender ring) {
    Against(rows, {name, row, "task", std::move(subject), {}})(std::move(ring));
  };
  against_ring("submit+run, events kept", submit_contender<KeptHeddleWorker>(),
               submit_contender<RingWorker>());
  for (const auto& [row, batch] :
       {std::pair{"submit+run, batches of 500", std::size_t{500}},
        std::pair{"submit+run, batches of 2000", std::size_t{2000}},
        std::pair{"submit+run, batches of 400000", std::size_t{400'000}}})
    against_ring(row, submit_contender<KeptHeddleWorker>(batch),
                 submit_contender<RingWorker>(batch));
  for (const auto& [row, slots] :
       {std::pair{"submit+run, queue of 64", std::uint32_t{64}},
        std::pair{"submit+run, queue of 1048576", sched::queue_size_max}}) {
    constexpr std::size_t batch = 1 << 20;
    against_ring(row, submit_contender<KeptHeddleWorker>(batch, slots),
                 submit_contender<RingWorker>(batch, slots));
  }

  // Longer slices: with few processors producers take turns, some milliseconds each.
  constexpr auto slice = std::chrono::milliseconds(40);
  Against by_two(rows, {name,
                        "submit+run, 2 producers",
                        "task",
                        shared_submit_contender<HeddleWorker>(2),
                        {},
                        slice});
  by_two(shared_submit_contender<SharedRingWorker>(2));
  by_two(&Rival::submit_by_two);
  Against by_four(rows, {name,
                         "submit+run, 4 producers",
                         "task",
                         shared_submit_contender<HeddleWorker>(4),
                         {},
                         slice});
  by_four(shared_submit_contender<SharedRingWorker>(4));
  by_four(&Rival::submit_by_four);
}

}  // namespace heddle::bench
