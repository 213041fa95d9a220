// Model tests: the shipped templates of scheduler/ over Relacy's atomics, which explore
// interleavings and, within the C++ memory model, the values that loads may see. Barriers are full
// fences here, as barrier.hpp promises for the pair.
//
// A scenario is an rl::test_suite; it fails by RL_ASSERT, if no thread can continue, and by
// unsynchronised access to an rl::var. A mutant is a scenario with an omission: in the shipped
// code, by Mutation, or in the scenario's own sequence, by Omission. One thread runs the scenarios.
#pragma once

// Relacy replaces standard names by macros: standard headers, and heddle's, come first.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "heddle/scheduler.hpp"
#include "scheduler/protocol/bias.hpp"
#include "scheduler/protocol/doorbell.hpp"
#include "scheduler/protocol/lane.hpp"
#include "scheduler/protocol/parking.hpp"
#include "scheduler/protocol/progress.hpp"
#include "tests/model/accesses.hpp"

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

/// The step that a mutant omits from its scenario.
enum class Omission { none, recheck, wake, order, lock, hand_on, compare, note };

/// The current mutant; mutates scenarios that are no templates.
struct Mutant {
  const char* in = "";  ///< in functions with this text in their full name
  Mutation mutation = Mutation::none;
  Omission omission = Omission::none;
};
inline Mutant planted;

inline bool omitted(Omission omission) { return planted.omission == omission; }
inline Mutation planted_at(const Where& where) {
  if (PlantedAccess::get().is_at(where)) return PlantedAccess::get().mutation;
  if (planted.mutation == Mutation::none) return Mutation::none;
  return std::strstr(where.function_name(), planted.in) != nullptr ? planted.mutation
                                                                   : Mutation::none;
}

enum class Access { load, store, both };

inline rl::memory_order order_of(std::memory_order order, Access access, Mutation mutation) {
  if (mutation == Mutation::relaxed) return rl::mo_relaxed;
  if (order == std::memory_order_seq_cst) {
    if (mutation != Mutation::no_seq_cst) return rl::mo_seq_cst;
    return access == Access::load    ? rl::mo_acquire
           : access == Access::store ? rl::mo_release
                                     : rl::mo_acq_rel;
  }
  const bool release = mutation != Mutation::no_release;
  const bool acquire = mutation != Mutation::no_acquire;
  switch (order) {
    case std::memory_order_consume:
    case std::memory_order_acquire:
      return acquire ? rl::mo_acquire : rl::mo_relaxed;
    case std::memory_order_release:
      return release ? rl::mo_release : rl::mo_relaxed;
    case std::memory_order_acq_rel:
      return !release ? rl::mo_acquire : !acquire ? rl::mo_release : rl::mo_acq_rel;
    default:
      return rl::mo_relaxed;
  }
}

/// The last load of the running thread: the threads that sleep until the load's atomic changes, and
/// whether the load saw an old value.
struct LastLoad {
  unsigned* sleepers = nullptr;  // one bit per thread
  bool old = false;
};
inline LastLoad last_load;

/// Called in a loop that waits for the value of its condition, a single load. Repeated tries would
/// cost a schedule each: the thread instead sleeps until that atomic is written, which does not
/// make the writer's other writes visible, and afterwards does not see a value again that it knows
/// to be old.
inline void pause() {
  rl::context& here = rl::ctx();
  if (!last_load.old) {
    *last_load.sleepers |= 1u << here.current_thread();
    here.park_current_thread(false, false, false, $);
  }
  here.threadx_->last_yield_ = here.threadx_->own_acq_rel_order_;
}

/// The first of two swapped stores. One thread at a time is at such a place.
struct Deferred {
  void* atomic = nullptr;
  std::uint64_t value = 0;
  void (*store)(void* atomic, std::uint64_t value) = nullptr;
};
inline Deferred deferred;

/// One access of the running thread.
class Accessed {
 public:
  Accessed(const Where& at, const char* kind, std::memory_order order)
      : thread_(rl::ctx().current_thread()) {
    AccessLog::get().note(at, kind, static_cast<int>(order), thread_);
  }
  ~Accessed() { LateStores::get().make_up(thread_); }
  Accessed(const Accessed&) = delete;
  Accessed& operator=(const Accessed&) = delete;

 private:
  unsigned thread_;
};

/// The interface of std::atomic over Relacy's atomic.
template <class T, Mutation mutation = Mutation::none>
class Atomic {
 public:
  Atomic(T value = T()) : newest_(value) {
    LateStores::get().begin();  // a schedule begins with its atomics
    value_.store(value, rl::mo_relaxed, $);
  }
  T load(std::memory_order order, Where at = Where::current()) const {
    const Accessed accessed(at, "load", order);
    const T value = value_.load(mapped(order, Access::load, at), $);
    last_load = {&sleepers_, value != newest_};
    return value;
  }
  void store(T value, std::memory_order order, Where at = Where::current()) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!value && mutation_at(at) == Mutation::no_lower) return;
    }
    if constexpr (std::is_integral_v<T>) {
      if (mutation_at(at) == Mutation::swapped && order == std::memory_order_release) {
        if (deferred.atomic == nullptr) {
          deferred = {this, value, [](void* atomic, std::uint64_t later) {
                        static_cast<Atomic*>(atomic)->store_now(static_cast<T>(later),
                                                                rl::mo_release);
                      }};
          return;
        }
        store_now(value, rl::mo_release);
        const Deferred first = std::exchange(deferred, {});
        return first.store(first.atomic, first.value);
      }
    }
    if (mutation_at(at) == Mutation::drop) return;
    if (mutation_at(at) == Mutation::late) return put_off(value, mapped(order, Access::store, at));
    const Accessed accessed(at, "store", order);
    store_now(value, mapped(order, Access::store, at));
  }
  T exchange(T value, std::memory_order order, Where at = Where::current()) {
    const Accessed accessed(at, "both", order);
    T before{};
    if (mutation_at(at) == Mutation::drop) return value_.load(rl::mo_acquire, $);
    if (mutation_at(at) == Mutation::no_exchange) {
      before = value_.load(rl::mo_acquire, $);
      value_.store(value, rl::mo_release, $);
    } else {
      before = value_.exchange(value, mapped(order, Access::both, at), $);
    }
    changed(value);
    return before;
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                               std::memory_order failure, Where at = Where::current()) {
    const Accessed accessed(at, "exchange", success);
    const bool exchanged =
        value_.compare_exchange_strong(expected, desired, mapped(success, Access::both, at), $,
                                       mapped(failure, Access::load, at), $);
    if (exchanged) changed(desired);
    return exchanged;
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success,
                             std::memory_order failure, Where at = Where::current()) {
    const Accessed accessed(at, "exchange", success);
    const bool exchanged =
        value_.compare_exchange_weak(expected, desired, mapped(success, Access::both, at), $,
                                     mapped(failure, Access::load, at), $);
    if (exchanged) changed(desired);
    return exchanged;
  }
  T fetch_add(T value, std::memory_order order, Where at = Where::current()) {
    if (const Mutation m = mutation_at(at); m == Mutation::drop || m == Mutation::no_exchange)
      return change([value](T seen) { return seen + value; }, order, at);
    const Accessed accessed(at, "both", order);
    const T before = value_.fetch_add(value, mapped(order, Access::both, at), $);
    changed(before + value);
    return before;
  }
  T fetch_sub(T value, std::memory_order order, Where at = Where::current()) {
    if (const Mutation m = mutation_at(at); m == Mutation::drop || m == Mutation::no_exchange)
      return change([value](T seen) { return seen - value; }, order, at);
    const Accessed accessed(at, "both", order);
    const T before = value_.fetch_sub(value, mapped(order, Access::both, at), $);
    changed(before - value);
    return before;
  }
  T fetch_or(T value, std::memory_order order, Where at = Where::current()) {
    return change([value](T seen) { return seen | value; }, order, at);
  }
  T fetch_and(T value, std::memory_order order, Where at = Where::current()) {
    const T kept = mutation_at(at) == Mutation::clears ? T() : value;
    return change([kept](T seen) { return seen & kept; }, order, at);
  }

 private:
  void store_now(T value, rl::memory_order order) {
    value_.store(value, order, $);
    changed(value);
  }
  template <class Change>
  T change(const Change& to, std::memory_order order, const Where& at) {
    const Accessed accessed(at, "both", order);
    T seen = value_.load(rl::mo_relaxed, $);
    if (mutation_at(at) == Mutation::drop) return seen;
    if (mutation_at(at) == Mutation::no_exchange) {
      value_.store(to(seen), rl::mo_release, $);
    } else {
      while (!value_.compare_exchange_strong(seen, to(seen), mapped(order, Access::both, at), $,
                                             rl::mo_relaxed, $)) {
      }
    }
    changed(to(seen));
    return seen;
  }
  static Mutation mutation_at(const Where& at) {
    const bool none = mutation == Mutation::none || mutation == Mutation::symmetric;
    return none ? planted_at(at) : mutation;
  }
  static rl::memory_order mapped(std::memory_order order, Access access, const Where& at) {
    return order_of(order, access, mutation_at(at));
  }
  /// The store comes after the thread's next access.
  void put_off(T value, rl::memory_order order) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    LateStores::get().put_off(rl::ctx().current_thread(), {this, bits, order, &make_up});
  }
  static void make_up(const LateStores::Waiting& late) {
    auto& self = *static_cast<Atomic*>(late.atomic);
    T value{};
    std::memcpy(&value, &late.value, sizeof value);
    self.value_.store(value, static_cast<rl::memory_order>(late.order), $);
    self.changed(value);
  }
  /// Wakes the threads that sleep until this atomic changes.
  void changed(T value) {
    newest_ = value;
    last_load = {&sleepers_, false};
    for (unsigned thread = 0; sleepers_ != 0; ++thread) {
      if ((sleepers_ >> thread & 1) == 0) continue;
      sleepers_ &= ~(1u << thread);
      rl::ctx().unpark_thread(thread, false, $);
    }
  }

  rl::atomic<T> value_;
  T newest_;
  mutable unsigned sleepers_ = 0;
};

template <Mutation mutation = Mutation::none>
struct Env {
  template <class T>
  using atomic = Atomic<T, mutation>;
  template <class T>
  using array = std::vector<T>;
  static constexpr bool asymmetric() { return mutation != Mutation::symmetric; }
  static void light_barrier(Where at = Where::current()) {
    const Accessed accessed(at, "light", std::memory_order_seq_cst);
    if (asymmetric() && mutation != Mutation::no_light && planted_at(at) != Mutation::no_light)
      rl::atomic_thread_fence(rl::mo_seq_cst, $);
  }
  static void heavy_barrier(Where at = Where::current()) {
    const Accessed accessed(at, "heavy", std::memory_order_seq_cst);
    if (asymmetric() && mutation != Mutation::no_heavy && planted_at(at) != Mutation::no_heavy)
      rl::atomic_thread_fence(rl::mo_seq_cst, $);
  }
  static void relax() { pause(); }
};

/// A flag between threads of a scenario, which the scenario's mutations do not affect.
class Flag {
 public:
  void raise() { value_.store(1, std::memory_order_release); }
  [[nodiscard]] bool raised() const { return value_.load(std::memory_order_acquire) != 0; }
  void wait() const {
    while (!raised()) pause();
  }

 private:
  Atomic<unsigned> value_;
};

/// During its lifetime, memory does not come from Relacy, which explores every schedule twice for
/// each freed block: once for each answer to whether the block is reused at once.
class Outside {
 public:
  Outside() { ++count(); }
  ~Outside() { --count(); }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  struct Door : rl::context {
    static constexpr int rl::context::* count = &Door::disable_alloc_;
  };
  static int& count() { return rl::ctx().*Door::count; }
};

}  // namespace heddle::model
