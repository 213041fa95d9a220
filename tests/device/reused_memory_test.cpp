// Memory of destroyed buffers with pending tasks: the next owner, and the values seen by each.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

/// A device whose tasks wait until released; the last task reads a destroyed buffer.
class ReusedMemoryTest : public Conformance {
 protected:
  ReusedMemoryTest() {
    const BufferView sevens = filled(7);
    device.wait(opened);
    read = sevens.to_host(device, std::as_writable_bytes(std::span(seen)));
  }
  static std::span<const std::byte> bytes(const std::vector<float>& values) {
    return std::as_bytes(std::span(values));
  }
  BufferView filled(float value) const {
    BufferView view(Buffer::allocate(device, type), type);
    const std::vector<float> values(1000, value);
    EXPECT_TRUE(view.from_host(device, bytes(values)).wait().ok());
    return view;
  }
  /// A tensor that the first routine fills, which makes zeroing unnecessary.
  Routine filler(const Device& on, float value) const {
    Tensor t("t", f32, {1000});
    t.set_mode(MemoryMode::on_device);
    Index i;
    Program p("fill");
    p << (t(i) = Expr(value));
    return Context(on).link(backend.compile(p));
  }
  void open() { EXPECT_TRUE(gate.signal(opened.ticket()).ok()); }

  const ArrayType type{f32, {1000}};
  sched::ExternalTimeline gate{"gate"};
  const Event opened = gate.next();
  std::vector<float> seen = std::vector<float>(1000, -1);
  Event read;
};
HEDDLE_CONFORMANCE_SUITE(ReusedMemoryTest);

// D2: memory of a destroyed buffer is reused at once by its own device, even with pending tasks and
// repeatedly, and each task reads the expected values
TEST_P(ReusedMemoryTest, IsTakenAtOnceByItsOwnDevice) {
  const std::uint64_t kept = device.statistics().bytes_cached;
  EXPECT_GE(kept, 4000u);
  std::vector<std::vector<float>> results(5, std::vector<float>(1000, -1));
  std::vector<float> zeros(1000, -1);
  const std::vector<float> ones(1000, 1);
  std::vector<Event> events;
  for (std::size_t round = 0; round < results.size(); ++round) {
    const BufferView view(Buffer::allocate(device, type), type);
    EXPECT_EQ(device.statistics().bytes_cached, 0u) << round;
    EXPECT_EQ(device.statistics().bytes_in_use, 4000u) << round;
    if (round == 0) view.to_host(device, std::as_writable_bytes(std::span(zeros)));
    view.from_host(device, bytes(ones));
    events.push_back(view.to_host(device, std::as_writable_bytes(std::span(results[round]))));
  }
  EXPECT_EQ(device.statistics().bytes_cached, kept);
  EXPECT_FALSE(read.done());
  open();
  device.await();
  EXPECT_THAT(seen, Each(7));
  EXPECT_THAT(zeros, Each(0));
  for (const auto& result : results) EXPECT_THAT(result, Each(1));
}

// D2: likewise memory of tensors whose routine was destroyed, with launches in the queue
TEST_P(ReusedMemoryTest, MemoryOfLaunchesIsTakenAtOnce) {
  static_cast<void>(filler(device, 5).schedule());
  EXPECT_EQ(device.statistics().bytes_in_use, 0u);
  const std::uint64_t kept = device.statistics().bytes_cached;
  const Routine next = filler(device, 6);
  static_cast<void>(next.schedule());
  EXPECT_LT(device.statistics().bytes_cached, kept);
  open();
  device.await();
  EXPECT_THAT(seen, Each(7));
  EXPECT_THAT(next.context().read<float>(next.context().tensors()[0]), Each(6));
}

// D2: a different device that uses the memory first waits for the pending uses
TEST_P(ReusedMemoryTest, OtherDevicesComeAfterItsUses) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Routine fills = filler(device, 6);
  EXPECT_EQ(device.statistics().bytes_cached, 0u);
  const Context& context = fills.context();
  const BufferView view = context.view(context.tensors()[0]);
  const std::vector<float> twos(1000, 2);
  const Event written = view.from_host(other, bytes(twos));
  static_cast<void>(written.wait_for(std::chrono::milliseconds(20)));
  EXPECT_FALSE(written.done());
  open();
  EXPECT_TRUE(written.wait().ok());
  device.await();
  EXPECT_THAT(seen, Each(7));
  EXPECT_THAT(context.read<float>(context.tensors()[0]), Each(2));
}

// D2, S12: a second device whose task is cancelled does not touch the memory early either
TEST_P(ReusedMemoryTest, CancelledUsesOfOthersTouchNothingBefore) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const BufferView view(Buffer::allocate(device, type), type);
  EXPECT_EQ(device.statistics().bytes_cached, 0u);
  std::vector<float> values(1000, -1);
  const Event first = view.to_host(other, std::as_writable_bytes(std::span(values)));
  other.cancel_pending();
  EXPECT_EQ(first.wait().code(), ErrorCode::cancelled);
  EXPECT_FALSE(read.done());
  open();
  device.await();
  EXPECT_THAT(seen, Each(7));
  EXPECT_TRUE(view.to_host(device, std::as_writable_bytes(std::span(values))).wait().ok());
  EXPECT_THAT(values, Each(0));
}

// D2: failed writes to a destroyed buffer do not affect the next owner of the memory
TEST_P(ReusedMemoryTest, FailuresOfFormerUsesConcernNobody) {
  sched::ExternalTimeline failing("failing");
  TransferOptions after;
  after.after = {failing.next()};
  Event failed;
  {
    const Tensor t("t", HostArray(type), MemoryMode::hosted_nonconstant);
    const BufferView gone(Buffer::allocate(device, type), type);
    EXPECT_EQ(device.statistics().bytes_cached, 0u);
    failed = Context(device).with(t, gone).from_host(t, after).event;
  }
  const BufferView view(Buffer::allocate(device, type), type);
  EXPECT_EQ(device.statistics().bytes_cached, 0u);
  open();
  EXPECT_TRUE(failing.signal(1, Status(ErrorCode::internal, "it was to be written")).ok());
  EXPECT_FALSE(failed.wait().ok());
  device.recover();
  std::vector<float> values(1000, -1);
  EXPECT_TRUE(view.to_host(device, std::as_writable_bytes(std::span(values))).wait().ok());
  EXPECT_THAT(values, Each(0));
  EXPECT_THAT(seen, Each(7));
}

// D2, D4: initial values of host storage, which the call itself writes, do not disturb pending
// tasks
TEST_P(ReusedMemoryTest, FirstValuesAtTheCallGetOtherMemory) {
  const Tensor t("t", HostArray::of({1000}, std::vector<float>(1000, 4)),
                 MemoryMode::hosted_nonconstant);
  Index i;
  Program p("add");
  p << (t(i) += 1.0);
  const Routine add = Context(device).link(backend.compile(p));
  EXPECT_TRUE(add.schedule().accepted());
  open();
  device.await();
  EXPECT_THAT(seen, Each(7));
  EXPECT_THAT(add.context().read<float>(t), Each(5));
}

// D2, S4: a loop that links, schedules and drops, far ahead of its device, needs no more memory
// than a loop that waits: a full queue blocks, and where its calls fail instead, the error has both
// reasons
TEST_P(ReusedMemoryTest, LoopsAheadOfAFullQueueStayFlat) {
  open();
  EXPECT_TRUE(read.wait().ok());
  BackendOptions options;
  options.name = GetParam();
  options.bytes_max = 100'000;
  options.scheduling.device.queue_size = 8;
  const Tensor x("x", f32, {16'000});
  Index i;
  Program p("p");
  p << (x(i) += 1.0);
  const auto loop = [&](const Backend& bounded, const Device& ahead) {
    const Code code = bounded.compile(p);
    for (int round = 0; round < 30; ++round) Context(ahead).link(code).schedule();
  };
  sched::ExternalTimeline gate_of("gate");
  {
    const Backend bounded = Backend::open(options);
    const Device ahead = bounded.physical_device(0).new_virtual_device();
    const Event held = gate_of.next();
    ahead.wait(held);
    std::thread opens([&] {
      while (ahead.timeline().counters().submitted < 8) std::this_thread::yield();
      EXPECT_TRUE(gate_of.signal(held.ticket()).ok());
    });
    EXPECT_NO_THROW(loop(bounded, ahead));
    opens.join();
    ahead.await();
    EXPECT_EQ(ahead.statistics().bytes_peak, 64'000u);
  }
  options.scheduling.device.full = sched::FullPolicy::fail;
  const Backend bounded = Backend::open(options);
  const Device ahead = bounded.physical_device(0).new_virtual_device();
  const Event held = gate_of.next();
  ahead.wait(held);
  const Status refused = failure([&] { loop(bounded, ahead); });
  EXPECT_EQ(refused.code(), ErrorCode::exhausted);
  EXPECT_THAT(text(refused),
              AllOf(HasSubstr("'x'"), HasSubstr("64000 bytes"), HasSubstr("bytes_max"),
                    HasSubstr("its queue of 8 tasks is full")));
  EXPECT_TRUE(gate_of.signal(held.ticket()).ok());
  ahead.await();
  EXPECT_NO_THROW(Context(ahead).link(bounded.compile(p)).schedule());
}

// D2: trim returns cached memory after its last use
TEST_P(ReusedMemoryTest, TrimmedMemoryGoesAfterItsUses) {
  EXPECT_GE(device.statistics().bytes_cached, 4000u);
  device.trim();
  EXPECT_GE(device.statistics().bytes_cached, 4000u);  // by the task
  const BufferView view(Buffer::allocate(device, type), type);
  EXPECT_GE(device.statistics().bytes_cached, 4000u);
  open();
  device.await();
  for (int k = 0; k < 5000 && device.statistics().bytes_cached > 0; ++k)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(device.statistics().bytes_cached, 0u);
  EXPECT_THAT(seen, Each(7));
}

/// Buffers that threads publish to each other, each filled with a known value.
class RandomReuseTest : public Conformance {
 protected:
  struct Filled {
    BufferView view;
    float value;
  };
  struct Read {
    Event event;
    std::shared_ptr<std::vector<float>> values;
    float value;
  };

  void fill_and_read(unsigned seed) {
    std::mt19937 random(seed);
    const Device mine = backend.physical_device(0).new_virtual_device();
    std::vector<Read> reads;
    std::vector<std::shared_ptr<std::vector<float>>> sources;  // kept until read
    for (unsigned round = 0; round < 300; ++round) {
      const ArrayType type{f32, {std::int64_t{100} << (4 * (random() % 3))}};
      const auto size = static_cast<std::size_t>(type.dims[0]);
      const float value = static_cast<float>(seed * 1000 + round);
      const BufferView fresh(Buffer::allocate(mine, type), type);
      if (random() % 4 == 0) read(mine, {fresh, 0}, reads);
      sources.push_back(std::make_shared<std::vector<float>>(size, value));
      fresh.from_host(mine, std::as_bytes(std::span(*sources.back())));
      std::optional<Filled> other;
      {
        const std::lock_guard lock(mutex_);
        std::optional<Filled>& place = filled_[random() % filled_.size()];
        other = place;
        place = Filled{fresh, value};
      }
      if (other) read(mine, *other, reads);
      if (random() % 32 == 0) mine.trim();
    }
    for (const Read& each : reads) {
      EXPECT_TRUE(each.event.wait().ok()) << text(each.event.status());
      EXPECT_EQ(std::ranges::count(*each.values, each.value), std::ssize(*each.values));
    }
    mine.await();
  }
  static void read(const Device& on, const Filled& filled, std::vector<Read>& reads) {
    auto values = std::make_shared<std::vector<float>>(filled.view.num_bytes() / 4, -1);
    const auto bytes = std::as_writable_bytes(std::span(*values));
    reads.push_back({filled.view.to_host(on, bytes), values, filled.value});
  }

 private:
  std::mutex mutex_;
  std::vector<std::optional<Filled>> filled_ = std::vector<std::optional<Filled>>(4);
};
HEDDLE_CONFORMANCE_SUITE(RandomReuseTest);

// D2, S2: for any memory a buffer gets, with any earlier or pending uses, each read finds the
// values written to that buffer, or zeros
TEST_P(RandomReuseTest, EachBufferHasItsOwnValues) {
  std::vector<std::jthread> threads;
  for (unsigned k = 1; k <= 3; ++k) threads.emplace_back([this, k] { fill_and_read(k); });
}

}  // namespace
}  // namespace heddle
