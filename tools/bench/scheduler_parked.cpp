// Submit one empty task to a sleeping worker, and wait for its end. A processor that was idle for
// longer takes longer to wake: three pauses.
#include "tools/bench/against.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/limit_futex.hpp"
#include "tools/bench/subject.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

Contender futex(nanoseconds pause) {
  return {"bare futex", Kind::limit, [pause](nanoseconds length, Samples& samples) {
            FutexSleeper sleeper(worker_processor);
            return timed_after_pauses(length, pause, samples, [&] {
              sleeper.wake();
              sleeper.wait();
            });
          }};
}

}  // namespace

void add_parked_rows(std::vector<Row>& rows) {
  using std::chrono::milliseconds;
  const auto after = [&rows](const char* workload, nanoseconds pause, nanoseconds slice) {
    Against against(
        rows, {"parked", workload, "task", parked_contender<SleepyHeddleWorker>(pause), {}, slice});
    against(futex(pause));
    if (pause == rival_pause) against(&Rival::parked);
  };
  after("round trip, asleep 20 us", std::chrono::microseconds(20), milliseconds(20));
  after("round trip, asleep 1 ms", milliseconds(1), milliseconds(40));
  after("round trip, asleep 10 ms", milliseconds(10), milliseconds(100));
}

}  // namespace heddle::bench
