// Submit and run: the cost of a task from end to end when the pipeline is full.
#include "tools/bench/cases.hpp"
#include "tools/bench/limit_ring.hpp"
#include "tools/bench/rival_deque.hpp"
#include "tools/bench/subject.hpp"
#ifdef HEDDLE_BENCH_TBB
#include "tools/bench/rival_tbb.hpp"
#endif

namespace heddle::bench {
namespace {

constexpr std::size_t batch = 20'000;  // tasks between two waits

template <class Worker>
Contender contender() {
  return {Worker::name, [](nanoseconds length, Samples& samples) {
            Worker worker(worker_processor);
            std::uint64_t ran = 0;  // the worker's
            std::uint64_t submitted = 0;
            const auto run_batch = [&](std::size_t count) {
              const auto start = Clock::now();
              for (std::size_t k = 0; k < count; ++k) worker.submit([&ran] { ++ran; });
              worker.wait_idle();
              submitted += count;
              return ns_between(start, Clock::now()) / static_cast<double>(count);
            };
            run_batch(batch / 10);  // wakes the worker, touches the slots
            const double ns = timed_loop(length, batch,
                                         [&](std::size_t count) { samples.add(run_batch(count)); });
            require_all_ran(Worker::name, ran, submitted);
            return ns;
          }};
}

}  // namespace

void add_submit_cases(std::vector<Case>& cases) {
  const auto against = [&cases](const Contender& anchor) {
    cases.push_back({"submit", "submit+run", "task", contender<HeddleWorker>(), anchor});
  };
  against(contender<RingWorker>());
#ifdef HEDDLE_BENCH_TBB
  against(contender<TbbWorker>());
#endif
  against(contender<DequeWorker>());
}

}  // namespace heddle::bench
