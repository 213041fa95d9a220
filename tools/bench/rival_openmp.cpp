// OpenMP tasks, in a team of two: the host is the first thread and makes tasks, the second thread
// waits in the barrier at the region's end and runs them. This is the documented shape (single
// producer). A thread that makes tasks may also run some at once, as gcc's library does when many
// are queued, so the host helps. Every slice has its own region, and ends the second thread
// afterwards, because it would spin.
#include <omp.h>

#include <atomic>
#include <utility>

#include "tools/bench/rivals.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

constexpr const char* name = "OpenMP task (host helps)";

/// Runs body() on the host while a second thread runs tasks.
template <class Body>
double in_team(const Body& body) {
  double ns = 0;
  const Unpinned while_starting;
#pragma omp parallel num_threads(2) shared(ns)
  {
    pin_this_thread(omp_get_thread_num() == 0 ? host_processor : worker_processor);
#pragma omp barrier
    if (omp_get_thread_num() == 0) ns = body();
  }
  omp_pause_resource_all(omp_pause_soft);
  return ns;
}

Contender submit() {
  return {name, Kind::helped_rival, [](nanoseconds length, Samples& samples) {
            return in_team([&] {
              constexpr std::size_t batch = 2000;
              EndedCount ended;
              std::uint64_t submitted = 0;
              return timed_loop(length, batch, [&](std::size_t count) {
                const auto start = Clock::now();
                for (std::size_t k = 0; k < count; ++k) {
#pragma omp task shared(ended)
                  ended.add();
                }
#pragma omp taskwait
                submitted += count;
                ended.wait(submitted);
                samples.add(ns_between(start, Clock::now()) / static_cast<double>(count));
              });
            });
          }};
}

/// The host does not look for tasks while it waits.
void run_and_wait(EndedCount& ended, std::uint64_t count) {
#pragma omp task shared(ended)
  ended.add();
  ended.wait(count);
}

Contender round_trip() {
  return {name, Kind::helped_rival, [](nanoseconds length, Samples& samples) {
            return in_team([&] {
              EndedCount ended;
              std::uint64_t submitted = 0;
              return timed_operations(length, samples, [&] { run_and_wait(ended, ++submitted); });
            });
          }};
}

Contender parked() {
  return {name, Kind::helped_rival, [](nanoseconds length, Samples& samples) {
            return in_team([&] {
              EndedCount ended;
              std::uint64_t submitted = 0;
              return timed_after_pauses(length, rival_pause, samples,
                                        [&] { run_and_wait(ended, ++submitted); });
            });
          }};
}

Contender fan() {
  return {name, Kind::helped_rival, [](nanoseconds length, Samples& samples) {
            return in_team([&] {
              EndedCount ended;
              std::uint64_t expected = 0;
              return timed_operations(length, samples, [&] {
                expected += fan_width + 2;
                ended.add();  // the previous task runs on the host's thread
                for (int k = 0; k < fan_width; ++k) {
#pragma omp task shared(ended)
                  ended.add();
                }
#pragma omp taskwait
                ended.add();
                ended.wait(expected);
              });
            });
          }};
}

}  // namespace

Rival openmp_rival() {
  Rival rival;
  rival.submit = submit();
  rival.round_trip = round_trip();
  rival.parked = parked();
  rival.fan = fan();  // no hops: an OpenMP program does not choose the thread of a task
  return rival;
}

}  // namespace heddle::bench
