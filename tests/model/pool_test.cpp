// The pooled ready queue: the shipped ReadyCount in the sequences of Pool. The queue itself, which
// is not ours, is a row of places here.
#include "scheduler/ready_count.hpp"

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
    queue_[item].store(1, std::memory_order_release);
    if (count_.add()) wake_one();
  }
  /// A worker; who has taken the last item ends all of them, as the last device does.
  void work(unsigned me) {
    unsigned item = 0;
    while (next(me, item)) {
      RL_ASSERT(payload[item]($) == item + 1);
      payload[item]($) = 0;
      // As a long task: where there are two workers, the other one sees to the rest meanwhile.
      if (item == 1) second_.raise();
      if (item == 0 && workers == 2) second_.wait();
      if (taken_.fetch_add(1, std::memory_order_acq_rel) + 1 == items) stop();
    }
  }

 private:
  bool stopping() const { return stop_.load(std::memory_order_acquire) != 0; }
  bool next(unsigned me, unsigned& item) {
    while (true) {
      if (stopping()) return false;
      if (take(item)) return true;
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
      for (item = 0; item < items; ++item) {
        if (queue_[item].load(std::memory_order_relaxed) != 0 &&
            queue_[item].exchange(0, std::memory_order_acquire) != 0) {
          return true;
        }
      }
      rl::yield(1, $);
    }
  }
  void sleep(unsigned me) {
    mutex_.lock($);
    if (stopping()) return mutex_.unlock($);
    asleep_[me] = true;
    const bool nothing = count_.sleep() || omitted(Omission::recheck);
    mutex_.unlock($);
    if (nothing) tokens_[me].park();
    mutex_.lock($);
    if (asleep_[me]) count_.wake();
    asleep_[me] = false;
    mutex_.unlock($);
  }
  void wake_one() {
    if (omitted(Omission::wake)) return;
    mutex_.lock($);
    unsigned sleeper = 0;
    while (sleeper < workers && !asleep_[sleeper]) ++sleeper;
    if (sleeper < workers) {
      asleep_[sleeper] = false;
      count_.wake();
    }
    mutex_.unlock($);
    if (sleeper < workers) tokens_[sleeper].unpark();
  }
  void stop() {
    mutex_.lock($);
    stop_.store(1, std::memory_order_release);
    for (unsigned sleeper = 0; sleeper < workers; ++sleeper) {
      if (!asleep_[sleeper]) continue;
      asleep_[sleeper] = false;
      count_.wake();
      tokens_[sleeper].unpark();
    }
    mutex_.unlock($);
  }

  sched::ReadyCount<Env<>> count_;
  Atomic<unsigned> queue_[items];
  rl::var<unsigned> payload[items];
  Atomic<unsigned> taken_, stop_;
  Flag second_;
  rl::mutex mutex_;
  bool asleep_[workers] = {};  // guarded by mutex_
  Token tokens_[workers];
};

// Two things become ready, from one thread or two, for one worker or two.
template <unsigned producers, unsigned workers>
struct HandOff : rl::test_suite<HandOff<producers, workers>, producers + workers> {
  PoolModel<workers> pool;
  void thread(unsigned thread) {
    if (thread >= producers) return pool.work(thread - producers);
    for (unsigned item = thread; item < 2; item += producers) pool.push(item);
  }
};

template <class Scenario>
void expect_caught_all() {
  expect_caught<Scenario>({"::must_wake(", Mutation::no_seq_cst});
  expect_caught<Scenario>({"::sleep(", Mutation::no_seq_cst});
  expect_caught<Scenario>({"::end_look(", Mutation::no_seq_cst});
  expect_caught<Scenario>({.omission = Omission::recheck});
  expect_caught<Scenario>({.omission = Omission::wake});
}

TEST(PoolModelTest, TwoProducers) {
  expect_holds<HandOff<2, 1>>();
  expect_caught_all<HandOff<2, 1>>();
}
TEST(PoolModelTest, TwoWorkers) {
  expect_holds<HandOff<1, 2>>();
  expect_caught_all<HandOff<1, 2>>();
  expect_caught<HandOff<1, 2>>({.omission = Omission::hand_on});
}
TEST(PoolModelTest, TwoOfEach) {
  expect_holds<HandOff<2, 2>>(-1);
  expect_caught_all<HandOff<2, 2>>();
  expect_caught<HandOff<2, 2>>({.omission = Omission::hand_on});
}

}  // namespace
}  // namespace heddle::model
