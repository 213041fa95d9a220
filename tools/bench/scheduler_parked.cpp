// Submit one empty task to a worker that sleeps, and wait for its end. Only the operation is timed,
// not the pause before it, in which the worker goes to sleep.
#include <thread>

#include "tools/bench/cases.hpp"
#include "tools/bench/limit_futex.hpp"
#include "tools/bench/rival_deque.hpp"
#include "tools/bench/subject.hpp"
#ifdef HEDDLE_BENCH_TBB
#include "tools/bench/rival_tbb.hpp"
#endif

namespace heddle::bench {
namespace {

constexpr auto pause_before = std::chrono::microseconds(500);

class SleepyHeddleWorker : public HeddleWorker {
 public:
  explicit SleepyHeddleWorker(int k) : HeddleWorker(k, std::chrono::nanoseconds(0)) {}
};

template <class Operation>
double timed_after_pauses(nanoseconds length, Samples& samples, const Operation& operation) {
  Samples slice;
  const auto end = Clock::now() + length;
  do {
    std::this_thread::sleep_for(pause_before);
    const auto start = Clock::now();
    operation();
    const double ns = ns_between(start, Clock::now());
    slice.add(ns);
    samples.add(ns);
  } while (Clock::now() < end);
  return slice.percentile(0.5);
}

template <class Worker>
Contender contender() {
  return {Worker::name, [](nanoseconds length, Samples& samples) {
            Worker worker(worker_processor);
            std::uint64_t ran = 0;  // the worker's
            std::uint64_t submitted = 0;
            const double ns = timed_after_pauses(length, samples, [&] {
              ++submitted;
              worker.run_and_wait([&ran] { ++ran; });
            });
            require_all_ran(Worker::name, ran, submitted);
            return ns;
          }};
}

Contender futex() {
  return {"futex wake, answer", [](nanoseconds length, Samples& samples) {
            FutexSleeper sleeper(worker_processor);
            return timed_after_pauses(length, samples, [&] { sleeper.wake_and_wait(); });
          }};
}

}  // namespace

void add_parked_cases(std::vector<Case>& cases) {
  const auto against = [&cases](const Contender& anchor) {
    cases.push_back({"parked", "round trip, asleep", "task", contender<SleepyHeddleWorker>(),
                     anchor, std::chrono::milliseconds(40)});
  };
  against(futex());
#ifdef HEDDLE_BENCH_TBB
  against(contender<TbbWorker>());
#endif
  against(contender<DequeWorker>());
}

}  // namespace heddle::bench
