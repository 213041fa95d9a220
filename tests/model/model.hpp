// Model tests: the shipped templates of scheduler/ over Relacy's atomics, which try interleavings
// and, within the C++ memory model, which of the values that a load may see it sees. Barriers are
// full fences here, as barrier.hpp promises for the pair.
//
// A scenario is an rl::test_suite; it fails by RL_ASSERT, when no thread gets on, and by
// unsynchronised access to an rl::var.
#pragma once

// Relacy puts macros in the place of standard names: standard headers, and ours, come before it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <thread>
#include <vector>

#include "heddle/scheduler.hpp"
#include "scheduler/bias.hpp"
#include "scheduler/doorbell.hpp"
#include "scheduler/lane.hpp"
#include "scheduler/progress.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#include <relacy/relacy.hpp>
#pragma GCC diagnostic pop
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst
#undef new
#undef delete
#undef assert

namespace heddle::model {

/// What a mutant leaves out: a model that does not notice is worth nothing. `symmetric` is none:
/// barriers do nothing, and the protocols know it.
enum class Mutation { none, symmetric, no_light, no_heavy, no_release, no_acquire };

template <Mutation mutation>
rl::memory_order order_of(std::memory_order order) {
  constexpr bool release = mutation != Mutation::no_release;
  constexpr bool acquire = mutation != Mutation::no_acquire;
  switch (order) {
    case std::memory_order_relaxed:
      return rl::mo_relaxed;
    case std::memory_order_consume:
    case std::memory_order_acquire:
      return acquire ? rl::mo_acquire : rl::mo_relaxed;
    case std::memory_order_release:
      return release ? rl::mo_release : rl::mo_relaxed;
    case std::memory_order_acq_rel:
      return !release ? rl::mo_acquire : !acquire ? rl::mo_release : rl::mo_acq_rel;
    default:
      return rl::mo_seq_cst;
  }
}

/// std::atomic's face on Relacy's.
template <class T, Mutation mutation = Mutation::none>
class Atomic {
 public:
  Atomic(T value = T()) { value_.store(value, rl::mo_relaxed, $); }
  T load(std::memory_order order) const { return value_.load(mapped(order), $); }
  void store(T value, std::memory_order order) { value_.store(value, mapped(order), $); }
  T exchange(T value, std::memory_order order) { return value_.exchange(value, mapped(order), $); }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure) {
    return value_.compare_exchange_strong(expected, desired, mapped(success), $, mapped(failure),
                                          $);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success,
                             std::memory_order failure) {
    return value_.compare_exchange_weak(expected, desired, mapped(success), $, mapped(failure), $);
  }
  T fetch_add(T value, std::memory_order order) {
    return value_.fetch_add(value, mapped(order), $);
  }
  T fetch_sub(T value, std::memory_order order) {
    return value_.fetch_sub(value, mapped(order), $);
  }
  T fetch_or(T value, std::memory_order order) {
    return change([value](T seen) { return seen | value; }, order);
  }
  T fetch_and(T value, std::memory_order order) {
    return change([value](T seen) { return seen & value; }, order);
  }

 private:
  template <class Change>
  T change(const Change& to, std::memory_order order) {
    T seen = value_.load(rl::mo_relaxed, $);
    while (!value_.compare_exchange_weak(seen, to(seen), mapped(order), $, rl::mo_relaxed, $)) {
    }
    return seen;
  }
  static rl::memory_order mapped(std::memory_order order) { return order_of<mutation>(order); }

  rl::atomic<T> value_;
};

template <Mutation mutation = Mutation::none>
struct Env {
  template <class T>
  using atomic = Atomic<T, mutation>;
  template <class T>
  using array = std::vector<T>;
  static constexpr bool asymmetric() { return mutation != Mutation::symmetric; }
  static void light_barrier() {
    if (asymmetric() && mutation != Mutation::no_light) rl::atomic_thread_fence(rl::mo_seq_cst, $);
  }
  static void heavy_barrier() {
    if (asymmetric() && mutation != Mutation::no_heavy) rl::atomic_thread_fence(rl::mo_seq_cst, $);
  }
  static void relax() { rl::yield(1, $); }
};

/// A flag between threads of a scenario, which its mutations leave alone.
class Flag {
 public:
  void raise() { value_.store(1, std::memory_order_release); }
  [[nodiscard]] bool raised() const { return value_.load(std::memory_order_acquire) != 0; }
  void wait() const {
    while (!raised()) rl::yield(1, $);
  }

 private:
  Atomic<unsigned> value_;
};

/// Where Relacy reports to: a place that does not grow, since Relacy has its own operator new while
/// it runs. What does not fit is dropped.
class Report : public std::streambuf {
 public:
  Report() { setp(text_.data(), text_.data() + text_.size()); }
  [[nodiscard]] std::string text() const { return std::string(pbase(), pptr()); }

 protected:
  int overflow(int c) override { return c; }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    const auto fits = std::min<std::streamsize>(count, epptr() - pptr());
    std::memcpy(pptr(), text, static_cast<std::size_t>(fits));
    pbump(static_cast<int>(fits));
    return count;
  }

 private:
  std::array<char, 1 << 16> text_;
};

struct Verdict {
  bool holds = false;
  std::uint64_t schedules = 0;
  std::string report;
};

/// All schedules with at most `context_bound` preemptions, or `count` random ones.
template <class Scenario>
Verdict explore(rl::scheduler_type_e search, unsigned context_bound, std::uint64_t count) {
  const auto report = std::make_unique<Report>();
  std::ostream stream(report.get());
  rl::test_params params;
  params.search_type = search;
  params.context_bound = context_bound;
  params.iteration_count = static_cast<rl::iteration_t>(count);
  params.output_stream = &stream;
  params.progress_stream = &stream;
  Verdict verdict;
  verdict.holds = rl::simulate<Scenario>(params);
  verdict.schedules = static_cast<std::uint64_t>(params.stop_iteration);
  verdict.report = report->text();
  return verdict;
}

}  // namespace heddle::model
