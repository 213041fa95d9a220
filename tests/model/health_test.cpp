// Poison, recovery and cancels against submissions and waits: the shipped Health and Progress in
// the sequences of DeviceCore. Tickets are a plain counter here; the lane has scenarios of its own.
#include "scheduler/protocol/health.hpp"

#include "tests/model/waiting.hpp"

namespace heddle::model {
namespace {

constexpr unsigned tickets_max = 4;
enum Ended : unsigned { not_yet, done, failed, skipped, cancelled, stopped_itself };

/// A device; the threads of a scenario are its hosts and its worker.
struct Device {
  Device() {
    for (auto& e : ended) e($) = not_yet;
    reason($) = 0;
    source($) = 0;
    source_used($) = false;
  }

  // Producers: submit() and submit_carefully(). 0: refused.

  std::uint64_t submit() {
    if (!health.plain() && refused()) return 0;
    const std::uint64_t ticket = tickets.fetch_add(1, std::memory_order_acq_rel) + 1;
    published[ticket].store(1, std::memory_order_release);
    return ticket;
  }
  bool refused() { return health.poisoned() && read_reason() != 0; }
  std::uint64_t read_reason() {
    control.lock($);
    const std::uint64_t why = reason($);
    control.unlock($);
    return why;
  }

  // The consumer: step(), once the ticket is published. The consumer ends plain tasks in a row,
  // until a reason comes to look around.

  /// The task stops when asked to, if `heeds_stop`, once `until` is raised.
  void step(std::uint64_t ticket, std::uint64_t failing = 0, const Flag* until = nullptr,
            bool heeds_stop = true) {
    while (published[ticket].load(std::memory_order_acquire) == 0) pause();
    if (!in_a_row && health.careful() && !omitted(Omission::recheck)) {
      control.lock($);
      health.settle(ticket - 1);
      control.unlock($);
      if (health.cancelled(ticket)) return end(ticket, cancelled);
      if (refused()) return end(ticket, skipped);
    }
    if (until != nullptr) until->wait();
    if (heeds_stop && stopped[source_of(ticket)].load(std::memory_order_relaxed) != 0)
      return end(ticket, stopped_itself);
    if (ticket != failing) return end(ticket, done);
    if (omitted(Omission::order)) timeline.complete(ticket);
    in_a_row = false;
    ended[ticket]($) = failed;
    control.lock($);
    reason($) = ticket;
    health.poison();
    control.unlock($);
    if (!omitted(Omission::order)) timeline.complete(ticket);
  }
  void end(std::uint64_t ticket, Ended how) {
    ended[ticket]($) = how;
    in_a_row = !timeline.complete(ticket) || !health.careful();
    if (how != done) in_a_row = false;
  }
  /// stop_token()
  unsigned source_of(std::uint64_t ticket) {
    control.lock($);
    if (source_used($) && (!health.cancelled(ticket) || omitted(Omission::compare))) {
      source($) = source($) + 1;
      source_used($) = false;
    }
    const unsigned found = source($);
    control.unlock($);
    return found;
  }

  // Controllers: recover() and cancel_pending().

  void recover(unsigned slot) {
    if (omitted(Omission::order) && !health.poisoned()) return;
    control.lock($);
    const unsigned epoch_before = epoch;
    const bool poisoned = omitted(Omission::order) || health.poisoned();
    control.unlock($);
    if (!poisoned) return;
    const std::uint64_t last = tickets.load(std::memory_order_acquire);
    if (!omitted(Omission::recheck)) timeline.wait(last, slot);
    if (!omitted(Omission::lock)) control.lock($);
    if (epoch == epoch_before && health.poisoned()) {
      RL_ASSERT(reason($) <= last);  // no failure after the begin of this call
      reason($) = 0;
      ++epoch;
      health.heal();
      // As if the recovery also cleared the flags that the consumer must look for.
      if (omitted(Omission::hand_on)) health.settle(~std::uint64_t{0});
    }
    if (!omitted(Omission::lock)) control.unlock($);
  }
  /// Returns the last cancelled ticket.
  std::uint64_t cancel() {
    if (!omitted(Omission::lock)) control.lock($);
    unsigned running = source($);
    source_used($) = !omitted(Omission::note);
    const std::uint64_t upto = tickets.load(std::memory_order_acquire);
    health.cancel(upto);
    if (!omitted(Omission::wake)) timeline.attract();
    if (!omitted(Omission::lock)) control.unlock($);
    if (omitted(Omission::order)) running = source($);
    stopped[running].store(1, std::memory_order_relaxed);
    return upto;
  }

  sched::Health<Env<>> health{true, false};
  Waiters<2> timeline;
  Atomic<std::uint64_t> tickets;
  Atomic<unsigned> published[tickets_max + 1];
  rl::var<unsigned> ended[tickets_max + 1];
  Atomic<unsigned> stopped[3];  // by stop source
  rl::mutex control;
  // the failed ticket; guarded by `control`, as are the next members
  rl::var<std::uint64_t> reason;
  unsigned epoch = 1;
  bool in_a_row = false;  // used by the consumer
  rl::var<unsigned> source;
  rl::var<bool> source_used;
};

// The first of two queued tasks fails. A thread that awaits the task sees the failure; later tasks
// are skipped, and submissions meanwhile are refused because of the failure, or skipped.
struct PoisonAgainstAwait : rl::test_suite<PoisonAgainstAwait, 3> {
  Device device;
  Flag submitted;
  std::uint64_t third = 0;

  void before() {
    third = 0;
    RL_ASSERT(device.submit() == 1 && device.submit() == 2);
  }
  void thread(unsigned thread) {
    if (thread == 0) {
      device.step(1, 1);
      device.step(2);
      submitted.wait();
      if (third != 0) device.step(third);
    } else if (thread == 1) {
      device.timeline.wait(1, 0);
      RL_ASSERT(device.ended[1]($) == failed);
      RL_ASSERT(!device.health.plain() && device.refused());
    } else {
      const bool plain = device.health.plain();
      if (!plain) RL_ASSERT(device.refused());
      third = device.submit();
      submitted.raise();
    }
  }
  void after() {
    RL_ASSERT(device.ended[2]($) == skipped);
    RL_ASSERT(third == 0 || device.ended[third]($) == skipped);
  }
};

TEST(HealthModelTest, PoisonAgainstAwait) {
  expect_holds<PoisonAgainstAwait>();
  expect_caught<PoisonAgainstAwait>({"::pass(", Mutation::no_release});
  expect_caught<PoisonAgainstAwait>({"::poison(", Mutation::no_release});
  expect_caught<PoisonAgainstAwait>({"::plain(", Mutation::no_acquire});
  expect_caught<PoisonAgainstAwait>({.omission = Omission::order});
  expect_caught<PoisonAgainstAwait>({.omission = Omission::recheck});
  expect_caught<PoisonAgainstAwait>({.omission = Omission::wake});
}

// A task has failed and another task is queued, and is skipped; tasks accepted from then on run.
struct RecoverAgainstSubmit : rl::test_suite<RecoverAgainstSubmit, 3> {
  Device device;
  Flag submitted;
  std::uint64_t of_producer = 0;

  void before() {
    of_producer = 0;
    RL_ASSERT(device.submit() == 1 && device.submit() == 2);
    device.step(1, 1);
  }
  void thread(unsigned thread) {
    if (thread == 0) {
      device.step(2);
      device.step(3);
      submitted.wait();
      if (of_producer != 0) device.step(4);
    } else if (thread == 1) {
      device.recover(0);
      RL_ASSERT(device.ended[1]($) == failed && device.ended[2]($) == skipped);
      RL_ASSERT(device.submit() != 0);
    } else {
      of_producer = device.submit();
      submitted.raise();
    }
  }
  void after() {
    RL_ASSERT(device.ended[3]($) == done);
    RL_ASSERT(of_producer == 0 || device.ended[4]($) == done);
    RL_ASSERT(device.health.plain());  // submissions cost no more than before
  }
};

TEST(HealthModelTest, RecoverAgainstSubmit) {
  expect_holds<RecoverAgainstSubmit>();
  expect_caught<RecoverAgainstSubmit>({"::pass(", Mutation::no_release});
  expect_caught<RecoverAgainstSubmit>({.omission = Omission::recheck});
  expect_caught<RecoverAgainstSubmit>({.omission = Omission::lock});
  expect_caught<RecoverAgainstSubmit>({.omission = Omission::wake});
}

// Two hosts recover from one failure; the first host then submits a failing task, and a further
// task. The second host does not mistake the second failure for the first.
struct TwoRecover : rl::test_suite<TwoRecover, 3> {
  Device device;

  void before() {
    RL_ASSERT(device.submit() == 1);
    device.step(1, 1);
  }
  void thread(unsigned thread) {
    if (thread == 0) return device.step(2, 2);
    device.recover(thread - 1);
    if (thread == 1) RL_ASSERT(device.submit() == 2);
  }
};

TEST(HealthModelTest, TwoRecover) {
  expect_holds<TwoRecover>();
  expect_caught<TwoRecover>({.omission = Omission::order});
  expect_caught<TwoRecover>({.omission = Omission::lock});
  expect_caught<TwoRecover>({.omission = Omission::wake});
}

// Three tasks are queued and cancelled, twice, before the second task ends. The third task does not
// begin; the task submitted afterwards begins, and is not asked to stop. Then the device is healthy
// again.
struct CancelAgainstStep : rl::test_suite<CancelAgainstStep, 2> {
  Device device;
  Flag all_cancelled;

  void before() {
    for (std::uint64_t ticket = 1; ticket <= 3; ++ticket) RL_ASSERT(device.submit() == ticket);
  }
  void thread(unsigned thread) {
    if (thread == 0) {
      device.step(1);
      device.step(2, 0, &all_cancelled, false);
      device.step(3);
      device.step(4);
    } else {
      device.cancel();
      device.cancel();
      all_cancelled.raise();
      RL_ASSERT(device.submit() == 4);
    }
  }
  void after() {
    RL_ASSERT(device.ended[3]($) == cancelled && device.ended[4]($) == done);
    RL_ASSERT(!device.health.careful());
  }
};

TEST(HealthModelTest, CancelAgainstStep) {
  expect_holds<CancelAgainstStep>();
  expect_caught<CancelAgainstStep>({.omission = Omission::recheck});
  expect_caught<CancelAgainstStep>({.omission = Omission::lock});
  expect_caught<CancelAgainstStep>({.omission = Omission::wake});
}

// A running task, or one about to run, is cancelled. The task does not begin, or is asked to stop,
// even if it checks for the request only later.
struct CancelRunning : rl::test_suite<CancelRunning, 2> {
  Device device;
  Flag is_cancelled;

  void before() { RL_ASSERT(device.submit() == 1); }
  void thread(unsigned thread) {
    if (thread == 0) return device.step(1, 0, &is_cancelled);
    device.cancel();
    is_cancelled.raise();
  }
  void after() {
    const unsigned how = device.ended[1]($);
    RL_ASSERT(how == cancelled || how == stopped_itself);
  }
};

TEST(HealthModelTest, CancelRunning) {
  expect_holds<CancelRunning>();
  expect_caught<CancelRunning>({.omission = Omission::compare});
}

// A task fails. One host recovers; the submission of another host was on its way, is accepted
// behind the failed task, and is cancelled. However late the worker reaches the submitted task, it
// does not run.
struct CancelAgainstRecover : rl::test_suite<CancelAgainstRecover, 3> {
  Device device;
  Flag is_cancelled;
  std::uint64_t second = 0;

  void before() {
    second = 0;
    RL_ASSERT(device.submit() == 1);
  }
  void thread(unsigned thread) {
    if (thread == 0) {
      device.step(1, 1);
      is_cancelled.wait();
      if (second != 0) device.step(second);
    } else if (thread == 1) {
      device.timeline.wait(1, 0);
      device.recover(0);
    } else {
      second = device.submit();
      if (second != 0) device.cancel();
      is_cancelled.raise();
    }
  }
  void after() {
    if (second == 0) return;
    const unsigned how = device.ended[second]($);
    RL_ASSERT(how == cancelled || how == skipped);
  }
};

TEST(HealthModelTest, CancelAgainstRecover) {
  expect_holds<CancelAgainstRecover>();
  expect_caught<CancelAgainstRecover>({.omission = Omission::hand_on});
}

// A recovered device still checks its next task. A cancel that came before that task's ticket, and
// is noted while the worker checks, affects no task after the cancel.
struct CancelBeforeNextTask : rl::test_suite<CancelBeforeNextTask, 3> {
  Device device;
  std::uint64_t upto = 0;

  void before() {
    RL_ASSERT(device.submit() == 1);
    device.step(1, 1);
    device.recover(0);
  }
  void thread(unsigned thread) {
    if (thread == 0) {
      device.step(2);
      device.step(3);
    } else if (thread == 1) {
      RL_ASSERT(device.submit() == 2 && device.submit() == 3);
    } else {
      upto = device.cancel();
    }
  }
  void after() {
    if (upto == 1) RL_ASSERT(device.ended[2]($) == done && device.ended[3]($) == done);
  }
};

TEST(HealthModelTest, CancelBeforeNextTask) {
  expect_holds<CancelBeforeNextTask>();
  expect_caught<CancelBeforeNextTask>({.omission = Omission::order});
  expect_caught<CancelBeforeNextTask>({.omission = Omission::note});
}

// A host cancels an idle device, and submits. The worker, which runs tasks in a row, may not have
// looked around: even then the submitted task is not asked to stop.
struct CancelThenSubmit : rl::test_suite<CancelThenSubmit, 2> {
  Device device;

  void before() { RL_ASSERT(device.submit() == 1); }
  void thread(unsigned thread) {
    if (thread == 0) {
      device.step(1);
      device.step(2);
    } else {
      device.timeline.wait(1, 0);
      device.cancel();
      RL_ASSERT(device.submit() == 2);
    }
  }
  void after() { RL_ASSERT(device.ended[2]($) == done); }
};

TEST(HealthModelTest, CancelThenSubmit) {
  expect_holds<CancelThenSubmit>();
  expect_caught<CancelThenSubmit>({.omission = Omission::note});
}

}  // namespace
}  // namespace heddle::model
