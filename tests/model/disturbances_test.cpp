// A device that drops tasks against threads that take tickets: the shipped Disturbances (cancel
// epoch), with the tickets of the shipped Lane.
#include "scheduler/protocol/disturbances.hpp"

#include "tests/model/explore.hpp"

namespace heddle::model {
namespace {

using sched::Disturbances;
using sched::Lane;

/// A device: some threads take tickets, and another thread drops the tasks that have tickets.
template <class ModelEnv>
struct Disturbed {
  /// The recorded facts about a task.
  struct Task {
    std::uint64_t ticket = 0;
    std::uint64_t disturbances = 0;
  };

  void open() {
    const Outside memory;
    lane.emplace(4);
    let_go = 0;
  }
  void close() {
    const Outside memory;
    lane.reset();
  }

  /// Takes a ticket; if `before` is not null, for a task that reads the values of `before`. Returns
  /// whether the reader assumes that `before` ends well, or that the reader itself does not run.
  bool take(std::uint64_t me, const Task* before, Task& task) {
    task.disturbances = disturbances.begun();
    task.ticket = lane->reserve(me, [] { return std::uint64_t{0}; });
    RL_ASSERT(task.ticket != 0);
    if (before == nullptr) return false;
    const bool quiet = omitted(Omission::compare) || disturbances.is_quiet(task.disturbances);
    if (before->disturbances != task.disturbances || !quiet) return false;
    return omitted(Omission::recheck) || !disturbances.changed_since(task.disturbances);
  }
  /// cancel_pending(); also recover(), whose tickets end before the disturbance does.
  void disturb() {
    const std::uint64_t early = lane->tickets();
    const typename Disturbances<ModelEnv>::Lasting lasting(disturbances);
    let_go = std::max(let_go, omitted(Omission::order) ? early : lane->tickets());
  }
  void require_sound(const Task& writer, const Task& reader, bool granted) const {
    if (granted) RL_ASSERT(writer.ticket > let_go || reader.ticket <= let_go);
  }

  std::optional<Lane<ModelEnv, 1>> lane;
  Disturbances<ModelEnv> disturbances;
  std::uint64_t let_go = 0;  // tickets up to this number are dropped
};

// One thread takes two tickets; the second task reads the values of the first.
template <Mutation mutation>
struct WriteThenRead : rl::test_suite<WriteThenRead<mutation>, 2> {
  Disturbed<Env<mutation>> device;
  typename Disturbed<Env<mutation>>::Task writer, reader;
  bool granted = false;

  void before() { device.open(); }
  void after() {
    device.require_sound(writer, reader, granted);
    device.close();
  }
  void thread(unsigned thread) {
    if (thread == 1) return device.disturb();
    device.take(1, nullptr, writer);
    granted = device.take(1, &writer, reader);
  }
};

TEST(DisturbancesModelTest, WriteThenRead) {
  using Alone = WriteThenRead<Mutation::none>;
  using Symmetric = WriteThenRead<Mutation::symmetric>;
  expect_holds<Alone>(-1);
  expect_holds<Symmetric>(-1);
  expect_caught<Alone>({"::begin(", Mutation::no_heavy});
  expect_caught<Alone>({"::changed_since(", Mutation::no_light});
  for (const Omission each : {Omission::order, Omission::recheck, Omission::compare}) {
    expect_caught<Alone>({.omission = each});
    expect_caught<Symmetric>({.omission = each});
  }
  expect_caught<Symmetric>({"::changed_since(", Mutation::no_release});
  expect_caught<Symmetric>({"::begin(", Mutation::no_acquire});
}

// Another thread takes the reader's ticket, after the writer's; two threads disturb.
struct TwoDisturb : rl::test_suite<TwoDisturb, 4> {
  Disturbed<Env<>> device;
  Disturbed<Env<>>::Task writer, reader;
  rl::mutex ledger;
  bool written = false, granted = false;

  void before() {
    device.open();
    written = granted = false;
  }
  void after() {
    if (reader.ticket != 0) device.require_sound(writer, reader, granted);
    device.close();
  }
  void thread(unsigned thread) {
    if (thread >= 2) return device.disturb();
    ledger.lock($);
    if (thread == 0) {
      device.take(1, nullptr, writer);
      written = true;
    } else if (written) {
      granted = device.take(2, &writer, reader);
    }
    ledger.unlock($);
  }
};

TEST(DisturbancesModelTest, TwoDisturb) {
  expect_holds<TwoDisturb>(-1);
  expect_caught<TwoDisturb>({.omission = Omission::order});
  expect_caught<TwoDisturb>({.omission = Omission::recheck});
}

}  // namespace
}  // namespace heddle::model
