// How long a worker should spin before it sleeps: a task is submitted and awaited after a pause of
// 1 to 100 us, all orders of magnitude alike; workers with other spin times against the default.
#include <fmt/format.h>

#include <cmath>

#include "tools/bench/cases.hpp"
#include "tools/bench/subject.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

constexpr double pause_min_ns = 1'000;
constexpr double pause_orders = 2;  // powers of ten

Contender contender(const std::string& name, std::optional<nanoseconds> spin) {
  return {name, Kind::heddle, [spin](nanoseconds length, Samples& samples) {
            Started<HeddleWorker> worker(worker_processor, spin);
            std::uint64_t ran = 0;  // written by the worker
            std::uint64_t submitted = 0;
            Samples slice;
            const auto end = Clock::now() + length;
            double share = 0;
            do {
              share = std::fmod(share + 0.618034, 1.0);  // evenly spread, without a pattern
              pause_for(pause_min_ns * std::pow(10, pause_orders * share));
              const auto start = Clock::now();
              worker.run_and_wait([&ran] { ++ran; }, ++submitted);
              const double ns = ns_between(start, Clock::now());
              slice.add(ns);
              samples.add(ns);
            } while (Clock::now() < end);
            require_all_ran(HeddleWorker::name, ran, submitted);
            return slice.mean();
          }};
}

}  // namespace

void add_spin_rows(std::vector<Row>& rows) {
  for (const int us : {0, 2, 10, 50}) {
    rows.push_back(
        Case{"spin", "round trip, pauses", "task",
             contender(fmt::format("heddle, spin {} us", us), std::chrono::microseconds(us)),
             contender("heddle, spin default", {}), std::chrono::milliseconds(40)});
  }
}

}  // namespace heddle::bench
