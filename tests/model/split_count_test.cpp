// SplitCount, the shipped template, between the thread that begins uses of an object and the
// threads that end them; and the sequence of scheduler/threads/biased_mutex.hpp, which is no
// template: a bias that is claimed under the mutex of the other threads.
#include "scheduler/protocol/split_count.hpp"

#include "tests/model/explore.hpp"

namespace heddle::model {
namespace {

// The owner begins two uses and lets go; two threads end them. The last of the three destroys the
// object, once, after every use.
struct UsesAgainstLetGo : rl::test_suite<UsesAgainstLetGo, 3> {
  static constexpr unsigned owner = 0, threads = 3;
  sched::SplitCount<Env<>> uses;
  Flag begun[threads];
  rl::var<unsigned> used[threads];  // one element per user
  rl::var<unsigned> destroyed;

  void before() {
    for (auto& by : used) by($) = 0;
    destroyed($) = 0;
  }
  void thread(unsigned thread) {
    bool last = false;
    if (thread == owner) {
      for (unsigned k = 1; k < threads; ++k) {
        used[owner]($) = k;
        uses.begin();
        uses.begin();
        uses.take_back();
        begun[k].raise();
      }
      // after the last use that the owner begins
      if (!omitted(Omission::compare)) used[owner]($) = threads;
      last = uses.let_go();
    } else {
      begun[thread].wait();
      used[thread]($) = 1;
      last = uses.end(thread);
    }
    if (last) destroy();
  }
  void destroy() {
    for (unsigned k = 1; k < threads; ++k) RL_ASSERT(used[k]($) == 1);
    RL_ASSERT(used[owner]($) == threads);
    RL_ASSERT(destroyed($) == 0);
    destroyed($) = 1;
  }
  void after() { RL_ASSERT(destroyed($) == 1); }
};

TEST(SplitCountModelTest, UsesAgainstLetGo) {
  expect_holds<UsesAgainstLetGo>();
  expect_caught<UsesAgainstLetGo>({"::end(", Mutation::no_release});
  expect_caught<UsesAgainstLetGo>({"::end(", Mutation::no_acquire});
  expect_caught<UsesAgainstLetGo>({"::let_go(", Mutation::no_acquire});
  expect_caught<UsesAgainstLetGo>({"::let_go(", Mutation::no_release});
  expect_caught<UsesAgainstLetGo>({.omission = Omission::compare});
}

// The device lock (ledger): a thread locks and claims twice; a second thread locks and claims once;
// a third thread locks and does not claim.
struct LedgerIsShared : rl::test_suite<LedgerIsShared, 3> {
  sched::Bias<Env<>> bias;
  rl::mutex mutex;
  rl::var<bool> by_mutex;
  rl::var<unsigned> inside;

  void before() {
    by_mutex($) = false;
    inside($) = 0;
  }
  void after() { RL_ASSERT(inside($) == 4); }
  void thread(unsigned thread) {
    const std::uint64_t me = thread + 1;
    for (unsigned round = 0; round < (thread == 0 ? 2u : 1u); ++round) {
      lock(me);
      inside($) = inside($) + 1;
      const bool late = omitted(Omission::lock);
      if (!late) claim(me);
      unlock();
      if (late) claim(me);
    }
  }
  void claim(std::uint64_t me) {
    if (me < 3 && (omitted(Omission::lock) || by_mutex($))) static_cast<void>(bias.claim(me));
  }
  void lock(std::uint64_t me) {
    if (bias.enter(me)) return;
    mutex.lock($);
    if (!omitted(Omission::recheck) && !bias.is_unclaimed()) bias.revoke();
    by_mutex($) = true;
  }
  void unlock() {
    if (!by_mutex($)) return bias.leave();
    by_mutex($) = false;
    mutex.unlock($);
  }
};

TEST(SplitCountModelTest, LedgerIsShared) {
  expect_holds<LedgerIsShared>();
  expect_caught<LedgerIsShared>({.omission = Omission::recheck});
  expect_caught<LedgerIsShared>({.omission = Omission::lock});
  expect_caught<LedgerIsShared>({"::enter(", Mutation::no_light});
  expect_caught<LedgerIsShared>({"::revoke(", Mutation::no_heavy});
  expect_caught<LedgerIsShared>({"::leave(", Mutation::no_release});
}

}  // namespace
}  // namespace heddle::model
