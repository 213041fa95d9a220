// Host threads that run one replay at the same time.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::Each;

/// Two devices: one increments a counter, the second adds the counter's value to a sum.
class ReplayTurnsTest : public Conformance {
 protected:
  struct Parties {
    Device one, other;
    Routine counting, adding;
    Replay replay;  ///< "increment, add, increment"
  };
  [[nodiscard]] Parties parties(const Backend& on) const {
    const Device one = on.physical_device(0).new_virtual_device(),
                 other = on.physical_device(0).new_virtual_device();
    const Index i;
    Program increment("increment"), add("add");
    increment << (counter(i) += 1);
    add << (sum(i) += merge(counter)(i));
    const Routine counting = Context(one).link(on.compile(increment)),
                  adding = Context(other).link(on.compile(add));
    Recording recording("counts");
    recording.schedule(counting);
    recording.merge(adding, counting.context(), MergeMode::stream);
    recording.schedule(counting);
    return {one, other, counting, adding, recording.finish()};
  }

  const Tensor counter{"counter", i64, {4}}, sum{"sum", i64, {4}};
};
HEDDLE_CONFORMANCE_SUITE(ReplayTurnsTest);

// D19: runs of one replay by several host threads do not interleave
TEST_P(ReplayTurnsTest, RunsOfThreadsAreWhole) {
  const Parties both = parties(backend);
  constexpr int threads = 3, runs = 200;
  std::vector<std::thread> hosts;
  for (int k = 0; k < threads; ++k) {
    hosts.emplace_back([&] {
      for (int n = 0; n < runs; ++n) both.replay.run();
    });
  }
  for (std::thread& each : hosts) each.join();
  // The k-th run adds 2 k + 1.
  EXPECT_THAT(both.adding.context().read<std::int64_t>(sum), Each(threads * runs * threads * runs));
}

// S4, D19: while another thread's turn waits for room, a run waits for its turn until its deadline
TEST_P(ReplayTurnsTest, TurnsHaveTheDeadlineOfFullQueues) {
  if (GetParam().starts_with("sync_")) return;  // never full
  BackendOptions options;
  options.name = GetParam();
  options.scheduling.device.queue_size = 2;
  const Parties both = parties(Backend::open(options));
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  both.other.wait(opened);
  both.other.wait(opened);
  std::thread blocked([&] { both.replay.run(); });
  for (int k = 0; k < 2; ++k) {  // in case the first run's turn came before the thread's
    ReplayOptions soon{.full = sched::FullPolicy::deadline};
    soon.deadline = Event::Clock::now() + std::chrono::milliseconds(20);
    EXPECT_EQ(failure([&] { both.replay.run({}, soon); }).code(), ErrorCode::deadline);
  }
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  blocked.join();
  for (const Event& each : both.replay.run()) EXPECT_TRUE(each.wait().ok());
}

// S4, D19: the wait for a turn follows the devices' policy; with a policy that never waits, a run
// does not wait
TEST_P(ReplayTurnsTest, TurnsAreWaitedForAsDevicesWaitForRoom) {
  if (GetParam().starts_with("sync_")) return;  // never full
  for (const auto policy : {sched::FullPolicy::deadline, sched::FullPolicy::fail}) {
    BackendOptions options;
    options.name = GetParam();
    options.scheduling.device.queue_size = 2;
    options.scheduling.device.full = policy;
    const Parties both = parties(Backend::open(options));
    sched::ExternalTimeline gate("gate");
    const Event opened = gate.next();
    both.other.wait(opened);
    both.other.wait(opened);
    std::atomic<bool> begins = false;
    std::thread blocked([&] {
      begins = true;
      both.replay.run({}, {.full = sched::FullPolicy::block});
    });
    while (!begins) std::this_thread::yield();
    for (int k = 0; k < 20; ++k) {
      const Status why = failure([&] { both.replay.run(); });
      EXPECT_EQ(why.code(),
                policy == sched::FullPolicy::fail ? ErrorCode::exhausted : ErrorCode::deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(gate.signal(opened.ticket()).ok());
    blocked.join();
  }
}

// D16, D19: a context finalised while a run waits for room affects only the next run
TEST_P(ReplayTurnsTest, RunsThatHaveBegunAreWhole) {
  if (GetParam().starts_with("sync_")) return;  // never full
  BackendOptions options;
  options.name = GetParam();
  options.scheduling.device.queue_size = 2;
  const Parties both = parties(Backend::open(options));
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  both.other.wait(opened);
  both.other.wait(opened);
  std::thread blocked([&] { both.replay.run(); });
  while (both.one.statistics().launches == 0) std::this_thread::yield();
  both.adding.context().finalize();
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  blocked.join();
  both.one.await();
  EXPECT_EQ(both.one.statistics().launches, 2u);
  EXPECT_EQ(failure([&] { both.replay.run(); }).code(), ErrorCode::failed_precondition);
}

// D19: calls that come after a failure are skipped completely, at any timing
TEST_P(ReplayTurnsTest, NothingOfARunFollowsAFailure) {
  const Parties both = parties(backend);
  const std::vector<std::int64_t> zeros(4);
  for (int k = 0; k < 50; ++k) {
    both.counting.context().write(counter, zeros);
    both.adding.context().write(sum, zeros);
    const Event failed =
        both.one.submit("fails", {}, []() -> Status { return Status(ErrorCode::internal, "so"); },
                        {.contain = true});
    EXPECT_FALSE(failed.wait().ok());
    for (const Event& each : both.replay.run({}, {.after = {failed}}))
      EXPECT_FALSE(each.wait().ok());
  }
  EXPECT_EQ(both.one.statistics().launches, 0u);
  EXPECT_TRUE(failure([&] {
                both.one.await();
                both.other.await();
              }).ok());
}

}  // namespace
}  // namespace heddle
