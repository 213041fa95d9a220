// Submit one empty task and wait for its end, the worker awake.
#include "tools/bench/cases.hpp"
#include "tools/bench/limit_ping_pong.hpp"
#include "tools/bench/limit_ring.hpp"
#include "tools/bench/rival_deque.hpp"
#include "tools/bench/subject.hpp"
#ifdef HEDDLE_BENCH_TBB
#include "tools/bench/rival_tbb.hpp"
#endif

namespace heddle::bench {
namespace {

/// heddle with a worker that stays awake between two tasks, however long the host takes.
class AwakeHeddleWorker : public HeddleWorker {
 public:
  explicit AwakeHeddleWorker(int k) : HeddleWorker(k, std::chrono::seconds(1)) {}
};

template <class Worker>
Contender contender() {
  return {Worker::name, [](nanoseconds length, Samples& samples) {
            Worker worker(worker_processor);
            std::uint64_t ran = 0;  // the worker's
            std::uint64_t submitted = 0;
            const auto once = [&] {
              ++submitted;
              worker.run_and_wait([&ran] { ++ran; });
            };
            once();
            const double ns = timed_operations(length, samples, once);
            require_all_ran(Worker::name, ran, submitted);
            return ns;
          }};
}

Contender ping_pong() {
  return {"spin ping-pong", [](nanoseconds length, Samples& samples) {
            PingPong partner(worker_processor);
            partner.round_trip();
            return timed_operations(length, samples, [&] { partner.round_trip(); });
          }};
}

}  // namespace

void add_round_trip_cases(std::vector<Case>& cases) {
  const auto against = [&cases](const Contender& anchor) {
    cases.push_back(
        {"round-trip", "round trip, awake", "task", contender<AwakeHeddleWorker>(), anchor});
  };
  against(ping_pong());
  against(contender<RingWorker>());
#ifdef HEDDLE_BENCH_TBB
  against(contender<TbbWorker>());
#endif
  against(contender<DequeWorker>());
}

}  // namespace heddle::bench
