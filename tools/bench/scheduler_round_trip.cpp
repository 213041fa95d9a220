// Submit one empty task and wait for its end, the worker awake.
#include "tools/bench/against.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/limit_ping_pong.hpp"
#include "tools/bench/limit_ring.hpp"
#include "tools/bench/subject.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

Contender ping_pong() {
  return {"spin ping-pong", Kind::limit, [](nanoseconds length, Samples& samples) {
            PingPong partner(worker_processor);
            partner.round_trip();
            return timed_operations(length, samples, [&] { partner.round_trip(); });
          }};
}

}  // namespace

void add_round_trip_rows(std::vector<Row>& rows) {
  Against against(
      rows,
      {"round-trip", "round trip, awake", "task", round_trip_contender<AwakeHeddleWorker>(), {}});
  against(ping_pong());
  against(round_trip_contender<RingWorker>());
  against(&Rival::round_trip);
}

}  // namespace heddle::bench
