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
    for (const Routine& run : {here, there}) begin(run);
  }
  /// It has been used: no zeros come before what follows.
  void begin(const Routine& run) const { run.context().write(x, std::vector<float>(4)); }
  /// A launch of the routine on `device`, without waiting for anybody.
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
  begin(far);
  physical->hold();
  const Event waited = other.wait(launch());
  const Event second = copy_after(waited, far);
  wait_until_asked(2);
  EXPECT_EQ(physical->waits(), 3U);  // and it reads what was launched
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
  for (const Routine& run : {from, to}) begin(run);
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
  begin(to);
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
    for (const Routine& run : {here, there}) run.context().write(x, std::vector<float>(4));
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
    begin(far);
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
  here.context().write(x, std::vector<float>(4));
  EXPECT_TRUE(launch().wait().ok());
}

// S23, D5: also one that a task waits for itself
TEST_F(MarksTest, RefusedMarksEndTheWaitsOfTasks) {
  const auto far_physical = std::make_shared<AsynchronousDevice>();
  const Backend far_backend = open_held(far_physical);
  const Device far = far_backend.physical_device(0).new_virtual_device();
  const Routine to = Context(far).link(compile(far_backend, x, 1));
  begin(to);
  physical->fail_record();  // in the queue of `device`'s memory that `far` reads by
  const Event staged = copy(x, here.context(), to.context()).event;
  EXPECT_THAT(staged.wait().to_string(), HasSubstr("takes no mark"));
  far.recover();
  EXPECT_TRUE(copy(x, here.context(), to.context()).event.wait().ok());
}

/// Random launches, copies, merges and waits on some devices, and what has to come of them.
class RandomWork {
 public:
  RandomWork(const std::vector<Backend>& backends, std::uint64_t seed) : random_(seed) {
    Index i;
    Program add("add"), gather("gather");
    add << (x_(i) += 1.0);
    gather << (y_(i) += merge(x_)(i));
    const Code adds = backends.front().compile(add), gathers = backends.front().compile(gather);
    for (const Backend& backend : backends) {
      for (int k = 0; k < 2; ++k) {
        const Device device = backend.physical_device(0).new_virtual_device();
        const Routine adding = Context(device).link(adds);
        const Routine gathering = adding.context().link(gathers);
        seats_.push_back({.device = device, .add = adding, .gather = gathering});
      }
    }
  }

  void step() {
    Seat& at = seats_[random_() % seats_.size()];
    Seat& from = seats_[random_() % seats_.size()];
    const std::uint64_t what = &at == &from ? 0 : random_() % 7;
    TransferOptions after;
    if (from.last) after.after.push_back(*from.last);
    if (what < 3) {
      note(at, at.add.schedule(), at.last);
      ++at.x;
    } else if (what == 3) {
      note(at, copy(x_, from.add.context(), at.add.context(), after).event, from.last);
      at.x = from.x;
      // It goes on with what was copied from once that was done.
      note(from, from.device.wait(*at.last), at.last);
    } else if (what == 4) {
      const MergeMode mode = random_() % 2 == 0 ? MergeMode::copy : MergeMode::stream;
      note(at, merge(at.gather, from.add.context(), mode, {}, after), from.last);
      at.y += from.x;
      note(from, from.device.wait(*at.last), at.last);
    } else if (what == 5) {
      copy_by(seats_[random_() % seats_.size()], from, at);
    } else {
      // By way of memory that goes, and is taken again, while tasks use it.
      const BufferView x = at.add.context().view(x_);
      const BufferView by(Buffer::allocate(at.device, x.type()), x.type());
      by.copy_from(at.device, x);
      note(at, x.copy_from(at.device, by), at.last);
    }
  }
  void cancel() { seats_[random_() % seats_.size()].device.cancel_pending(); }
  /// Ends it all. Nothing ended well that came after what did not.
  void expect_consistent() {
    for (const Seat& seat : seats_) static_cast<void>(seat.device.timeline().await());
    for (const auto& [event, before] : events_) {
      if (!before->accepted() || !event.accepted()) continue;
      if (before->device_id() == event.device_id() && left_device_usable(before->status()))
        continue;
      EXPECT_TRUE(before->status().ok() || !event.status().ok())
          << event.to_string() << " after " << before->to_string();
    }
    events_.clear();
    for (Seat& seat : seats_) {
      seat.device.recover();
      seat.last.reset();
    }
  }
  /// A cancel, or the failure of what a task lists.
  static bool left_device_usable(const Status& end) {
    return end.code() == ErrorCode::cancelled ||
           end.message().find("came after") != std::string::npos;
  }
  void expect_values() {
    for (const Seat& seat : seats_) {
      EXPECT_THAT(seat.add.context().read<float>(x_), Each(seat.x));
      EXPECT_THAT(seat.gather.context().read<float>(y_), Each(seat.y));
    }
  }

 private:
  /// A device, and what its memory has to hold in the end.
  struct Seat {
    Device device;
    Routine add, gather;
    std::optional<Event> last{};  // that touches its x
    float x = 0, y = 0;
  };

  void note(Seat& at, const Event& event, const std::optional<Event>& before) {
    if (before) events_.emplace_back(event, before);
    at.last = event;
  }

  /// In a task of any of them, which may take queues of the others.
  void copy_by(const Seat& by, Seat& from, Seat& to) {
    for (const Seat* const seat : {&from, &to}) {
      if (seat->last) by.device.wait(*seat->last);
    }
    const Event moved = to.add.context().view(x_).copy_from(by.device, from.add.context().view(x_));
    for (Seat* const seat : {&from, &to}) {
      if (seat->last) events_.emplace_back(moved, seat->last);
      note(*seat, seat->device.wait(moved), moved);
    }
    to.x = from.x;
  }

  std::mt19937_64 random_;
  const Tensor x_{"x", f32, {4}}, y_{"y", f32, {4}};
  std::vector<Seat> seats_;
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
        if (k == 30 && random() % 4 == 0) work.cancel();
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
