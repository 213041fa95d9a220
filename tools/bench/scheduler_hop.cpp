// Hops between two workers: a task on one worker makes a task on the other worker run, back and
// forth. Posted: each task submits the next. Awaited: all tasks are submitted first, and each
// device waits for the other device's events. The host sleeps meanwhile.
#include <semaphore>

#include "tools/bench/against.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/limit_ping_pong.hpp"
#include "tools/bench/limit_ring.hpp"
#include "tools/bench/subject.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

/// One chain of waits, timed from its first task to its last.
double awaited_chain(const sched::TaskDevice& first, const sched::TaskDevice& second, int hops) {
  std::uint64_t ran = 0;  // passed from worker to worker with the chain
  Clock::time_point start, end;
  std::binary_semaphore over{0};  // the host must not spin on the first worker's processor
  sched::ExternalTimeline host("host");
  const Event go = host.next();
  first.wait(go);
  Event last = first.submit("start", [&start] { start = Clock::now(); });
  for (int k = 0; k < hops; ++k) {
    const sched::TaskDevice& next = k % 2 == 0 ? second : first;
    next.wait(last);
    last = next.submit("hop", [&ran] { ++ran; });
  }
  (hops % 2 == 0 ? first : second).submit("end", [&end, &over] {
    end = Clock::now();
    over.release();
  });
  throw_if_failed(host.signal(go.ticket()));
  over.acquire();
  require_all_ran("heddle", ran, static_cast<std::uint64_t>(hops));
  return ns_between(start, end) / hops;
}

Contender awaited() {
  return {"heddle", Kind::heddle, [](nanoseconds length, Samples& samples) {
            constexpr int hops = 1000;
            const Started<AwakeHeddleWorker> first(host_processor), second(worker_processor);
            Samples chains;
            const auto end = Clock::now() + length;
            do {
              const double ns = awaited_chain(first.get().device(), second.get().device(), hops);
              chains.add(ns);
              samples.add(ns);
            } while (Clock::now() < end);
            return chains.percentile(0.5);
          }};
}

Contender half_ping_pong() {
  return {
      "half a spin ping-pong", Kind::limit, [](nanoseconds length, Samples& samples) {
        PingPong partner(worker_processor);
        return 0.5 * timed_loop(length, 1000, [&](std::size_t count) {
                 const auto start = Clock::now();
                 for (std::size_t k = 0; k < count; ++k) partner.round_trip();
                 samples.add(0.5 * ns_between(start, Clock::now()) / static_cast<double>(count));
               });
      }};
}

}  // namespace

void add_hop_rows(std::vector<Row>& rows) {
  Against posting(rows,
                  {"hop", "hop, posted", "hop", posted_hop_contender<AwakeHeddleWorker>(), {}});
  posting(posted_hop_contender<RingWorker>());
  posting(&Rival::posted_hop);
  Against awaiting(rows, {"hop", "hop, awaited", "hop", awaited(), {}});
  awaiting(half_ping_pong());
  awaiting(&Rival::awaited_hop);
}

}  // namespace heddle::bench
