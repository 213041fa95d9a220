// Tasks that end later than they are issued: the shipped InFlight and Turns between a consumer and
// reporters, any of which may be the thread that ends tickets; in the sequences of DeviceCore. The
// data of an end lies in entries that later tickets reuse.
#include "scheduler/protocol/in_flight.hpp"

#include "scheduler/protocol/health.hpp"
#include "tests/model/waiting.hpp"

namespace heddle::model {
namespace {

constexpr unsigned tickets_max = 4;
enum Ended : unsigned { not_yet, done, failed, skipped };

/// At most `most` of the device's tasks, a power of two, are in flight at once.
template <unsigned most>
struct Device {
  Device() : in_flight(most) {
    last($) = 0;
    poison($) = 0;
    for (auto& e : entries) e.label($) = e.result($) = 0;
    for (auto& how : ended) how($) = not_yet;
  }

  // The consumer.

  void issue(std::uint64_t ticket) {
    if (!omitted(Omission::recheck)) timeline.wait(in_flight.room_after(ticket), 0);
    in_flight.begin(ticket);
    if (health.poisoned() && read_poison() != 0) {  // ends when it is checked
      entry(ticket).label($) = ticket;
      entry(ticket).result($) = skipped;
      in_flight.reported(ticket, [](std::uint64_t) {
        RL_ASSERT(false);
        return false;
      });
      return in_flight.issued(ticket, [this](std::uint64_t due) { return end(due); });
    }
    begun[ticket].raise();
    if (omitted(Omission::order))
      in_flight.issued(ticket, [this](std::uint64_t due) { return end(due); });
    entry(ticket).label($) = ticket;
    if (!omitted(Omission::order))
      in_flight.issued(ticket, [this](std::uint64_t due) { return end(due); });
  }

  // Reporters.

  void report(std::uint64_t ticket, Ended how = done) {
    begun[ticket].wait();
    if (omitted(Omission::note))
      in_flight.reported(ticket, [this](std::uint64_t due) { return end(due); });
    entry(ticket).result($) = how;
    if (!omitted(Omission::note))
      in_flight.reported(ticket, [this](std::uint64_t due) { return end(due); });
  }

  // The thread that ends tickets.

  bool end(std::uint64_t ticket) {
    if (ticket == comes_after_other && !other.raised()) return false;
    RL_ASSERT(last($) + 1 == ticket);
    RL_ASSERT(entry(ticket).label($) == ticket);
    unsigned how = entry(ticket).result($);
    control.lock($);
    if (how == done && poison($) != 0) how = skipped;
    if (how == failed && !omitted(Omission::wake)) {
      poison($) = ticket;
      health.poison();
    }
    control.unlock($);
    ended[ticket]($) = how;
    timeline.complete(ticket);
    if (ticket == reports_next) report(ticket + 1);  // as a callback of its event may
    last($) = ticket;  // after the barrier inside complete(), a full fence here
    return true;
  }
  /// The thread that ends tickets of another device, and then calls back.
  void end_other() {
    other.raise();
    if (!omitted(Omission::wake)) in_flight.drain([this](std::uint64_t due) { return end(due); });
  }
  std::uint64_t read_poison() {
    control.lock($);
    const std::uint64_t ticket = poison($);
    control.unlock($);
    return ticket;
  }

  struct Entry {
    rl::var<std::uint64_t> label;  // written by the consumer
    rl::var<unsigned> result;      // written by the reporter
  };
  Entry& entry(std::uint64_t ticket) { return entries[ticket % most]; }

  sched::InFlight<Env<>> in_flight;
  sched::Health<Env<>> health{true, true};
  Waiters<2> timeline;
  Flag begun[tickets_max + 1];
  Entry entries[most];
  rl::var<unsigned> ended[tickets_max + 1];
  rl::var<std::uint64_t> last;  // used by the thread that ends tickets
  rl::mutex control;
  rl::var<std::uint64_t> poison;        // guarded by `control`
  std::uint64_t reports_next = 0;       // the end of this ticket reports the next ticket
  Flag other;                           // the other device's work has ended
  std::uint64_t comes_after_other = 0;  // this ticket waits for `other`
};

/// The device's words are outside Relacy's memory.
template <class Scenario, unsigned most, int threads>
struct DeviceScenario : rl::test_suite<Scenario, threads> {
  Device<most>* device = nullptr;

  DeviceScenario() {
    const Outside memory;
    device = new Device<most>;
  }
  ~DeviceScenario() {
    const Outside memory;
    delete device;
  }
  void expect_done(std::uint64_t upto) {
    for (std::uint64_t ticket = 1; ticket <= upto; ++ticket)
      RL_ASSERT(device->ended[ticket]($) == done);
    RL_ASSERT(device->timeline.completed() == upto);
  }
};

// Two threads report a ticket each, in either order, perhaps while the consumer is still issuing
// the tickets. The tickets end in ticket order.
struct TwoReport : DeviceScenario<TwoReport, 2, 3> {
  void thread(unsigned thread) {
    if (thread == 0) {
      device->issue(1);
      device->issue(2);
    } else {
      device->report(thread);
    }
  }
  void after() { expect_done(2); }
};

TEST(InFlightModelTest, TwoReport) {
  expect_holds<TwoReport>();
  expect_caught<TwoReport>({"::arrive(", Mutation::no_release});
  expect_caught<TwoReport>({"::arrive(", Mutation::no_exchange});
  expect_caught<TwoReport>({"::arrive(", Mutation::drop});
  expect_caught<TwoReport>({"::ended(", Mutation::no_acquire});
  expect_caught<TwoReport>({"::ask(", Mutation::no_release});
  expect_caught<TwoReport>({"::ask(", Mutation::no_acquire});
  expect_caught<TwoReport>({"::end(", Mutation::no_release});
  expect_caught<TwoReport>({.omission = Omission::order});
  expect_caught<TwoReport>({.omission = Omission::note});
}

// At most two tickets are in flight, and later tickets are reported first: the consumer waits for
// room, and the words and entries are reused.
struct RingUsedAgain : DeviceScenario<RingUsedAgain, 2, 2> {
  void thread(unsigned thread) {
    if (thread == 0) {
      for (std::uint64_t ticket = 1; ticket <= 4; ++ticket) device->issue(ticket);
    } else {
      for (const std::uint64_t ticket : {2, 1, 4, 3}) device->report(ticket);
    }
  }
  void after() { expect_done(4); }
};

TEST(InFlightModelTest, RingUsedAgain) {
  expect_holds<RingUsedAgain>();
  expect_caught<RingUsedAgain>({"::begin(", Mutation::drop});
  expect_caught<RingUsedAgain>({"::end(", Mutation::no_acquire});
  expect_caught<RingUsedAgain>({"::pass(", Mutation::no_release});
  expect_caught<RingUsedAgain>({.omission = Omission::recheck});
}

// One ticket at a time: each ticket waits for the previous ticket.
struct OneAtATime : DeviceScenario<OneAtATime, 1, 2> {
  void thread(unsigned thread) {
    for (std::uint64_t ticket = 1; ticket <= 3; ++ticket)
      thread == 0 ? device->issue(ticket) : device->report(ticket);
  }
  void after() { expect_done(3); }
};

TEST(InFlightModelTest, OneAtATime) {
  expect_holds<OneAtATime>();
  expect_caught<OneAtATime>({"::begin(", Mutation::drop});
  expect_caught<OneAtATime>({.omission = Omission::recheck});
}

// The end of the first ticket reports the second, as a callback may: the drain then continues with
// the second ticket.
struct ReportWithinEnd : DeviceScenario<ReportWithinEnd, 2, 2> {
  void before() { device->reports_next = 1; }
  void thread(unsigned thread) {
    if (thread == 0) {
      device->issue(1);
      device->issue(2);
    } else {
      device->begun[2].wait();
      device->report(1);
    }
  }
  void after() { expect_done(2); }
};

TEST(InFlightModelTest, ReportWithinEnd) {
  expect_holds<ReportWithinEnd>();
  expect_caught<ReportWithinEnd>({"::arrive(", Mutation::no_exchange});
}

// The first ticket comes after a ticket of another device, for which the hardware waits: neither
// the first ticket nor the next ends before the other device's ticket, and both end afterwards,
// whichever thread is last.
struct ComesAfterAnother : DeviceScenario<ComesAfterAnother, 2, 3> {
  void before() { device->comes_after_other = 1; }
  void thread(unsigned thread) {
    if (thread == 0) {
      device->issue(1);
      device->issue(2);
    } else if (thread == 1) {
      for (const std::uint64_t ticket : {1, 2}) device->report(ticket);
    } else {
      device->end_other();
    }
  }
  void after() { expect_done(2); }
};

TEST(InFlightModelTest, ComesAfterAnother) {
  expect_holds<ComesAfterAnother>();
  expect_caught<ComesAfterAnother>({"::ask(", Mutation::no_release});
  expect_caught<ComesAfterAnother>({"::end(", Mutation::no_acquire});
  expect_caught<ComesAfterAnother>({.omission = Omission::wake});
}

// The first of three tickets fails, and is reported after the second. Later tickets are skipped in
// any case, issued already or not; a host that awaits the first ticket sees the poison.
struct FailureInOrder : DeviceScenario<FailureInOrder, 4, 3> {
  void thread(unsigned thread) {
    if (thread == 0) {
      device->issue(1);
      device->issue(2);
    } else if (thread == 1) {
      device->report(2);
      device->report(1, failed);
    } else {
      device->timeline.wait(1, 1);
      RL_ASSERT(device->ended[1]($) == failed);
      RL_ASSERT(device->health.poisoned() && device->read_poison() == 1);
      device->timeline.wait(2, 1);
      device->issue(3);  // the consumer has issued the earlier tickets, since they have ended
    }
  }
  void after() { RL_ASSERT(device->ended[2]($) == skipped && device->ended[3]($) == skipped); }
};

TEST(InFlightModelTest, FailureInOrder) {
  expect_holds<FailureInOrder>();
  expect_caught<FailureInOrder>({"::ended(", Mutation::no_acquire});
  expect_caught<FailureInOrder>({.omission = Omission::wake});
}

}  // namespace
}  // namespace heddle::model
