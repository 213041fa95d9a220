// The lock-free protocols of the scheduler, explored: every schedule with up to three preemptions,
// and many random schedules. Each scenario also runs with omissions, which must be noticed.
#include "tests/model/explore.hpp"

namespace heddle::model {
namespace {

using sched::Bias;
using sched::Doorbell;
using sched::Lane;

// Publishing against going to sleep: the consumer sleeps for ever only if there is no work.
template <Mutation mutation = Mutation::none, Omission omission = Omission::none>
struct SubmitAgainstPark : rl::test_suite<SubmitAgainstPark<mutation, omission>, 3> {
  Doorbell<Env<mutation>> bell;
  Atomic<unsigned, mutation> published[2];
  Flag token;

  bool nothing(unsigned k) const { return published[k].load(std::memory_order_acquire) == 0; }
  void thread(unsigned thread) {
    if (thread < 2) {
      published[thread].store(1, std::memory_order_release);
      if (bell.ring() && omission != Omission::wake) token.raise();
      return;
    }
    for (unsigned k = 0; k < 2; ++k) {
      // Waits for both flags in turn; the second may come first, and a stale token costs a turn.
      while (nothing(k)) {
        bell.park();
        if (omission != Omission::recheck && !nothing(k)) {
          bell.unpark();
        } else if (k == 0) {
          token.wait();
          if (nothing(0)) return;  // the token for the other flag: enough for this scenario
        } else {
          return;
        }
      }
    }
  }
};

// Completing against waiting, while the completer becomes watched and unwatched.
template <Mutation mutation = Mutation::none, Omission omission = Omission::none>
struct CompleteAgainstWait : rl::test_suite<CompleteAgainstWait<mutation, omission>, 2> {
  using Progress = sched::Progress<Env<mutation>, 1>;
  static constexpr std::uint64_t tickets = 4;
  Progress progress;
  Atomic<unsigned> lock;
  rl::var<std::uint64_t> entry;  // stands for calls_; guarded by the lock
  rl::var<unsigned> result[tickets + 1];
  Flag woken[tickets + 1];

  void before() {
    entry($) = Progress::nobody;
    for (auto& r : result) r($) = 0;
  }
  template <class Body>
  void locked(const Body& body) {
    while (lock.exchange(1, std::memory_order_acquire) != 0) rl::yield(1, $);
    body();
    lock.store(0, std::memory_order_release);
  }
  void remove() {
    entry($) = Progress::nobody;
    progress.expect_no_sooner_than(Progress::nobody);
  }
  void thread(unsigned thread) {
    if (thread == 0) {
      for (std::uint64_t ticket = 1; ticket <= tickets; ++ticket) {
        result[ticket]($) = 1;
        if (!progress.advance(ticket)) continue;
        std::uint64_t taken = Progress::nobody;
        locked([&] {
          if (entry($) > ticket) return;
          taken = entry($);
          remove();
        });
        if (taken <= ticket && omission != Omission::wake) woken[taken].raise();
      }
      return;
    }
    for (const std::uint64_t ticket : {std::uint64_t{1}, std::uint64_t{3}}) {
      if (progress.completed() < ticket) {
        bool waits = true;
        locked([&] {
          entry($) = ticket;
          waits = progress.expect(ticket, ticket) || omission == Omission::recheck;
          if (!waits) remove();
        });
        if (waits) woken[ticket].wait();
      }
      if (progress.completed() >= ticket) RL_ASSERT(result[ticket]($) == 1);
    }
  }
};

// A thread attracts the completer while it becomes unwatched: the completer sees the thread's
// earlier writes at the latest at the first ticket that comes afterwards.
template <Mutation mutation = Mutation::none, Omission omission = Omission::none>
struct AttractAgainstAdvance : rl::test_suite<AttractAgainstAdvance<mutation, omission>, 2> {
  sched::Progress<Env<mutation>, 1> progress;
  Atomic<unsigned, mutation> careful;
  Flag attracted;

  void before() {
    RL_ASSERT(progress.expect(9, 9));  // watched at first
  }
  bool seen(std::uint64_t ticket) {
    if (!progress.pass(ticket)) return false;
    progress.look(ticket);
    return careful.load(std::memory_order_acquire) != 0;
  }
  void thread(unsigned thread) {
    if (thread == 0) {
      careful.store(1, std::memory_order_release);
      if (omission != Omission::wake) progress.attract();
      attracted.raise();
      return;
    }
    const bool early = seen(1);
    attracted.wait();
    RL_ASSERT(early || seen(2));
  }
};

// An owner inside against two revokers.
template <Mutation mutation = Mutation::none, Omission omission = Omission::none>
struct EnterAgainstRevoke : rl::test_suite<EnterAgainstRevoke<mutation, omission>, 3> {
  Bias<Env<mutation>> bias;
  rl::var<unsigned> inside;
  Atomic<unsigned> lock;  // among revokers, which share the revoked data by other means

  void before() { inside($) = 0; }
  void thread(unsigned thread) {
    if (thread == 0) {
      for (int k = 0; k < 2; ++k) {
        if (!bias.enter(1) && !(bias.claim(1) && bias.enter(1))) return;
        inside($) = inside($) + 1;
        bias.leave();
      }
      return;
    }
    if (omission != Omission::recheck) bias.revoke();
    while (lock.exchange(1, std::memory_order_acquire) != 0) rl::yield(1, $);
    inside($) = inside($) + 1;
    lock.store(0, std::memory_order_release);
    RL_ASSERT(!bias.enter(1));
  }
};

/// A lane with race detection for slots and tasks: no thread reads a slot while it is written, and
/// a task sees the producer's writes before the submission.
template <Mutation mutation>
struct WatchedLane {
  explicit WatchedLane(std::uint32_t capacity) : lane(capacity) {
    for (auto& s : slots) s($) = 0;
  }

  static void construct(void* /*to*/, void* /*from*/) noexcept {}
  static bool run(void* /*callable*/, Status& /*failure*/) { return true; }
  static void destroy(void* /*callable*/) noexcept {}
  static constexpr sched::TaskOps ops{&construct, &run, &destroy};

  /// 0: refused.
  std::uint64_t try_submit(std::uint64_t me, unsigned value) {
    std::uint64_t ticket = lane.reserve_alone(me);
    if (ticket != 0) {
      ++alone;
    } else {
      ticket = lane.reserve(me, [this] { return completed.load(std::memory_order_acquire); });
    }
    if (ticket == 0) return 0;
    slots[(ticket - 1) % lane.capacity()]($) = value;
    lane.publish(ticket, "", ops, nullptr);
    return ticket;
  }
  std::uint64_t submit(std::uint64_t me, unsigned value) {
    while (true) {
      if (const std::uint64_t ticket = try_submit(me, value)) return ticket;
      rl::yield(1, $);
    }
  }
  unsigned take(std::uint64_t ticket) {
    sched::Found found = lane.look(ticket);
    for (; !found.published(); found = lane.look(ticket)) rl::yield(1, $);
    RL_ASSERT(found.plain() && &found.ops() == &ops);
    const unsigned value = slots[(ticket - 1) % lane.capacity()]($);
    slots[(ticket - 1) % lane.capacity()]($) = 0;
    completed.store(ticket, std::memory_order_release);
    return value;
  }

  Lane<Env<mutation>, 1> lane;  // wraps after two tickets
  Atomic<std::uint64_t, mutation> completed;
  rl::var<unsigned> slots[4];
  unsigned alone = 0;  // tickets taken by plain stores; for scenarios with one producer
};

// One producer on a ring of two: the ring wraps, and is full. Where room is certain, tickets cost
// plain stores.
template <Mutation mutation = Mutation::none, Omission = Omission::none>
struct OneProducerWraps : rl::test_suite<OneProducerWraps<mutation>, 2> {
  std::optional<WatchedLane<mutation>> lane;
  void before() {
    const Outside memory;
    lane.emplace(2);
  }
  void after() {
    const Outside memory;
    RL_ASSERT(lane->alone > 0);
    const std::uint64_t most = lane->lane.outstanding_max();
    RL_ASSERT(most == 1 || most == 2);
    lane.reset();
  }
  void thread(unsigned thread) {
    for (unsigned k = 1; k <= 4; ++k) {
      if (thread == 0) {
        RL_ASSERT(lane->submit(1, k) == k);
      } else {
        RL_ASSERT(lane->take(k) == k);
      }
    }
  }
};

// Two producers, which end the bias; the first producer keeps its own order.
template <Mutation mutation = Mutation::none, Omission = Omission::none>
struct TwoProducers : rl::test_suite<TwoProducers<mutation>, 2> {
  std::optional<WatchedLane<mutation>> lane;
  void before() {
    const Outside memory;
    lane.emplace(4);
  }
  void after() {
    const Outside memory;
    unsigned sum = 0;
    for (std::uint64_t ticket = 1; ticket <= 3; ++ticket) sum += lane->take(ticket);
    RL_ASSERT(sum == 1 + 2 + 11);
    lane.reset();
  }
  void thread(unsigned thread) {
    const std::uint64_t first = lane->submit(thread + 1, 10 * thread + 1);
    if (thread == 0) RL_ASSERT(first < lane->submit(1, 2));
  }
};

// Closing against submitting: no ticket is added to the tickets taken before the close.
template <Mutation mutation = Mutation::none, Omission = Omission::none>
struct CloseAgainstSubmit : rl::test_suite<CloseAgainstSubmit<mutation>, 2> {
  std::optional<WatchedLane<mutation>> lane;
  std::uint64_t accepted = 0, last = 0;  // read in after()
  void before() {
    const Outside memory;
    lane.emplace(4);
    accepted = last = 0;
  }
  void after() {
    const Outside memory;
    RL_ASSERT(lane->lane.closed() && lane->lane.tickets() == last && accepted == last);
    for (unsigned k = 1; k <= last; ++k) RL_ASSERT(lane->take(k) == k);
    lane.reset();
  }
  void thread(unsigned thread) {
    if (thread == 0) {
      while (accepted < 2 && lane->try_submit(1, static_cast<unsigned>(accepted + 1))) ++accepted;
    } else {
      lane->lane.close();
      last = lane->lane.tickets();
    }
  }
};

TEST(ModelTest, SubmitAgainstPark) {
  expect_holds<SubmitAgainstPark<>>();
  expect_holds<SubmitAgainstPark<Mutation::symmetric>>();
  expect_caught<SubmitAgainstPark<Mutation::no_light>>();
  expect_caught<SubmitAgainstPark<Mutation::no_heavy>>();
  expect_caught<SubmitAgainstPark<Mutation::none, Omission::recheck>>();
  expect_caught<SubmitAgainstPark<Mutation::none, Omission::wake>>();
}

TEST(ModelTest, CompleteAgainstWait) {
  expect_holds<CompleteAgainstWait<>>();
  expect_holds<CompleteAgainstWait<Mutation::symmetric>>();
  expect_caught<CompleteAgainstWait<Mutation::no_light>>();
  expect_caught<CompleteAgainstWait<Mutation::no_heavy>>();
  expect_caught<CompleteAgainstWait<Mutation::no_release>>();
  expect_caught<CompleteAgainstWait<Mutation::no_acquire>>();
  expect_caught<CompleteAgainstWait<Mutation::none, Omission::recheck>>();
  expect_caught<CompleteAgainstWait<Mutation::none, Omission::wake>>();
}

TEST(ModelTest, AttractAgainstAdvance) {
  expect_holds<AttractAgainstAdvance<>>();
  expect_holds<AttractAgainstAdvance<Mutation::symmetric>>();
  expect_caught<AttractAgainstAdvance<Mutation::no_release>>();
  expect_caught<AttractAgainstAdvance<Mutation::no_acquire>>();
  expect_caught<AttractAgainstAdvance<Mutation::none, Omission::wake>>();
}

TEST(ModelTest, EnterAgainstRevoke) {
  expect_holds<EnterAgainstRevoke<>>();
  expect_caught<EnterAgainstRevoke<Mutation::no_light>>();
  expect_caught<EnterAgainstRevoke<Mutation::no_heavy>>();
  expect_caught<EnterAgainstRevoke<Mutation::no_release>>();
  expect_caught<EnterAgainstRevoke<Mutation::no_acquire>>();
  expect_caught<EnterAgainstRevoke<Mutation::none, Omission::recheck>>();
}

TEST(ModelTest, OneProducerWraps) {
  expect_holds<OneProducerWraps<>>();
  expect_caught<OneProducerWraps<Mutation::no_release>>();
  expect_caught<OneProducerWraps<Mutation::no_acquire>>();
}

TEST(ModelTest, TwoProducers) {
  expect_holds<TwoProducers<>>();
  expect_holds<TwoProducers<Mutation::symmetric>>();
  expect_caught<TwoProducers<Mutation::no_light>>();
  expect_caught<TwoProducers<Mutation::no_heavy>>();
}

TEST(ModelTest, CloseAgainstSubmit) {
  expect_holds<CloseAgainstSubmit<>>();
  expect_holds<CloseAgainstSubmit<Mutation::symmetric>>();
  expect_caught<CloseAgainstSubmit<Mutation::no_light>>();
  expect_caught<CloseAgainstSubmit<Mutation::no_heavy>>();
}

}  // namespace
}  // namespace heddle::model
