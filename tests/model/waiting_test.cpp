// Waiting for a ticket: across devices, for a slot of a full queue, and suspended in a fiber.
#include "tests/model/waiting.hpp"

namespace heddle::model {
namespace {

// Two devices whose tasks wait for one another in turn, and a host that waits for the last task:
// A's first task; B's task, which comes after A's first; A's second task, which comes after B's.
struct WaitAcrossDevices : rl::test_suite<WaitAcrossDevices, 3> {
  Waiters<2> a;
  Waiters<1> b;
  rl::var<unsigned> data;

  void before() { data($) = 0; }
  void thread(unsigned thread) {
    if (thread == 0) {
      data($) = 1;
      a.complete(1);
      b.wait(1, 0);
      RL_ASSERT(data($) == 2);
      data($) = 3;
      a.complete(2);
    } else if (thread == 1) {
      a.wait(1, 0);
      RL_ASSERT(data($) == 1);
      data($) = 2;
      b.complete(1);
    } else {
      a.wait(2, 1);
      RL_ASSERT(data($) == 3);
    }
  }
};

TEST(WaitingModelTest, WaitAcrossDevices) {
  expect_holds<WaitAcrossDevices>();
  expect_caught<WaitAcrossDevices>({"::pass(", Mutation::no_light});
  expect_caught<WaitAcrossDevices>({"::expect(", Mutation::no_heavy});
  expect_caught<WaitAcrossDevices>({"::pass(", Mutation::no_release});
  expect_caught<WaitAcrossDevices>({"::completed(", Mutation::no_acquire});
  expect_caught<WaitAcrossDevices>({"::look(", Mutation::no_seq_cst});
  expect_caught<WaitAcrossDevices>({.omission = Omission::recheck});
  expect_caught<WaitAcrossDevices>({.omission = Omission::wake});
}

// A full queue of one task: a submitting thread waits for the task in the slot, and tries again.
// Another producer, if there is one, tries once, and may take the slot first.
template <unsigned producers>
struct WaitForSlot : rl::test_suite<WaitForSlot<producers>, producers + 1> {
  std::optional<sched::Lane<Env<>, 1>> lane;
  std::optional<Waiters<1>> timeline;
  rl::var<std::uint64_t> slot;

  void before() {
    const Outside memory;
    lane.emplace(1);
    timeline.emplace();
    slot($) = 0;
    RL_ASSERT(try_submit(0));
    if (producers == 2) RL_ASSERT(!try_submit(1));  // ends the bias
  }
  void after() {
    const Outside memory;
    RL_ASSERT(timeline->completed() == 2);
    lane.reset();
    timeline.reset();
  }
  bool try_submit(unsigned me) {
    const std::uint64_t ticket = lane->reserve(me + 1, [this] { return timeline->completed(); });
    if (ticket == 0) return false;
    RL_ASSERT(slot($) == 0);
    slot($) = ticket;
    lane->publish(ticket, "", no_task, nullptr);
    return true;
  }
  void submit(unsigned me) {
    while (!try_submit(me)) {
      // As make_room(): by now the slot may be free, or taken by another producer.
      const std::uint64_t taken = lane->tickets();
      if (taken >= lane->capacity()) timeline->wait(taken - lane->capacity() + 1, me);
    }
  }
  void thread(unsigned thread) {
    if (thread == 0) {
      for (unsigned k = producers; k <= 2; ++k) submit(0);
    } else if (thread < producers) {
      (void)try_submit(thread);
    } else {
      for (std::uint64_t ticket = 1; ticket <= 2; ++ticket) {
        while (!lane->look(ticket).published()) pause();
        RL_ASSERT(slot($) == ticket);
        slot($) = 0;
        timeline->complete(ticket);
      }
    }
  }
};

template <class Scenario>
void expect_slots_handed_on() {
  expect_holds<Scenario>();
  expect_caught<Scenario>({"::pass(", Mutation::no_light});
  expect_caught<Scenario>({"::expect(", Mutation::no_heavy});
  expect_caught<Scenario>({"::pass(", Mutation::no_release});
  expect_caught<Scenario>({"::publish_head(", Mutation::no_release});
  expect_caught<Scenario>({.omission = Omission::recheck});
  expect_caught<Scenario>({.omission = Omission::wake});
}
TEST(WaitingModelTest, WaitForSlot) { expect_slots_handed_on<WaitForSlot<1>>(); }
TEST(WaitingModelTest, TwoWaitForSlot) { expect_slots_handed_on<WaitForSlot<2>>(); }

// A task on a fiber waits for two events in turn, whose ends call the same waker, so wakes may be
// superfluous; threads that end a wait continue the task, one thread at a time.
struct SuspendAgainstResume : rl::test_suite<SuspendAgainstResume, 3> {
  sched::Parking<Env<>> parking;
  rl::var<unsigned> frame;  // the fiber's stack: the number of events that the task has seen
  rl::var<unsigned> result[2];
  Flag done[2];

  void before() { frame($) = result[0]($) = result[1]($) = 0; }
  void after() { RL_ASSERT(frame($) == 2); }
  /// A visitor of the fiber runs the task until it has suspended or ended.
  void go_on(bool resumed) {
    while (true) {
      while (frame($) < 2 && (done[frame($)].raised() || (resumed && omitted(Omission::recheck)))) {
        RL_ASSERT(result[frame($)]($) == 1);
        frame($) = frame($) + 1;
        resumed = false;
      }
      if (frame($) == 2 || parking.park()) return;
      resumed = true;
    }
  }
  void thread(unsigned thread) {
    if (thread == 0) return go_on(false);
    result[thread - 1]($) = 1;
    done[thread - 1].raise();
    if (parking.unpark() && !omitted(Omission::wake)) go_on(true);
  }
};

TEST(WaitingModelTest, SuspendAgainstResume) {
  expect_holds<SuspendAgainstResume>();
  expect_caught<SuspendAgainstResume>({"::park(", Mutation::no_release});
  expect_caught<SuspendAgainstResume>({"::park(", Mutation::no_acquire});
  expect_caught<SuspendAgainstResume>({"::unpark(", Mutation::no_release});
  expect_caught<SuspendAgainstResume>({"::unpark(", Mutation::no_acquire});
  expect_caught<SuspendAgainstResume>({.omission = Omission::recheck});
  expect_caught<SuspendAgainstResume>({.omission = Omission::wake});
}

}  // namespace
}  // namespace heddle::model
