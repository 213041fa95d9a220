// Shared code of the executor rows: creation of shared objects, and timing of the host's side. One
// thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "heddle/device.hpp"
#include "heddle/scheduler.hpp"
#include "heddle/status.hpp"
#include "tools/bench/against.hpp"
#include "tools/bench/allocation_count.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/harness.hpp"
#include "tools/bench/subject.hpp"

namespace heddle::bench {

/// An object used by several rows, made by the first slice that needs it and destroyed with the
/// last row. Copies share the object.
template <class Made>
class MadeOnce {
 public:
  [[nodiscard]] Made& operator*() const {
    if (!*slot_) slot_->emplace();
    return **slot_;
  }
  [[nodiscard]] Made* operator->() const { return &**this; }

 private:
  std::shared_ptr<std::optional<Made>> slot_ = std::make_shared<std::optional<Made>>();
};

/// A device whose worker has the worker's processor.
[[nodiscard]] inline Device new_device_on_worker() {
  const Unpinned while_starting;
  return open_on_worker().physical_device(0).new_virtual_device();
}

inline constexpr std::size_t calls_between_waits = 1000;  // fit into a queue

/// ns that the caller spends on a call while the worker runs the call; the worker is awake. Most
/// calls are timed together, some one by one; waits for their ends are not timed.
template <class Call>
double time_host_side(nanoseconds length, Samples& samples, const Device& device,
                      const Call& call) {
  const auto start = Clock::now();
  double ns = 0;
  std::size_t timed = 0;
  do {
    const auto from = Clock::now();
    for (std::size_t k = 0; k < calls_between_waits; ++k) call();
    ns += ns_between(from, Clock::now());
    timed += calls_between_waits;
    device.await();
    auto before = Clock::now();
    for (std::size_t k = 0; k < calls_between_waits / 4; ++k) {
      call();
      const auto after = Clock::now();
      samples.add(ns_between(before, after));
      before = after;
    }
    device.await();
  } while (Clock::now() - start < length);
  return ns / static_cast<double>(timed);
}

/// The result of timed_loop(); the mean of each batch is a sample.
template <class Body>
double timed_batches(nanoseconds length, std::size_t count, Samples& samples, const Body& body) {
  return timed_loop(length, count, [&](std::size_t calls) {
    const auto from = Clock::now();
    body(calls);
    samples.add(ns_between(from, Clock::now()) / static_cast<double>(calls));
  });
}

/// Allocations per call, on the caller's thread and on the worker's, once the reusable memory
/// exists: enough for all calls of a batch to be queued before the first begins.
template <class Call>
double allocations_per_call(const Device& device, const Call& call) {
  constexpr int rounds = 10;
  const auto call_all = [&] {
    for (std::size_t k = 0; k < calls_between_waits; ++k) call();
  };
  sched::ExternalTimeline host("host");
  const Event go = host.next();
  device.wait(go);
  call_all();
  throw_if_failed(host.signal(go.ticket()));
  device.await();
  const AllocationCount count;
  for (int round = 0; round < rounds; ++round) {
    call_all();
    while (!device.is_idle()) std::this_thread::yield();  // a wait may allocate
  }
  return static_cast<double>(count.so_far()) / (rounds * calls_between_waits);
}

/// The given number of f32 arrays, and one for the result, for a program that frameworks know by
/// that name.
[[nodiscard]] inline KernelSetup call_setup(const std::string& program, std::size_t arguments,
                                            const Dims& dims) {
  KernelSetup made{Program(program), {}, {}};
  for (std::size_t k = 0; k < arguments; ++k) made.add("x" + std::to_string(k), dims);
  made.add("result", dims);
  return made;
}

}  // namespace heddle::bench
