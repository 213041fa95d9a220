// How each workload drives a Worker: shared by limits, rivals and heddle, so that the workloads are
// driven alike. The constructor of a Worker takes the processor of its thread, and a Worker has
//   name, kind                its name in the table; see Kind
//   submit(f)                 runs f() on its thread, in order; each Worker limits the callers
//   wait_ended(count)         until `count` tasks were run since construction; one thread
//   run_and_wait(f)           optional: one task, where the Worker has a faster way to wait
// One thread drives each slice.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <semaphore>
#include <thread>
#include <vector>

#include "tools/bench/harness.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {

/// The number of tasks that a rival's worker has run, where the rival does not count.
class EndedCount {
 public:
  void add() {
    // release: pairs with the acquire in wait().
    ended_.fetch_add(1, std::memory_order_release);
  }
  void wait(std::uint64_t count) const {
    // acquire: pairs with the release in add().
    while (ended_.load(std::memory_order_acquire) < count) spin_pause();
  }

 private:
  alignas(64) std::atomic<std::uint64_t> ended_{0};
};

/// A running Worker: its thread is already on its own processor.
template <class Worker>
class Started {
 public:
  /// `more`: further arguments of the constructor.
  template <class... More>
  explicit Started(int processor, More... more) {
    const Unpinned while_starting;
    worker_.emplace(processor, more...);
    worker_->submit([] {});
    worker_->wait_ended(1);
  }

  template <class F>
  void submit(F f) {
    worker_->submit(f);
  }
  /// Tasks submitted since construction.
  void wait_ended(std::uint64_t count) const { worker_->wait_ended(count + 1); }
  /// Task number `count`.
  template <class F>
  void run_and_wait(F f, std::uint64_t count) {
    if constexpr (requires { worker_->run_and_wait(f); }) {
      worker_->run_and_wait(f);
    } else {
      submit(f);
      wait_ended(count);
    }
  }
  [[nodiscard]] const Worker& get() const { return *worker_; }

 private:
  std::optional<Worker> worker_;
};

/// Data written by the worker, on its own lines (processors fetch lines in pairs): the neighbouring
/// stack memory is written by the producer for each task.
struct alignas(128) WorkersOwn {
  std::uint64_t number = 0;
};

/// The cost of a task from end to end, with `batch` tasks between two waits. `more`: further
/// arguments of the worker's constructor.
template <class Worker, class... More>
Contender submit_contender(std::size_t batch = 20'000, More... more) {
  return {Worker::name, Worker::kind, [batch, more...](nanoseconds length, Samples& samples) {
            Started<Worker> worker(worker_processor, more...);
            WorkersOwn own;
            std::uint64_t& ran = own.number;
            std::uint64_t submitted = 0;
            const auto run_batch = [&](std::size_t count) {
              const auto start = Clock::now();
              for (std::size_t k = 0; k < count; ++k) worker.submit([&ran] { ++ran; });
              submitted += count;
              worker.wait_ended(submitted);
              return ns_between(start, Clock::now()) / static_cast<double>(count);
            };
            run_batch(std::max<std::size_t>(batch, 20'000));  // wakes the worker, touches the slots
            const double ns = timed_loop(length, batch,
                                         [&](std::size_t count) { samples.add(run_batch(count)); });
            require_all_ran(Worker::name, ran, submitted);
            return ns;
          }};
}

/// Several threads submit at once. Samples are of the host's thread, taken as typical.
template <class Worker>
Contender shared_submit_contender(int producers) {
  return {Worker::name, Worker::kind, [producers](nanoseconds length, Samples& samples) {
            constexpr std::size_t batch = 1000;  // between two readings of the clock
            Started<Worker> worker(worker_processor);
            WorkersOwn own;
            std::uint64_t& ran = own.number;
            std::atomic<std::uint64_t> submitted{0};
            const auto start = Clock::now();
            const auto produce = [&](Samples& times) {
              std::uint64_t count = 0;
              for (auto from = start; from - start < length; count += batch) {
                for (std::size_t k = 0; k < batch; ++k) worker.submit([&ran] { ++ran; });
                const auto to = Clock::now();
                times.add(ns_between(from, to) / static_cast<double>(batch) / producers);
                from = to;
              }
              // relaxed: read after the join.
              submitted.fetch_add(count, std::memory_order_relaxed);
            };
            std::vector<std::jthread> others;
            for (int k = 1; k < producers; ++k) {
              others.emplace_back([&produce, k] {
                pin_this_thread(producer_processor(k));
                Samples dropped;
                produce(dropped);
              });
            }
            produce(samples);
            others.clear();
            const std::uint64_t all = submitted.load(std::memory_order_relaxed);  // relaxed: joined
            worker.wait_ended(all);
            const double ns = ns_between(start, Clock::now()) / static_cast<double>(all);
            require_all_ran(Worker::name, ran, all);
            return ns;
          }};
}

template <class Worker>
Contender round_trip_contender() {
  return {Worker::name, Worker::kind, [](nanoseconds length, Samples& samples) {
            Started<Worker> worker(worker_processor);
            std::uint64_t ran = 0;  // written by the worker
            std::uint64_t submitted = 0;
            const auto once = [&] { worker.run_and_wait([&ran] { ++ran; }, ++submitted); };
            once();
            const double ns = timed_operations(length, samples, once);
            require_all_ran(Worker::name, ran, submitted);
            return ns;
          }};
}

/// Times operation() after pauses; returns the median.
template <class Operation>
double timed_after_pauses(nanoseconds length, nanoseconds pause, Samples& samples,
                          const Operation& operation) {
  Samples slice;
  const auto end = Clock::now() + length;
  do {
    pause_for(static_cast<double>(pause.count()));
    const auto start = Clock::now();
    operation();
    const double ns = ns_between(start, Clock::now());
    slice.add(ns);
    samples.add(ns);
  } while (Clock::now() < end);
  return slice.percentile(0.5);
}

/// Only the round trip is timed, not the pause before, in which the worker falls asleep.
template <class Worker>
Contender parked_contender(nanoseconds pause) {
  return {Worker::name, Worker::kind, [pause](nanoseconds length, Samples& samples) {
            Started<Worker> worker(worker_processor);
            std::uint64_t ran = 0;  // written by the worker
            std::uint64_t submitted = 0;
            const double ns = timed_after_pauses(length, pause, samples, [&] {
              worker.run_and_wait([&ran] { ++ran; }, ++submitted);
            });
            require_all_ran(Worker::name, ran, submitted);
            return ns;
          }};
}

/// A token passed between two workers until the time is up. Only its holder accesses the token.
template <class Worker>
struct HopChain {
  Started<Worker>* workers[2];
  nanoseconds length;
  Samples& samples;
  // Times taken by the workers: the host may be late when a worker spins on its processor.
  Clock::time_point start{}, seen{};
  std::uint64_t hops = 0;
  std::binary_semaphore over{0};

  void hop() {
    constexpr int hops_per_look = 32;
    if (hops == 0) start = seen = Clock::now();
    ++hops;
    if (hops % hops_per_look == 0) {
      const auto now = Clock::now();
      samples.add(ns_between(seen, now) / hops_per_look);
      seen = now;
      if (now - start > length) {
        over.release();
        return;
      }
    }
    workers[hops % 2]->submit([this] { hop(); });
  }
};

/// Tasks that trigger one another on alternating workers. The host sleeps meanwhile.
template <class Worker>
Contender posted_hop_contender() {
  return {Worker::name, Worker::kind, [](nanoseconds length, Samples& samples) {
            Started<Worker> first(host_processor), second(worker_processor);
            HopChain<Worker> chain{{&first, &second}, length, samples};
            first.submit([&chain] { chain.hop(); });
            chain.over.acquire();
            // The previous task may still be returning from submit().
            first.wait_ended((chain.hops + 1) / 2);
            second.wait_ended(chain.hops / 2);
            return ns_between(chain.start, chain.seen) / static_cast<double>(chain.hops);
          }};
}

inline constexpr int fan_width = 8;

/// One task that posts a task to each of several workers; the last of these posts a final task.
template <class Worker>
class PostedFan {
 public:
  PostedFan() {
    for (int k = 0; k < fan_width; ++k) {
      workers_.push_back(std::make_unique<Started<Worker>>(spread_processor(k)));
    }
  }
  PostedFan(const PostedFan&) = delete;
  PostedFan& operator=(const PostedFan&) = delete;
  ~PostedFan() {
    // The last leaf may still be returning from submit().
    for (std::size_t k = 1; k < workers_.size(); ++k) workers_[k]->wait_ended(rounds_);
  }

  void run() {
    ++rounds_;
    left_.store(fan_width, std::memory_order_relaxed);  // relaxed: handed on by submit()
    workers_[0]->submit([this] {
      for (const auto& worker : workers_) worker->submit([this] { leaf(); });
    });
    workers_[0]->wait_ended(3 * rounds_);
  }
  [[nodiscard]] std::uint64_t rounds() const { return rounds_; }
  [[nodiscard]] std::uint64_t joined() const { return joined_; }

 private:
  void leaf() {
    // acq_rel: pairs with itself: the last leaf comes after all other leaves.
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      workers_[0]->submit([this] { ++joined_; });
    }
  }

  std::atomic<int> left_{0};
  std::uint64_t rounds_ = 0;
  std::uint64_t joined_ = 0;  // written by the first worker
  std::vector<std::unique_ptr<Started<Worker>>> workers_;
};

template <class Worker>
Contender posted_fan_contender() {
  return {Worker::name, Worker::kind, [](nanoseconds length, Samples& samples) {
            PostedFan<Worker> fan;
            fan.run();
            const double ns = timed_operations(length, samples, [&fan] { fan.run(); });
            require_all_ran(Worker::name, fan.joined(), fan.rounds());
            return ns;
          }};
}

/// Start a worker and end it.
template <class Worker>
Contender open_contender() {
  return {Worker::name, Worker::kind, [](nanoseconds length, Samples& samples) {
            const Unpinned beside_the_host;
            return timed_operations(length, samples, [] { Worker worker(worker_processor); });
          }};
}

}  // namespace heddle::bench
