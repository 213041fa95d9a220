// The pooled ready queue: the shipped ReadyCount, Inbox and SleeperFlag in the sequences of Pool.
// The queue by which workers share out the inbox, a third-party queue, is a word of bits here.
#include "scheduler/protocol/ready_count.hpp"

#include "scheduler/protocol/inbox.hpp"

#include "tests/model/waiting.hpp"

namespace heddle::model {
namespace {

template <unsigned workers>
class PoolModel {
 public:
  static constexpr unsigned items = 2;

  PoolModel() {
    for (auto& p : payload) p($) = 0;
  }

  void push(unsigned item) {
    payload[item]($) = item + 1;
    links_[item].item = item;
    inbox_.push(links_[item]);
    if (count_.add()) wake_one();
  }
  /// Every thread has gone: none is counted as asleep, or looking.
  [[nodiscard]] bool counts_nobody() { return !count_.add(); }
  /// A worker; the worker that takes the last item stops every worker, as the last device does.
  void work(unsigned me) {
    unsigned item = 0;
    while (next(me, item)) {
      RL_ASSERT(payload[item]($) == item + 1);
      payload[item]($) = 0;
      // Acts as a long task: with two workers, the other worker takes the rest meanwhile.
      if (item == 1) second_.raise();
      if (item == 0 && workers == 2) second_.wait();
      if (taken_.fetch_add(1, std::memory_order_acq_rel) + 1 == items) stop();
    }
  }

 private:
  bool stopping() const { return stop_.load(std::memory_order_seq_cst) != 0; }
  bool next(unsigned me, unsigned& item) {
    while (true) {
      if (stopping()) return false;
      if (take(item)) {
        if (count_.more()) wake_one();
        return true;
      }
      count_.begin_look();
      const bool found = !count_.empty();
      const bool taken = take(item);
      if (count_.end_look() && !omitted(Omission::hand_on)) wake_one();
      if (taken) return true;
      if (!found) sleep(me);
    }
  }
  bool take(unsigned& item) {
    if (!count_.take()) return false;
    while (true) {
      if (Link* link = inbox_.take_all()) {
        item = link->item;
        while ((link = link->next) != nullptr)
          queue_.fetch_or(1u << link->item, std::memory_order_release);
        return true;
      }
      // The last load, so that a thread that waits here is woken by the thread that shares out.
      const unsigned seen = queue_.load(std::memory_order_relaxed);
      item = seen & 1 ? 0 : 1;
      const unsigned bit = 1u << item;
      if (seen != 0 && (queue_.fetch_and(~bit, std::memory_order_acquire) & bit) != 0) return true;
      if (seen == 0) pause();
    }
  }
  void sleep(unsigned me) {
    const bool nothing = count_.sleep(flags_[me]) || omitted(Omission::recheck);
    if (nothing && !stopping()) tokens_[me].park();
    static_cast<void>(count_.wake(flags_[me]));
  }
  void wake_one() {
    if (omitted(Omission::wake)) return;
    for (unsigned sleeper = 0; sleeper < workers; ++sleeper) {
      if (count_.wake(flags_[sleeper])) return tokens_[sleeper].unpark();
    }
  }
  void stop() {
    stop_.store(1, std::memory_order_seq_cst);
    for (Token& token : tokens_) token.unpark();
  }

  struct Link {
    unsigned item = 0;
    Link* next = nullptr;
  };
  sched::ReadyCount<Env<>> count_;
  sched::Inbox<Link, Env<>> inbox_;
  Link links_[items];
  Atomic<unsigned> queue_;  // a bit per item
  rl::var<unsigned> payload[items];
  Atomic<unsigned> taken_, stop_;
  Flag second_;
  sched::SleeperFlag<Env<>> flags_[workers];
  Token tokens_[workers];
};

// Two items become ready, from one or two threads, for one or two workers.
template <unsigned producers, unsigned workers>
struct HandOff : rl::test_suite<HandOff<producers, workers>, producers + workers> {
  PoolModel<workers> pool;
  void thread(unsigned thread) {
    if (thread >= producers) return pool.work(thread - producers);
    for (unsigned item = thread; item < 2; item += producers) pool.push(item);
  }
  void after() { RL_ASSERT(pool.counts_nobody()); }
};

template <class Scenario>
void expect_caught_all() {
  expect_caught<Scenario>({"::must_wake(", Mutation::no_seq_cst});
  expect_caught<Scenario>({"ReadyCount<", Mutation::no_seq_cst});
  expect_caught<Scenario>({"SleeperFlag<", Mutation::no_seq_cst});
  expect_caught<Scenario>({"::end_look(", Mutation::no_seq_cst});
  expect_caught<Scenario>({.omission = Omission::recheck});
  expect_caught<Scenario>({.omission = Omission::wake});
}
/// With one producer the count alone orders the pushed items.
template <class Scenario>
void expect_caught_in_inbox() {
  expect_caught<Scenario>({"Inbox<", Mutation::no_release});
  expect_caught<Scenario>({"Inbox<", Mutation::no_acquire});
}

TEST(PoolModelTest, TwoProducers) {
  expect_holds<HandOff<2, 1>>();
  expect_caught_all<HandOff<2, 1>>();
  expect_caught_in_inbox<HandOff<2, 1>>();
}
TEST(PoolModelTest, TwoWorkers) {
  expect_holds<HandOff<1, 2>>(-1);
  expect_caught_all<HandOff<1, 2>>();
  expect_caught<HandOff<1, 2>>({.omission = Omission::hand_on});
  expect_caught<HandOff<1, 2>>({"::take_all(", Mutation::no_exchange});
}
TEST(PoolModelTest, TwoOfEach) {
  expect_holds<HandOff<2, 2>>(-2);
  expect_caught_all<HandOff<2, 2>>();
  expect_caught<HandOff<2, 2>>({.omission = Omission::hand_on});
}

/// Sleepers, one of which is woken for each counted item.
template <unsigned places>
struct Sleeping {
  sched::ReadyCount<Env<>> count;
  sched::SleeperFlag<Env<>> flags[places];
  Token tokens[places];

  void wake_one() {
    for (unsigned sleeper = 0; sleeper < places; ++sleeper) {
      if (count.wake(flags[sleeper])) return tokens[sleeper].unpark();
    }
  }
  void take_or_sleep(unsigned me) {
    while (!count.take()) {
      if (count.sleep(flags[me]) || omitted(Omission::recheck)) tokens[me].park();
      static_cast<void>(count.wake(flags[me]));
    }
  }
};

// Three items become ready while a worker looks, so no sleeper is woken for the items. The worker
// takes one item and wakes a second worker, which takes an item without looking, and wakes the
// third.
struct ThreeWorkers : rl::test_suite<ThreeWorkers, 3>, Sleeping<3> {
  void thread(unsigned me) {
    if (me == 0) {
      count.begin_look();
      for (unsigned item = 0; item < 3; ++item) {
        if (count.add()) wake_one();
      }
      RL_ASSERT(count.take());
      if (count.end_look()) wake_one();
    } else {
      take_or_sleep(me);
      if (count.more() && !omitted(Omission::hand_on)) wake_one();
    }
  }
};

TEST(PoolModelTest, ThreeWorkers) {
  expect_holds<ThreeWorkers>();
  expect_caught<ThreeWorkers>({.omission = Omission::hand_on});
  expect_caught<ThreeWorkers>({.omission = Omission::recheck});
}

// A host leaves while it goes to sleep (Pool::run_until, whose event is done). If the host was
// woken for a ready item, it wakes the worker, which takes the item.
struct HostLeaves : rl::test_suite<HostLeaves, 3>, Sleeping<2> {
  void thread(unsigned thread) {
    if (thread == 0) {
      static_cast<void>(count.sleep(flags[0]));
      static_cast<void>(count.wake(flags[0]));
      if (!count.empty() && !omitted(Omission::hand_on)) wake_one();
    } else if (thread == 1) {
      take_or_sleep(1);
    } else {
      if (count.add()) wake_one();
    }
  }
};

TEST(PoolModelTest, HostLeaves) {
  expect_holds<HostLeaves>();
  expect_caught<HostLeaves>({.omission = Omission::hand_on});
  expect_caught<HostLeaves>({.omission = Omission::recheck});
}

// A host requests the pool's descriptor (Pool::descriptor) while an item becomes ready: the later
// of the two threads makes the descriptor readable.
struct DescriptorAgainstPush : rl::test_suite<DescriptorAgainstPush, 2> {
  sched::ReadyCount<Env<>> count;
  Atomic<unsigned> opened, readable;

  void thread(unsigned thread) {
    if (thread == 0) {
      opened.store(1, std::memory_order_seq_cst);
      if (!count.empty()) readable.store(1, std::memory_order_relaxed);
    } else {
      static_cast<void>(count.add());
      if (opened.load(std::memory_order_seq_cst) != 0) readable.store(1, std::memory_order_relaxed);
    }
  }
  void after() { RL_ASSERT(readable.load(std::memory_order_relaxed) == 1); }
};

TEST(PoolModelTest, DescriptorAgainstPush) {
  expect_holds<DescriptorAgainstPush>();
  expect_caught<DescriptorAgainstPush>({"::empty(", Mutation::no_seq_cst});
  expect_caught<DescriptorAgainstPush>({"::add(", Mutation::no_seq_cst});
}

// A timer is set (Pool::call_at) while two workers go to sleep: a worker that saw the timer keeps
// its time, or a worker was woken for the timer. A flag is lowered once.
struct AlarmAgainstSleep : rl::test_suite<AlarmAgainstSleep, 3> {
  static constexpr unsigned workers = 2;
  sched::SleeperFlag<Env<>> flags[workers];
  Token tokens[workers];
  Atomic<unsigned> alarm, woken, kept, lowered[workers];
  void thread(unsigned me) {
    if (me == workers) {
      alarm.store(1, std::memory_order_seq_cst);
      for (unsigned sleeper = 0; sleeper < workers; ++sleeper) {
        if (!flags[sleeper].lower()) continue;
        lowered[sleeper].fetch_add(1, std::memory_order_relaxed);
        woken.fetch_add(1, std::memory_order_relaxed);
        return tokens[sleeper].unpark();
      }
      return;
    }
    flags[me].raise();
    if (alarm.load(std::memory_order_seq_cst) != 0) {
      // The worker gets up, unless another thread wakes it.
      if (flags[me].lower()) {
        lowered[me].fetch_add(1, std::memory_order_relaxed);
      } else {
        tokens[me].park();
      }
      kept.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void after() {
    for (auto& times : lowered) RL_ASSERT(times.load(std::memory_order_relaxed) <= 1);
    RL_ASSERT(kept.load(std::memory_order_relaxed) + woken.load(std::memory_order_relaxed) > 0);
  }
};

TEST(PoolModelTest, AlarmAgainstSleep) {
  expect_holds<AlarmAgainstSleep>();
  expect_caught<AlarmAgainstSleep>({"::raise(", Mutation::no_seq_cst});
  expect_caught<AlarmAgainstSleep>({"::lower(", Mutation::no_seq_cst});
  expect_caught<AlarmAgainstSleep>({"::lower(", Mutation::no_exchange});
}

}  // namespace
}  // namespace heddle::model
