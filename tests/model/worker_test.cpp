// The worker thread, and threads that submit to the worker or shut it down: the shipped Lane and
// Doorbell in the sequences of DeviceCore. The lane's bias has already ended; it has scenarios of
// its own.
#include "tests/model/waiting.hpp"

namespace heddle::model {
namespace {

/// A device with its own worker. Tickets 1 and 2 have ended before the scenario begins.
struct ThreadedDevice {
  static constexpr std::uint64_t first = 3, last_max = 4;

  ThreadedDevice() : lane(4), completed(first - 1) {
    for (auto& d : done) d($) = 0;
    (void)reserve(1);
    (void)reserve(2);
  }

  // Producers.

  std::uint64_t reserve(std::uint64_t me) {
    return lane.reserve(me, [this] { return completed.load(std::memory_order_acquire); });
  }
  void publish(std::uint64_t ticket) {
    lane.publish(ticket, "", no_task, nullptr);
    ring();
  }
  void ring() {
    if (!bell.ring()) return;
    ++rings;
    if (!omitted(Omission::wake)) token.unpark();
  }

  // The worker: work(), which may also end once it has run `count` tasks.

  void work(std::uint64_t count) {
    std::uint64_t ticket = first;
    const auto stopping = [&] {
      return stop.load(std::memory_order_acquire) != 0 &&
             (omitted(Omission::recheck) || lane.tickets() == ticket - 1);
    };
    const auto ready = [&] { return lane.look(ticket).published() || stopping(); };
    while (ticket < first + count) {
      if (lane.look(ticket).published()) {
        done[ticket]($) = done[ticket]($) + 1;
        completed.store(ticket++, std::memory_order_release);
        continue;
      }
      if (stopping()) return;
      ++parks;
      bell.park();
      if (!omitted(Omission::recheck) && ready()) {
        bell.unpark();
      } else {
        token.park();
      }
    }
  }

  // The controller: abandon() inside a task, which does not wait.

  void shut_down() {
    if (!omitted(Omission::order)) lane.close();
    stop.store(1, std::memory_order_release);
    ring();
    if (omitted(Omission::order)) lane.close();
  }

  sched::Lane<Env<>, 1> lane;
  sched::Doorbell<Env<>> bell;
  Token token;
  Atomic<unsigned> stop;
  Atomic<std::uint64_t> completed;
  rl::var<unsigned> done[last_max + 1];
  unsigned rings = 0, parks = 0;
};

template <class Scenario, unsigned threads>
struct WithDevice : rl::test_suite<Scenario, threads> {
  std::optional<ThreadedDevice> device;
  void before() {
    const Outside memory;
    device.emplace();
  }
  void after() {
    const Outside memory;
    static_cast<Scenario*>(this)->check();
    device.reset();
  }
};

// Two producers submit to a worker that goes to sleep. The worker sleeps only without work, and is
// woken once for each time that it is about to sleep.
struct SubmitWakesOnce : WithDevice<SubmitWakesOnce, 3> {
  void before() {
    WithDevice::before();
    RL_ASSERT(device->reserve(1) == 3 && device->reserve(2) == 4);
  }
  void thread(unsigned thread) {
    if (thread == 2) return device->work(2);
    device->publish(ThreadedDevice::first + thread);
  }
  void check() {
    RL_ASSERT(device->done[3]($) == 1 && device->done[4]($) == 1);
    RL_ASSERT(device->rings <= device->parks);
  }
};

// A producer is stopped between taking its ticket and publishing; it gives the ticket up by
// publishing a task without effect. The ticket of another producer comes later and is published
// first.
struct ReserveThenGiveUp : WithDevice<ReserveThenGiveUp, 3> {
  void before() {
    WithDevice::before();
    RL_ASSERT(device->reserve(1) == 3);
  }
  void thread(unsigned thread) {
    if (thread == 2) return device->work(2);
    device->publish(thread == 0 ? 3 : device->reserve(2));
  }
  void check() { RL_ASSERT(device->done[3]($) == 1 && device->done[4]($) == 1); }
};

// Shutting down against submitting: accepted tasks run, refused tasks do not, and the worker ends.
struct ShutdownAgainstSubmit : WithDevice<ShutdownAgainstSubmit, 3> {
  std::uint64_t accepted = 0;
  void thread(unsigned thread) {
    if (thread == 0) {
      accepted = device->reserve(1);
      if (accepted != 0) device->publish(accepted);
    } else if (thread == 1) {
      device->shut_down();
    } else {
      device->work(2);
    }
  }
  void check() {
    RL_ASSERT(device->lane.closed() && device->reserve(2) == 0);
    RL_ASSERT(device->lane.tickets() == device->completed.load(std::memory_order_relaxed));
    RL_ASSERT(device->done[3]($) == (accepted != 0 ? 1u : 0u) && device->done[4]($) == 0);
  }
};

TEST(WorkerModelTest, SubmitWakesOnce) {
  expect_holds<SubmitWakesOnce>();
  expect_caught<SubmitWakesOnce>({"::quiet(", Mutation::no_light});
  expect_caught<SubmitWakesOnce>({"::park(", Mutation::no_heavy});
  expect_caught<SubmitWakesOnce>({"::ring(", Mutation::no_exchange});
  expect_caught<SubmitWakesOnce>({.omission = Omission::recheck});
  expect_caught<SubmitWakesOnce>({.omission = Omission::wake});
}

TEST(WorkerModelTest, ReserveThenGiveUp) {
  expect_holds<ReserveThenGiveUp>();
  expect_caught<ReserveThenGiveUp>({"::quiet(", Mutation::no_light});
  expect_caught<ReserveThenGiveUp>({"::park(", Mutation::no_heavy});
  expect_caught<ReserveThenGiveUp>({.omission = Omission::recheck});
  expect_caught<ReserveThenGiveUp>({.omission = Omission::wake});
}

TEST(WorkerModelTest, ShutdownAgainstSubmit) {
  expect_holds<ShutdownAgainstSubmit>();
  expect_caught<ShutdownAgainstSubmit>({"::quiet(", Mutation::no_light});
  expect_caught<ShutdownAgainstSubmit>({"::park(", Mutation::no_heavy});
  expect_caught<ShutdownAgainstSubmit>({"::shut_down(", Mutation::no_release});
  expect_caught<ShutdownAgainstSubmit>({.omission = Omission::order});
  expect_caught<ShutdownAgainstSubmit>({.omission = Omission::recheck});
  expect_caught<ShutdownAgainstSubmit>({.omission = Omission::wake});
}

}  // namespace
}  // namespace heddle::model
