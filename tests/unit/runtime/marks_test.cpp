// Queues of one completion domain that wait for each other's marks on the hardware, and what the
// scheduler makes of it. The device is held, or its queues but one, where something has to wait.
#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <string>

#include "tests/support/seeds.hpp"
#include "tests/unit/runtime/asynchronous_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::HasSubstr;

/// Two devices of one domain with a routine each, of which `there` reads what `here` makes.
class MarksTest : public AsynchronousFixture {
 protected:
  MarksTest() {
    device.await();
    other.await();
  }
  /// Of the routine on `device`, without waiting for anybody.
  Event launch() const { return here.schedule(); }
  Event copy_after(const Event& event, const Routine& to) const {
    return copy(x, here.context(), to.context(), {.after = {event}}).event;
  }
  /// That the wait is the hardware's: the queue that was asked last goes on, and nothing runs.
  void expect_held(const Event& event) const {
    physical->resume_last();
    EXPECT_FALSE(event.wait_for(50ms).ok());
    EXPECT_FALSE(event.done());
    EXPECT_EQ(physical->pending(), 2U);
  }

  const Device other = backend.physical_device(0).new_virtual_device();
  const Code code = compile(backend, x, 1);
  const Routine here = Context(device).link(code);
  const Routine there = Context(other).link(code);
};

// D15: a task that comes after one of its domain is issued at once, and its queue waits for that
TEST_F(MarksTest, TheHardwareWaits) {
  physical->hold();
  const Event first = launch();
  const Event second = copy_after(first, there);
  wait_until_asked(2);
  EXPECT_EQ(physical->waits(), 1U);
  expect_held(second);
  physical->resume();
  EXPECT_TRUE(second.wait().ok());
  EXPECT_TRUE(first.done());
  EXPECT_THAT(there.context().read<float>(x), Each(1));
}

// D15: so is what follows a wait of the device
TEST_F(MarksTest, WaitsOfDevicesAreTheHardwares) {
  physical->hold();
  const Event first = launch();
  other.wait(first);
  const Event second = copy(x, here.context(), there.context()).event;
  wait_until_asked(2);
  expect_held(second);
  physical->resume();
  EXPECT_TRUE(second.wait().ok());
  EXPECT_THAT(there.context().read<float>(x), Each(1));
}

// D15: and what comes after such a wait on a third device
TEST_F(MarksTest, WaitsHaveMarks) {
  const Device third = backend.physical_device(0).new_virtual_device();
  const Routine far = Context(third).link(code);
  third.await();
  physical->hold();
  const Event waited = other.wait(launch());
  const Event second = copy_after(waited, far);
  wait_until_asked(2);
  EXPECT_EQ(physical->waits(), 2U);
  expect_held(second);
  physical->resume();
  EXPECT_TRUE(second.wait().ok());
  EXPECT_THAT(far.context().read<float>(x), Each(1));
}

// D15, D5: copies between two devices of one domain wait for each other likewise
TEST_F(MarksTest, TwoDevicesOfOneDomain) {
  AsynchronousOptions options;
  options.is_peer = true;
  const auto near_physical = std::make_shared<AsynchronousDevice>(options);
  const auto far_physical = std::make_shared<AsynchronousDevice>(options, near_physical.get());
  const Backend near_backend = open_held(near_physical), far_backend = open_held(far_physical);
  const Device near = near_backend.physical_device(0).new_virtual_device();
  const Device far = far_backend.physical_device(0).new_virtual_device();
  const Routine from = Context(near).link(compile(near_backend, x, 3));
  const Routine to = Context(far).link(compile(far_backend, x, 3));
  near.await();
  far.await();
  near_physical->hold();
  const Event made = from.schedule();
  const Event copied = copy(x, from.context(), to.context(), {.after = {made}}).event;
  wait_until_asked(*near_physical, 2);
  near_physical->resume_last();
  EXPECT_FALSE(copied.wait_for(50ms).ok());
  EXPECT_EQ(near_physical->pending(), 2U);
  // And back: what is copied from is not written before.
  const Event again = from.schedule({}, {.after = {copied}});
  wait_until_asked(*near_physical, 3);
  near_physical->resume();
  EXPECT_TRUE(again.wait().ok());
  EXPECT_EQ(near_physical->waits(), 2U);
  EXPECT_THAT(to.context().read<float>(x), Each(3));
  EXPECT_THAT(from.context().read<float>(x), Each(6));
}

// D15: devices of two domains are the scheduler's to order; so is the host's code
TEST_F(MarksTest, OtherWaitsAreTheSchedulers) {
  const auto far_physical = std::make_shared<AsynchronousDevice>();
  const Backend far_backend = open_held(far_physical);
  const Device far = far_backend.physical_device(0).new_virtual_device();
  const Routine to = Context(far).link(compile(far_backend, x, 1));
  far.await();
  physical->hold();
  const Event first = launch();
  const Event second = to.schedule({}, {.after = {first}});
  const Event called = other.timeline().submit("call", [] {}, {.after = {first}});
  wait_until_asked(1);
  EXPECT_FALSE(second.wait_for(20ms).ok());
  EXPECT_FALSE(called.done());
  EXPECT_EQ(far_physical->pending(), 0U);
  EXPECT_EQ(far_physical->waits() + physical->waits(), 0U);
  physical->resume();
  EXPECT_TRUE(second.wait().ok());
  EXPECT_TRUE(called.wait().ok());
}

// D15, S10: what comes after a failure has failed, whichever of the two waited
TEST_F(MarksTest, FailuresTravel) {
  std::array<std::string, 2> texts;
  for (const bool handed : {false, true}) {
    physical->hold();
    const Event first = here.schedule({}, {.contain = true});
    wait_until_asked(1);
    if (!handed) {
      physical->fail_next_end();
      physical->resume();
      while (!first.done()) std::this_thread::sleep_for(1ms);
    }
    const Event second = there.schedule({}, {.after = {first}});
    if (handed) {
      wait_until_asked(2);
      physical->fail_next_end();
      physical->resume();
    }
    EXPECT_EQ(second.wait().code(), ErrorCode::device_failed);
    EXPECT_THAT(second.status().to_string(), HasSubstr("the asynchronous device broke"));
    EXPECT_EQ(first.status().code(), ErrorCode::device_failed);
    EXPECT_TRUE(other.timeline().status().ok()) << "it was contained";
    EXPECT_EQ(other.timeline().counters().skipped, handed ? 2U : 1U);
    EXPECT_EQ(physical->waits(), handed ? 1U : 0U);
  }
}

// D15, S6: a lost device leaves nobody waiting, on the hardware neither
TEST_F(MarksTest, LostDevicesEndWaits) {
  physical->hold();
  const Event first = launch();
  const Event second = there.schedule({}, {.after = {first}});
  wait_until_asked(2);
  physical->lose();
  physical->resume();
  EXPECT_THAT(first.wait().to_string(), HasSubstr("the asynchronous device is lost"));
  EXPECT_FALSE(second.wait().ok());
}

// D15, S13: handles may go while the hardware waits
TEST_F(MarksTest, HandlesMayGoWhileTheHardwareWaits) {
  Event last;
  std::thread resumes;
  {
    const Device third = backend.physical_device(0).new_virtual_device();
    const Routine far = Context(third).link(code);
    third.await();
    physical->hold();
    last = copy_after(launch(), far);
    wait_until_asked(2);
    physical->resume_last();
    resumes = std::thread([&] {
      std::this_thread::sleep_for(5ms);
      physical->resume();
    });
  }
  resumes.join();
  EXPECT_TRUE(last.wait().ok());
}

// S23, S10: a mark that the device refuses ends what was asked for, and nobody waits for ever
TEST_F(MarksTest, RefusedMarksEndWhatWasAskedFor) {
  physical->hold();
  const Event first = launch();
  wait_until_asked(1);
  const Event second = launch();
  wait_until_asked(2);
  physical->fail_record();
  const Event third = launch();
  EXPECT_THAT(first.wait().to_string(), HasSubstr("takes no mark"));
  EXPECT_FALSE(second.wait().ok());
  EXPECT_FALSE(third.wait().ok());
  EXPECT_EQ(physical->pending(), 0U);
  EXPECT_EQ(device.timeline().counters().failed, 1U);
  physical->resume();
  device.recover();
  EXPECT_TRUE(launch().wait().ok());
}

// S23, D5: also one that a task waits for itself
TEST_F(MarksTest, RefusedMarksEndTheWaitsOfTasks) {
  const auto far_physical = std::make_shared<AsynchronousDevice>();
  const Backend far_backend = open_held(far_physical);
  const Device far = far_backend.physical_device(0).new_virtual_device();
  const Routine to = Context(far).link(compile(far_backend, x, 1));
  far.await();
  physical->fail_record();  // of the queue of `device`'s memory that `far` reads by
  const Event staged = copy(x, here.context(), to.context()).event;
  EXPECT_THAT(staged.wait().to_string(), HasSubstr("takes no mark"));
  far.recover();
  EXPECT_TRUE(copy(x, here.context(), to.context()).event.wait().ok());
}

/// Random launches, copies and waits on some devices, and what has to come of them.
class RandomWork {
 public:
  RandomWork(const std::vector<Backend>& backends, std::uint64_t seed) : random_(seed) {
    Index i;
    Program add("add");
    add << (x_(i) += 1.0);
    for (const Backend& backend : backends) {
      const Code code = backend.compile(add);
      for (int k = 0; k < 2; ++k) {
        devices_.push_back(backend.physical_device(0).new_virtual_device());
        routines_.push_back(Context(devices_.back()).link(code));
      }
    }
    expected_.resize(devices_.size());
    last_.resize(devices_.size());
  }

  void step() {
    const std::size_t at = random_() % devices_.size(), from = random_() % devices_.size();
    if (random_() % 3 != 0 || at == from) {
      note(at, routines_[at].schedule(), last_[at]);
      ++expected_[at];
      return;
    }
    // It may go on with `from` before that was copied only where it waits itself.
    TransferOptions after;
    if (last_[from]) after.after.push_back(*last_[from]);
    const Event copied = copy(x_, routines_[from].context(), routines_[at].context(), after).event;
    note(at, copied, last_[from]);
    note(from, devices_[from].wait(copied), copied);
    expected_[at] = expected_[from];
  }
  /// Ends it all. Nothing ended well that came after what did not.
  void expect_consistent() {
    for (const Device& device : devices_) static_cast<void>(device.timeline().await());
    for (const auto& [event, before] : events_) {
      if (!before->accepted() || !event.accepted()) continue;
      EXPECT_TRUE(before->status().ok() || !event.status().ok())
          << event.to_string() << " after " << before->to_string();
    }
    for (const Device& device : devices_) device.recover();
    events_.clear();
    last_.assign(devices_.size(), std::nullopt);
  }
  void expect_values() {
    for (std::size_t k = 0; k < devices_.size(); ++k)
      EXPECT_THAT(routines_[k].context().read<float>(x_), Each(expected_[k])) << k;
  }

 private:
  void note(std::size_t at, const Event& event, const std::optional<Event>& before) {
    if (before) events_.emplace_back(event, before);
    last_[at] = event;
  }

  std::mt19937_64 random_;
  const Tensor x_{"x", f32, {4}};
  std::vector<Device> devices_;
  std::vector<Routine> routines_;
  std::vector<float> expected_;
  std::vector<std::optional<Event>> last_;  // that touches its x
  std::vector<std::pair<Event, std::optional<Event>>> events_;
};

/// Two devices of a domain, and one of another, with two queues each.
std::vector<Backend> random_devices(std::uint64_t seed,
                                    std::vector<std::shared_ptr<AsynchronousDevice>>& devices) {
  AsynchronousOptions options;
  options.seed = seed;
  options.is_peer = seed % 3 != 0;  // else they stage
  const auto first = std::make_shared<AsynchronousDevice>(options);
  devices = {first, std::make_shared<AsynchronousDevice>(options, first.get()),
             std::make_shared<AsynchronousDevice>(options)};
  std::vector<Backend> backends;
  for (const auto& device : devices)
    backends.push_back(
        open_held(device, seed % 2 == 0 ? sched::Mode::pooled : sched::Mode::threaded));
  return backends;
}

// D15, D10: random work on devices of two domains gives what it gives in order, threaded and pooled
TEST(RandomMarksTest, GiveWhatTheyGiveInOrder) {
  for (std::uint64_t seed = 1; seed <= test::seeds(10); ++seed) {
    std::vector<std::shared_ptr<AsynchronousDevice>> devices;
    RandomWork work(random_devices(seed, devices), seed);
    for (int k = 0; k < 150; ++k) work.step();
    work.expect_values();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

// D15, S10: and where operations fail as they are issued or end, nothing behind a failure ends
// well, all ends, and the devices work again
TEST(RandomMarksTest, FailuresReachAllThatCameAfter) {
  for (std::uint64_t seed = 1; seed <= test::seeds(10); ++seed) {
    std::vector<std::shared_ptr<AsynchronousDevice>> devices;
    RandomWork work(random_devices(seed, devices), seed);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 5; ++round) {
      AsynchronousDevice& faulty = *devices[random() % devices.size()];
      for (int k = 0; k < 40; ++k) {
        if (k == 20 && random() % 2 == 0) faulty.fail_next_end();
        if (k == 20 && random() % 2 == 0) faulty.fail_issue(random() % 4);
        try {
          work.step();
        } catch (const Error&) {  // the device has failed
        }
      }
      work.expect_consistent();
    }
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace heddle
