// Waiting for a ticket: across devices, for a slot of a full queue, and suspended in a fiber.
#include "tests/model/waiting.hpp"

namespace heddle::model {
namespace {

// Two devices whose tasks wait for each other's in turn, and a host that waits for the last one:
// A's first task, B's, which comes after it, A's second one, which comes after that.
struct WaitAcrossDevices : rl::test_suite<WaitAcrossDevices, 3> {
  Waiters<> a, b;
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
  expect_caught<WaitAcrossDevices>({"::advance(", Mutation::no_light});
  expect_caught<WaitAcrossDevices>({"::add_waiter(", Mutation::no_heavy});
  expect_caught<WaitAcrossDevices>({"::advance(", Mutation::no_release});
  expect_caught<WaitAcrossDevices>({"::completed(", Mutation::no_acquire});
  expect_caught<WaitAcrossDevices>({"::advance_watched(", Mutation::no_seq_cst});
  expect_caught<WaitAcrossDevices>({.omission = Omission::recheck});
  expect_caught<WaitAcrossDevices>({.omission = Omission::wake});
}

// A queue of one task: who finds it full waits for the task that has the slot, and tries again.
struct WaitForSlot : rl::test_suite<WaitForSlot, 3> {
  static constexpr sched::TaskOps ops{nullptr, [](void*) { return Status(); }, nullptr};
  static constexpr std::uint64_t tasks = 3;
  std::optional<sched::Lane<Env<>>> lane;
  std::optional<Waiters<>> timeline;
  rl::var<std::uint64_t> slot;

  void before() {
    lane.emplace(1);
    timeline.emplace();
    slot($) = 0;
  }
  void after() {
    lane.reset();
    timeline.reset();
  }
  void submit(unsigned me) {
    while (true) {
      const auto ticket = lane->reserve(me + 1, [this] { return timeline->completed(); });
      if (ticket) {
        RL_ASSERT(slot($) == 0);
        slot($) = *ticket;
        alignas(16) std::byte task[sched::task_bytes_max] = {};
        lane->publish(*ticket, ops, task, "");
        return;
      }
      // As make_room(): by now the slot may be free, or somebody else's.
      const std::uint64_t taken = lane->tickets();
      if (taken >= lane->capacity()) timeline->wait(taken - lane->capacity() + 1, me);
    }
  }
  void thread(unsigned thread) {
    if (thread == 0) {
      submit(0);
      submit(0);
    } else if (thread == 1) {
      submit(1);
    } else {
      for (std::uint64_t ticket = 1; ticket <= tasks; ++ticket) {
        while (!lane->published(ticket)) rl::yield(1, $);
        RL_ASSERT(slot($) == ticket);
        slot($) = 0;
        timeline->complete(ticket);
      }
    }
  }
};

TEST(WaitingModelTest, WaitForSlot) {
  expect_holds<WaitForSlot>();
  expect_caught<WaitForSlot>({"::advance(", Mutation::no_light});
  expect_caught<WaitForSlot>({"::add_waiter(", Mutation::no_heavy});
  expect_caught<WaitForSlot>({"::advance(", Mutation::no_release});
  expect_caught<WaitForSlot>({"::publish(", Mutation::no_release});
  expect_caught<WaitForSlot>({.omission = Omission::recheck});
  expect_caught<WaitForSlot>({.omission = Omission::wake});
}

// A task on a fiber waits for two events in turn, whose ends call the same waker, so that each may
// wake for nothing; threads that end a wait go on with the task, one at a time.
struct SuspendAgainstResume : rl::test_suite<SuspendAgainstResume, 3> {
  sched::Parking<Env<>> parking;
  rl::var<unsigned> frame;  // the fiber's stack: how many events the task has seen
  rl::var<unsigned> result[2];
  Flag done[2];

  void before() { frame($) = result[0]($) = result[1]($) = 0; }
  void after() { RL_ASSERT(frame($) == 2); }
  /// What a visitor of the fiber does, until the task has suspended or ended.
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
