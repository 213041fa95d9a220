// Moves by queues of other devices of one completion domain: all of it is asked for at once, and
// the hardware keeps the order. Queues are held, all or all but one, where something has to wait.
#include <algorithm>
#include <array>
#include <numeric>

#include "tests/unit/runtime/asynchronous_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Where a test moves bytes to.
struct Far {
  explicit Far(const AsynchronousDevice* near, bool is_peer) : physical(make(near, is_peer)) {}
  static std::shared_ptr<AsynchronousDevice> make(const AsynchronousDevice* near, bool is_peer) {
    AsynchronousOptions options;
    options.is_peer = is_peer;
    return std::make_shared<AsynchronousDevice>(options, near);
  }
  const std::shared_ptr<AsynchronousDevice> physical;
  const Backend backend = open_held(physical);
  const Device device = backend.physical_device(0).new_virtual_device();
};

/// `device` moves bytes to the memory of another one, whose queue does it, or by way of the host.
class OneDomainTest : public AsynchronousFixture {
 protected:
  /// That was used before: no zeros are asked for.
  BufferView view_on(const Device& on, std::int64_t count = 4) const {
    const ArrayType array{f32, {count}};
    const BufferView view(Buffer::allocate(on, array), array);
    const std::vector<float> values(static_cast<std::size_t>(count));
    EXPECT_TRUE(put(on, view, values).wait().ok());
    return view;
  }
  static Event put(const Device& by, const BufferView& view, const std::vector<float>& values) {
    return view.from_host(by, std::as_bytes(std::span(values)));
  }
  static std::vector<float> values_of(const Device& by, const BufferView& view) {
    std::vector<float> values(view.num_bytes() / sizeof(float), -1);
    EXPECT_TRUE(view.to_host(by, std::as_writable_bytes(std::span(values))).wait().ok());
    return values;
  }
  /// So many operations are left, and stay.
  void expect_left(std::size_t operations) const {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (physical->pending() > operations && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(100us);
    std::this_thread::sleep_for(30ms);
    EXPECT_EQ(physical->pending(), operations);
  }
  /// The device works again, and nobody is told of what was.
  void expect_usable(const Far& far, const BufferView& here, const BufferView& there) const {
    device.recover();
    const std::vector<float> values{1, 1, 2, 3};
    EXPECT_TRUE(put(device, here, values).wait().ok());
    const Status moved = there.copy_from(device, here).wait();
    EXPECT_TRUE(moved.ok()) << moved.to_string();
    EXPECT_EQ(values_of(far.device, there), values);
    EXPECT_TRUE(far.device.timeline().status().ok());
  }

  const Far peer{physical.get(), true}, apart{physical.get(), false};
  const std::vector<float> first{1, 2, 3, 4}, second{5, 6, 7, 8};
};

// D15, D5: a move by the queue of another device waits there for what came before, and what follows
// waits for it, while the worker goes on
TEST_F(OneDomainTest, MovesByAnotherQueueHoldUpNoWorker) {
  const BufferView here = view_on(device), there = view_on(peer.device);
  physical->hold();
  const Event written = put(device, here, first);
  const Event moved = there.copy_from(device, here);
  wait_until_asked(2);
  physical->resume_last();  // the queue that moves
  expect_left(2);
  const Event next = put(device, here, second);
  wait_until_asked(3);
  physical->resume_last();  // the device's own
  expect_left(2);
  EXPECT_TRUE(written.wait().ok());
  EXPECT_FALSE(moved.done() || next.done());
  physical->resume();
  EXPECT_TRUE(next.wait().ok());
  EXPECT_EQ(values_of(peer.device, there), first);
  EXPECT_EQ(values_of(device, here), second);
}

// D15, D5: so does one that is staged, piece by piece through two blocks in turn
TEST_F(OneDomainTest, StagedMovesHoldUpNoWorker) {
  constexpr std::int64_t count = 3'000'000;  // three pieces
  const BufferView here = view_on(device, count), there = view_on(apart.device, count);
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  const std::vector<float> others(count, -3);
  physical->hold();
  put(device, here, values);
  const Event moved = there.copy_from(device, here);
  wait_until_asked(1 + 6);
  physical->resume_last();  // the one that writes: nothing was read
  expect_left(7);
  const Event next = put(device, here, others);
  wait_until_asked(8);
  physical->resume_last();  // the one that reads: into two blocks, of which none is written
  expect_left(8 - 3);
  EXPECT_FALSE(moved.done() || next.done());
  physical->resume();
  EXPECT_TRUE(next.wait().ok());
  EXPECT_EQ(values_of(apart.device, there), values);
  EXPECT_EQ(values_of(device, here), others);
}

// D15, D5: so does one by two other queues: both come after what was asked of the device's own
TEST_F(OneDomainTest, StagedMovesOfOthersHoldUpNoWorker) {
  const BufferView at_peer = view_on(peer.device), here = view_on(device), beside = view_on(device),
                   there = view_on(apart.device);
  EXPECT_TRUE(put(peer.device, at_peer, first).wait().ok());
  physical->hold();
  here.copy_from(peer.device, at_peer);                    // by its own queue
  const Event moved = there.copy_from(peer.device, here);  // by those of the others
  const Event last = beside.copy_from(peer.device, here);  // by the one that reads
  wait_until_asked(4);
  physical->resume_last();
  expect_left(4);
  physical->resume();
  EXPECT_TRUE(last.wait().ok());
  EXPECT_TRUE(moved.wait().ok());
  EXPECT_EQ(values_of(apart.device, there), first);
  EXPECT_EQ(values_of(device, beside), first);
}

// D15, D5: the blocks of a staged move are not filled again before they are empty
TEST_F(OneDomainTest, StagedMovesTakeTurns) {
  constexpr std::int64_t count = 30'000;  // two pieces
  constexpr int moves = 20;
  std::vector<BufferView> here, there;
  std::vector<std::vector<float>> values;
  for (int k = 0; k < moves; ++k) {
    here.push_back(view_on(device, count));
    there.push_back(view_on(apart.device, count));
    values.emplace_back(count, static_cast<float>(k));
    put(device, here.back(), values.back());
  }
  Event last;
  for (std::size_t k = 0; k < moves; ++k) last = there[k].copy_from(device, here[k]);
  EXPECT_TRUE(last.wait().ok());
  for (std::size_t k = 0; k < moves; ++k) EXPECT_EQ(values_of(apart.device, there[k]), values[k]);
}

// S23, S10, D15: what fails as it ends fails the move that asked for it, in its turn: neither the
// task before nor, once the device has recovered, a later one by the same queues
TEST_F(OneDomainTest, FailuresAtTheEndAreToldByTask) {
  for (const Far* const far : {&peer, &apart}) {
    const BufferView here = view_on(device), there = view_on(far->device);
    const auto before = device.timeline().counters();
    physical->hold();
    const Event written = put(device, here, first);
    const Event moved = there.copy_from(device, here);
    wait_until_asked(far == &peer ? 2 : 3);
    const Event next = put(device, here, second);
    wait_until_asked(far == &peer ? 3 : 4);
    physical->resume_last();  // all but what another queue does
    expect_left(2);
    physical->fail_next_end();
    physical->resume();
    EXPECT_THAT(moved.wait().to_string(), HasSubstr("the asynchronous device broke"));
    EXPECT_TRUE(written.wait().ok());
    EXPECT_FALSE(next.wait().ok());
    EXPECT_EQ(device.timeline().counters().failed, before.failed + 1);
    EXPECT_EQ(device.timeline().counters().skipped, before.skipped + 1);
    expect_usable(*far, here, there);
  }
}

// S23, D15: also where that was the first of two queues, which are both not the device's own
TEST_F(OneDomainTest, FailuresOfReadsAreToldByTask) {
  const BufferView here = view_on(device), there = view_on(apart.device);
  for (const Device* const by : {&device, &peer.device}) {
    physical->hold();
    const Event moved = there.copy_from(*by, here);
    wait_until_asked(2);
    physical->fail_next_end();
    physical->resume();
    EXPECT_THAT(moved.wait().to_string(), HasSubstr("the asynchronous device broke"));
    by->recover();
    EXPECT_TRUE(there.copy_from(*by, here).wait().ok());
  }
  expect_usable(apart, here, there);
}

// S23, S10, D15: what is refused as it is asked for fails the move in its turn, once what was asked
// for before has ended
TEST_F(OneDomainTest, FailuresAtIssueAreToldInTheirTurn) {
  for (const auto& [far, after] : {std::pair(&peer, 0U), {&apart, 0U}, {&apart, 1U}}) {
    const BufferView here = view_on(device), there = view_on(far->device);
    physical->hold();
    const Event written = put(device, here, first);
    wait_until_asked(1);
    physical->fail_issue(after);
    const Event moved = there.copy_from(device, here);
    wait_until_asked(1 + after);
    EXPECT_FALSE(moved.wait_for(20ms).ok());
    EXPECT_FALSE(moved.done());
    physical->resume();
    EXPECT_THAT(moved.wait().to_string(), HasSubstr("the asynchronous device takes nothing"));
    EXPECT_TRUE(written.wait().ok());
    expect_usable(*far, here, there);
  }
}

// S23, S10, D15: each of the marks may be refused: the move fails, and nobody waits for ever
TEST_F(OneDomainTest, RefusedMarksFailTheMove) {
  for (const Far* const far : {&peer, &apart}) {
    const BufferView here = view_on(device), there = view_on(far->device);
    const std::size_t marks = far == &peer ? 3 : 4;  // the last one is the task's own
    for (std::size_t k = 0; k < marks; ++k) {
      device.await();
      physical->fail_record(k);
      const Status moved = there.copy_from(device, here).wait();
      EXPECT_THAT(moved.to_string(), HasSubstr("takes no mark")) << "mark " << k;
      expect_usable(*far, here, there);
    }
  }
}

// S6, D15: a lost device leaves nobody waiting
TEST_F(OneDomainTest, LostDevicesEndMoves) {
  const BufferView here = view_on(device), there = view_on(peer.device),
                   further = view_on(apart.device);
  physical->hold();
  const Event written = put(device, here, first);
  const Event moved = there.copy_from(device, here);
  const Event staged = further.copy_from(device, here);
  wait_until_asked(4);
  physical->lose();
  physical->resume();
  EXPECT_THAT(written.wait().to_string(), HasSubstr("the asynchronous device is lost"));
  EXPECT_FALSE(moved.wait().ok());
  EXPECT_FALSE(staged.wait().ok());
}

// S13, D15: handles may go while the hardware waits
TEST_F(OneDomainTest, HandlesMayGoMeanwhile) {
  for (const Far* const far : {&peer, &apart}) {
    const BufferView there = view_on(far->device);
    Event last;
    std::thread resumes;
    {
      const Device third = backend.physical_device(0).new_virtual_device();
      const BufferView here = view_on(third);
      physical->hold();
      put(third, here, first);
      last = there.copy_from(third, here);
      wait_until_asked(far == &peer ? 2 : 3);
      resumes = std::thread([&] {
        std::this_thread::sleep_for(5ms);
        physical->resume();
      });
    }
    resumes.join();
    EXPECT_TRUE(last.wait().ok());
    EXPECT_EQ(values_of(far->device, there), first);
  }
}

// D15: where queues of one domain do not wait for each other, the host does
TEST_F(OneDomainTest, QueuesThatDoNotWaitAreWaitedFor) {
  physical->refuse_waits();
  constexpr std::int64_t count = 3'000'000;  // three pieces
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  for (const Far* const far : {&peer, &apart}) {
    const BufferView here = view_on(device, count), there = view_on(far->device, count);
    for (int round = 0; round < 5; ++round) {
      for (float& value : values) ++value;
      put(device, here, values);
      EXPECT_TRUE(there.copy_from(device, here).wait().ok());
      EXPECT_EQ(values_of(far->device, there), values);
    }
  }
  EXPECT_EQ(physical->waits(), 0U);
}

}  // namespace
}  // namespace heddle
