// Teams: the shipped ForkJoin, Doorbells and Assignment, with the sequences of Team and Crew, which
// are no templates.
#include "scheduler/protocol/assignment.hpp"
#include "scheduler/protocol/doorbells.hpp"
#include "scheduler/protocol/fork_join.hpp"
#include "tests/model/waiting.hpp"

namespace heddle::model {
namespace {

/// Read by members after they claimed a part; only the protocol orders the reads.
struct Job {
  mutable rl::var<unsigned> number;
  Job& operator=(const Job& from) {
    number($) = from.number($);
    return *this;
  }
};

/// At most two jobs, of up to three parts that can be claimed.
struct Parts {
  rl::var<unsigned> runs[2][3];

  void begin() {
    for (auto& job : runs)
      for (auto& part : job) part($) = 0;
  }
  void run(unsigned job, std::uint32_t left) {
    auto& part = runs[job][left - 1];
    RL_ASSERT(part($) == 0);
    part($) = 1;
  }
  /// The number of parts of the job that ran; the end of the job orders the reads.
  unsigned ran(unsigned job) {
    unsigned sum = 0;
    for (auto& part : runs[job]) sum += part($);
    return sum;
  }
};

struct Work {
  sched::ForkJoin<Job, Env<>> fork_join;
  Job next;
  Parts parts;

  void begin() { parts.begin(); }
  /// Team::help(), without looks at other conditions: at most `claims` parts.
  void help(unsigned claims) {
    const bool early = omitted(Omission::order);
    unsigned job = early ? fork_join.job().number($) : 0;
    std::uint32_t left = fork_join.is_open() ? fork_join.claim() : 0;
    if (left == 0) return;
    if (!early) job = fork_join.job().number($);
    std::uint32_t ran = 0;
    do {
      parts.run(job, left);
      ++ran;
      left = left == 1 || ran == claims ? 0 : fork_join.claim();
    } while (left != 0);
    if (!omitted(Omission::note)) RL_ASSERT(!fork_join.end(ran, 0));
  }
  /// Team::run_together().
  void run(unsigned job, std::uint32_t count) {
    next.number($) = job;
    std::uint32_t outstanding = count;
    fork_join.publish(next, count);
    while (fork_join.ended() != outstanding) {
      const std::uint32_t left = fork_join.claim();
      if (left == 0) break;
      parts.run(job, left);
      --outstanding;
    }
    if (!omitted(Omission::recheck))
      while (fork_join.ended() != outstanding) pause();
    RL_ASSERT(fork_join.take_dropped() == 0);
    RL_ASSERT(parts.ran(job) == count);
  }
};

// Two jobs, one after another; helpers may have looked at the first job while they claim parts of
// the second. Every part runs once, on the fields of its own job, and before the owner continues.
struct JobsAndHelpers : rl::test_suite<JobsAndHelpers, 3>, Work {
  void before() { begin(); }
  void thread(unsigned thread) {
    if (thread != 0) {
      help(2);
      if (thread == 1) help(1);
      return;
    }
    for (unsigned job = 0; job < 2; ++job) {
      RL_ASSERT(fork_join.try_begin());
      run(job, 3 - job);
      fork_join.finish();
    }
  }
};

TEST(TeamModelTest, JobsAndHelpers) {
  expect_holds<JobsAndHelpers>();
  expect_caught<JobsAndHelpers>({"::publish(", Mutation::no_release});
  expect_caught<JobsAndHelpers>({"::claim(", Mutation::no_acquire});
  expect_caught<JobsAndHelpers>({"::claim(", Mutation::no_exchange});
  expect_caught<JobsAndHelpers>({"::claim(", Mutation::drop});
  expect_caught<JobsAndHelpers>({"::end(", Mutation::no_release});
  expect_caught<JobsAndHelpers>({"::end(", Mutation::no_exchange});
  expect_caught<JobsAndHelpers>({"::ended(", Mutation::no_acquire});
  expect_caught<JobsAndHelpers>({.omission = Omission::order});
  expect_caught<JobsAndHelpers>({.omission = Omission::recheck});
  expect_caught<JobsAndHelpers>({.omission = Omission::note});
}

// Two threads try to be the owner, and a third thread helps.
struct TwoOwners : rl::test_suite<TwoOwners, 3>, Work {
  rl::var<unsigned> alone[2];

  void before() {
    begin();
    for (auto& ran : alone) ran($) = 0;
  }
  void thread(unsigned thread) {
    if (thread == 2) return help(1);
    if (!fork_join.try_begin()) {
      alone[thread]($) = 1;
      return;
    }
    run(thread, 2);
    fork_join.finish();
  }
  void after() {
    for (unsigned job = 0; job < 2; ++job) RL_ASSERT(parts.ran(job) + 2 * alone[job]($) == 2);
    RL_ASSERT(fork_join.try_begin());
  }
};

TEST(TeamModelTest, TwoOwners) {
  expect_holds<TwoOwners>();
  expect_caught<TwoOwners>({"::try_begin(", Mutation::no_acquire});
  expect_caught<TwoOwners>({"::try_begin(", Mutation::no_exchange});
  expect_caught<TwoOwners>({"::finish(", Mutation::no_release});
  expect_caught<TwoOwners>({"::finish(", Mutation::no_lower});
}

// Two helpers and the owner drop the remaining parts. The owner learns of every part that did not
// run, and no dropped part appears in the next job.
struct DropTheRest : rl::test_suite<DropTheRest, 3>, Work {
  void before() { begin(); }
  void thread(unsigned thread) {
    if (thread != 0) {
      if (!fork_join.is_open() || fork_join.claim() == 0) return;
      const std::uint32_t rest = fork_join.claim_rest();
      (void)fork_join.end(rest + 1, omitted(Omission::note) ? rest : rest + 1);
      return;
    }
    for (unsigned job = 0; job < 2; ++job) {
      RL_ASSERT(fork_join.try_begin());
      next.number($) = job;
      fork_join.publish(next, 3);
      std::uint32_t outstanding = 3, dropped = 0, ran = 0;
      if (fork_join.claim() != 0) {
        ++ran;
        dropped = fork_join.claim_rest();
        outstanding -= dropped + 1;
      }
      while (fork_join.ended() != outstanding) pause();
      dropped += fork_join.take_dropped();
      RL_ASSERT(ran + dropped == 3);
      fork_join.finish();
    }
  }
};

TEST(TeamModelTest, DropTheRest) {
  expect_holds<DropTheRest>();
  expect_caught<DropTheRest>({"::claim_rest(", Mutation::no_exchange});
  expect_caught<DropTheRest>({"::claim_rest(", Mutation::drop});
  expect_caught<DropTheRest>({"::end(", Mutation::no_release});
  expect_caught<DropTheRest>({"::end(", Mutation::no_exchange});
  expect_caught<DropTheRest>({"::take_dropped(", Mutation::drop});
  expect_caught<DropTheRest>({.omission = Omission::note});
}

// The owner sleeps until both helpers have ended their part, then begins another job without
// helpers.
struct OwnerSleeps : rl::test_suite<OwnerSleeps, 3>, Work {
  Token token;
  Flag published, second;

  void before() { begin(); }
  void thread(unsigned thread) {
    if (thread != 0) {
      published.wait();
      const std::uint32_t left = fork_join.claim();
      parts.run(0, left);
      if (fork_join.end(1, 0) && !omitted(Omission::wake)) token.unpark();
      if (thread != 1) return;
      second.wait();
      RL_ASSERT(fork_join.claim() == 1);
      RL_ASSERT(!fork_join.end(1, 0));
      return;
    }
    RL_ASSERT(fork_join.try_begin());
    next.number($) = 0;
    fork_join.publish(next, 2);
    published.raise();
    if (omitted(Omission::recheck)) {
      (void)fork_join.sleep();
      token.park();
    }
    while (fork_join.sleep() != 2) token.park();
    fork_join.wake();
    RL_ASSERT(parts.ran(0) == 2);
    fork_join.publish(next, 1);
    second.raise();
    while (fork_join.ended() != 1) pause();
  }
};

TEST(TeamModelTest, OwnerSleeps) {
  expect_holds<OwnerSleeps>();
  expect_caught<OwnerSleeps>({"::sleep(", Mutation::no_acquire});
  expect_caught<OwnerSleeps>({"::sleep(", Mutation::no_exchange});
  expect_caught<OwnerSleeps>({"::sleep(", Mutation::drop});
  expect_caught<OwnerSleeps>({"::wake(", Mutation::drop});
  expect_caught<OwnerSleeps>({.omission = Omission::recheck});
  expect_caught<OwnerSleeps>({.omission = Omission::wake});
}

// One thread publishes work for one sleeper, twice, then for every sleeper; two threads sleep when
// they find no work. The publisher wakes as many sleepers as there is work for, and no work is
// missed.
template <Mutation mutation>
struct SleepersAreWoken : rl::test_suite<SleepersAreWoken<mutation>, 3> {
  sched::Doorbells<Env<mutation>> bells;
  Atomic<int> left;
  Atomic<unsigned> over;
  Flag found[2];
  Token tokens[2];

  void thread(unsigned thread) {
    if (thread != 0) return sleep(thread - 1);
    for (const Flag& flag : found) {
      left.store(1, std::memory_order_release);
      RL_ASSERT(wake(1) <= 1);
      flag.wait();
    }
    over.store(1, std::memory_order_release);
    (void)wake(2);
  }
  unsigned wake(unsigned count) {
    if (bells.quiet()) return 0;
    unsigned woken = 0;
    for (std::uint64_t taken = bells.take(bells.sleepers(), count); taken != 0;
         taken &= taken - 1) {
      if (!omitted(Omission::wake)) tokens[std::countr_zero(taken)].unpark();
      ++woken;
    }
    return woken;
  }
  bool is_over() const { return over.load(std::memory_order_acquire) != 0; }
  bool nothing() const { return left.load(std::memory_order_relaxed) <= 0 && !is_over(); }
  void sleep(unsigned place) {
    unsigned claims = 0;
    while (!is_over()) {
      if (left.load(std::memory_order_relaxed) > 0 &&
          left.fetch_sub(1, std::memory_order_acquire) > 0) {
        found[found[0].raised() ? 1 : 0].raise();
        if (++claims == 2) return;
        continue;
      }
      bells.park(place);
      if (nothing() || omitted(Omission::recheck)) tokens[place].park();
      bells.unpark(place);
    }
  }
};
using AsymmetricSleepers = SleepersAreWoken<Mutation::none>;
using SymmetricSleepers = SleepersAreWoken<Mutation::symmetric>;

TEST(TeamModelTest, SleepersAreWoken) {
  expect_holds<AsymmetricSleepers>(-2);
  expect_caught<AsymmetricSleepers>({"::quiet(", Mutation::no_light});
  expect_caught<AsymmetricSleepers>({"::park(", Mutation::no_heavy});
  expect_caught<AsymmetricSleepers>({"::park(", Mutation::drop});
  expect_caught<AsymmetricSleepers>({.omission = Omission::recheck});
  expect_caught<AsymmetricSleepers>({.omission = Omission::wake});
  expect_holds<SymmetricSleepers>(-2);
  expect_caught<SymmetricSleepers>({"::sleepers(", Mutation::no_release});
  expect_caught<SymmetricSleepers>({"::sleepers(", Mutation::no_exchange});
  expect_caught<SymmetricSleepers>({"::park(", Mutation::no_acquire});
  expect_caught<SymmetricSleepers>({"::unpark(", Mutation::clears});
}

// A sleeper is woken once for each time that it parks, and a sleeper that got up by itself is not
// woken.
struct WokenOnce : rl::test_suite<WokenOnce, 1> {
  sched::Doorbells<Env<>> bells;

  void thread(unsigned /*thread*/) {
    for (const unsigned place : {5u, 0u, 62u}) bells.park(place);
    RL_ASSERT(!bells.quiet());
    RL_ASSERT(bells.take(bells.sleepers(), 0) == 0);
    RL_ASSERT(bells.take(bells.sleepers(), 2) == 0b100001);
    RL_ASSERT(bells.take(0b100001, 2) == 0);
    bells.park(5);
    bells.unpark(5);
    RL_ASSERT(bells.take(bells.sleepers(), 3) == std::uint64_t{1} << 62);
    RL_ASSERT(bells.quiet());
  }
};

TEST(TeamModelTest, WokenOnce) {
  expect_holds<WokenOnce>();
  expect_caught<WokenOnce>({"::take(", Mutation::drop});
  expect_caught<WokenOnce>({"::unpark(", Mutation::drop});
  expect_caught<WokenOnce>({"::unpark(", Mutation::clears});
}

/// An object that a helper may be told to serve; destroyed once no hold is left.
struct Thing {
  rl::var<unsigned> alive;
  Atomic<unsigned> holds;
  void make() {
    alive($) = 1;
    holds.store(1, std::memory_order_relaxed);
  }
  void let_go() { holds.fetch_sub(1, std::memory_order_release); }
  void destroy() {
    while (holds.load(std::memory_order_acquire) != 0) pause();
    alive($) = 0;
  }
};

// A helper is assigned one object, another object, and none; an object is destroyed once the next
// assignment was made. Whether or not the helper took an object, one of the two threads releases
// it.
struct ThingsGo : rl::test_suite<ThingsGo, 2> {
  Thing things[2];
  sched::Assignment<Thing, Env<>> assignment;

  void thread(unsigned thread) {
    if (thread == 1) {
      for (int looks = 0; looks < 3; ++looks) serve();
      return;
    }
    things[0].make();
    RL_ASSERT(!assignment.assign(&things[0]));
    things[1].make();
    go_on(0, &things[1]);
    go_on(1, nullptr);
  }
  void go_on(unsigned from, Thing* to) {
    const bool untaken = assignment.assign(to);
    if (untaken && !omitted(Omission::hand_on)) things[from].let_go();
    things[from].destroy();
  }
  void serve() {
    Thing* const thing = assignment.take();
    if (thing == nullptr) return;
    RL_ASSERT(thing->alive($) == 1);
    while (assignment.stays()) pause();
    RL_ASSERT(thing->alive($) == 1);
    thing->let_go();
  }
};

TEST(TeamModelTest, ThingsGo) {
  expect_holds<ThingsGo>(2);
  expect_caught<ThingsGo>({"::assign(", Mutation::no_release});
  expect_caught<ThingsGo>({"::assign(", Mutation::no_exchange});
  expect_caught<ThingsGo>({"::take(", Mutation::no_acquire});
  expect_caught<ThingsGo>({"::take(", Mutation::no_exchange});
  expect_caught<ThingsGo>({"::take(", Mutation::drop});
  expect_caught<ThingsGo>({.omission = Omission::hand_on});
}

}  // namespace
}  // namespace heddle::model
