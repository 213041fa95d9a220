// Memory of devices: counted per tensor, reused, freed in timeline order, bounded.
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

class MemoryTest : public Conformance {
 protected:
  static TensorMemory of(const Device& device, const std::string& label) {
    for (TensorMemory& memory : device.memory()) {
      if (memory.label.find(label) != std::string::npos) return std::move(memory);
    }
    return {};
  }
  static std::span<const std::byte> bytes(const std::vector<float>& values) {
    return std::as_bytes(std::span(values));
  }
};
HEDDLE_CONFORMANCE_SUITE(MemoryTest);

// D2: bytes in use and peak per tensor; a destroyed tensor keeps its peak
TEST_P(MemoryTest, EachTensorIsAccountedFor) {
  const Tensor small("small", f32, {10}), large("large", f64, {100});
  Index i;
  Program p("p");
  p << (small(i) += 1.0) << (large(i) += 1.0);
  const Code code = backend.compile(p);
  {
    const Routine first = Context(device).link(code);
    {
      const Routine second = Context(device).link(code);  // memory of its own
      EXPECT_EQ(of(device, "'small'").bytes_in_use, 80u);
      EXPECT_EQ(of(device, "'large'").bytes_in_use, 1600u);
      EXPECT_THAT(device.memory()[0].label, AllOf(HasSubstr("'large'"), HasSubstr("f64[100]")));
      device.await();
    }
    EXPECT_EQ(of(device, "'large'").bytes_in_use, 800u);
    EXPECT_EQ(of(device, "'large'").bytes_peak, 1600u);
    device.await();
  }
  EXPECT_EQ(of(device, "'large'").bytes_in_use, 0u);
  EXPECT_EQ(of(device, "'large'").bytes_peak, 1600u);
  const Buffer buffer = Buffer::allocate(device, {i32, {1000}});
  EXPECT_EQ(of(device, "i32[1000]").bytes_in_use, 4000u);
  std::uint64_t all = 0;
  for (const TensorMemory& memory : device.memory()) all += memory.bytes_in_use;
  EXPECT_EQ(all, device.statistics().bytes_in_use);
}

// D2: freed memory is cached, and reused before new memory is allocated
TEST_P(MemoryTest, FreedMemoryIsTakenAgain) {
  const ArrayType type{f32, {1000}};
  {
    const Buffer buffer = Buffer::allocate(device, type);
  }
  device.await();
  const std::uint64_t kept = device.statistics().bytes_cached;
  EXPECT_GE(kept, 4000u);
  {
    const Buffer again = Buffer::allocate(device, type);
    EXPECT_EQ(device.statistics().bytes_cached, 0u);
    const Buffer another = Buffer::allocate(device, type);
  }
  device.await();
  EXPECT_EQ(device.statistics().bytes_cached, 2 * kept);
}

// D2: memory of pending tasks is not reused elsewhere, even after its last handle is dropped
TEST_P(MemoryTest, IsFreedInTimelineOrder) {
  const std::vector<float> sevens(1000, 7);
  std::vector<float> read(1000);
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  {
    const BufferView view(Buffer::allocate(device, {f32, {1000}}), {f32, {1000}});
    view.from_host(device, bytes(sevens));
    view.to_host(device, std::as_writable_bytes(std::span(read)));
  }
  EXPECT_EQ(device.statistics().bytes_in_use, 0u);
  EXPECT_GE(device.statistics().bytes_cached, 4000u);
  // Another device of this memory does not wait, and gets different memory.
  const Device other = backend.physical_device(0).new_virtual_device();
  const BufferView theirs(Buffer::allocate(other, {f32, {1000}}), {f32, {1000}});
  EXPECT_TRUE(theirs.from_host(other, bytes(std::vector<float>(1000, 1))).wait().ok());
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  device.await();
  EXPECT_THAT(read, Each(7));
  std::vector<float> still(1000);
  EXPECT_TRUE(theirs.to_host(other, std::as_writable_bytes(std::span(still))).wait().ok());
  EXPECT_THAT(still, Each(1));
  EXPECT_EQ(device.statistics().bytes_in_use, 0u);
  EXPECT_GE(device.statistics().bytes_cached, 4000u);
}

// D3: a bound per device; the error reports the request and the sizes of the owners; every object
// stays usable
TEST_P(MemoryTest, BytesMaxBoundsEachDevice) {
  BackendOptions options;
  options.name = GetParam();
  options.bytes_max = 100'000;
  const Backend bounded = Backend::open(options);
  const Hardware physical = bounded.physical_device(0);
  const Device first = physical.new_virtual_device(), second = physical.new_virtual_device();
  const Tensor weights("weights", f32, {16'000}), more("more", f32, {10'000});
  Index i;
  Program p("p"), q("q");
  p << (weights(i) += 1.0);
  q << (more(i) += 1.0);
  const Code code = bounded.compile(p), next = bounded.compile(q);
  {
    const Routine run = Context(first).link(code);
    const Status refused = failure([&] { static_cast<void>(run.context().link(next)); });
    EXPECT_EQ(refused.code(), ErrorCode::exhausted);
    EXPECT_THAT(text(refused),
                AllOf(HasSubstr("'more'"), HasSubstr("40000 bytes"), HasSubstr("100000 bytes"),
                      HasSubstr("bytes_max"), HasSubstr("'weights' f32[16000] on " + first.name()),
                      HasSubstr("(64000)")));
    EXPECT_TRUE(run.schedule().wait().ok());
    EXPECT_NO_THROW(static_cast<void>(Context(second).link(next)));  // has a bound of its own
    first.await();
  }
  // The cached 64,000 bytes exceed the bound, and are freed.
  const Routine then = Context(first).link(next);
  EXPECT_TRUE(then.schedule().wait().ok());
  EXPECT_EQ(then.context().read<float>(more)[9'999], 1);
}

/// Routines with a hidden array of `count` elements.
class ScratchTest : public MemoryTest {
 protected:
  struct Doubling {
    Tensor x, y;
    Code code;
  };
  Doubling doubling(std::int64_t count) const {
    const Tensor x("x", f32, {count}), y("y", f32, {count});
    Tensor t("t", f32, {count});
    t.set_mode(MemoryMode::local);
    const Index i("i", count);
    Program p("double" + std::to_string(count));
    p << (t(i) = x(i) * 2) << (y(i) = t(count - 1 - i) + t(i));
    return {x, y, backend.compile(p)};
  }
  static std::uint64_t scratch_of(const Device& on) {
    std::uint64_t bytes_in_use = 0;
    for (const TensorMemory& memory : on.memory()) {
      if (memory.label.find("the scratch of") != std::string::npos)
        bytes_in_use += memory.bytes_in_use;
    }
    return bytes_in_use;
  }
};
HEDDLE_CONFORMANCE_SUITE(ScratchTest);

// D2: routines of a device share their scratch; a routine that needs more replaces the scratch for
// later routines, and the last user frees it
TEST_P(ScratchTest, RoutinesOfADeviceShareIt) {
  const Doubling less = doubling(1000), more = doubling(4000);
  std::optional<Routine> first = Context(device).link(less.code);
  const std::uint64_t small = scratch_of(device);
  EXPECT_GE(small, 4000u);
  EXPECT_LT(small, 4064u);
  std::optional<Routine> second = Context(device).link(less.code);
  EXPECT_EQ(scratch_of(device), small);
  std::optional<Routine> third = Context(device).link(more.code);
  const std::uint64_t large = scratch_of(device) - small;
  EXPECT_GE(large, 16'000u);
  const Routine fourth = Context(device).link(less.code);  // uses the larger scratch
  EXPECT_EQ(scratch_of(device), small + large);
  const std::vector<std::pair<const Routine*, const Doubling*>> all{
      {&*first, &less}, {&*second, &less}, {&*third, &more}, {&fourth, &less}};
  for (int round = 0; round < 5; ++round) {
    float value = static_cast<float>(round);
    for (const auto& [routine, of] : all) {
      const auto count = static_cast<std::size_t>(of->x.num_elements());
      routine->context().write(of->x, std::vector<float>(count, ++value));
    }
    for (int run = 0; run < 3; ++run) {
      for (const auto& [routine, of] : all) routine->schedule();
    }
    value = static_cast<float>(round);
    for (const auto& [routine, of] : all)
      EXPECT_THAT(routine->context().read<float>(of->y), Each(4 * ++value));
  }
  const Device other = backend.physical_device(0).new_virtual_device();
  const Routine elsewhere = Context(other).link(less.code);
  EXPECT_EQ(scratch_of(other), small);
  for (int k = 0; k < 3; ++k) third->schedule();
  first.reset();
  second.reset();
  third.reset();
  device.await();
  EXPECT_EQ(scratch_of(device), large);
}

/// Reused memory with old contents, on a device whose tasks wait until released.
class FirstValuesTest : public MemoryTest {
 protected:
  FirstValuesTest() {
    static_cast<void>(dirty_view(device));
    device.wait(opened);
  }
  static Backend open_with(Sync sync) {
    BackendOptions options;
    options.name = GetParam();
    options.sync = sync;
    return Backend::open(options);
  }
  /// Unused memory with old contents.
  BufferView dirty_view(const Device& on) const {
    {
      const BufferView before(Buffer::allocate(on, type), type);
      EXPECT_TRUE(before.from_host(on, bytes(std::vector<float>(1000, 7))).wait().ok());
    }
    on.await();
    EXPECT_GT(on.statistics().bytes_cached, 0u);
    return {Buffer::allocate(on, type), type};
  }
  Code compile(double by) const {
    Index i;
    Program p("add");
    p << (sum(i) += by);
    return backend.compile(p);
  }
  std::vector<float> values_of(const BufferView& view, const Device& reader) {
    std::vector<float> values(1000, -1);
    const Event event = view.to_host(reader, std::as_writable_bytes(std::span(values)));
    EXPECT_TRUE(event.wait().ok()) << event.status().to_string();
    return values;
  }
  void open() { EXPECT_TRUE(gate.signal(opened.ticket()).ok()); }

  const ArrayType type{f32, {1000}};
  const Tensor sum{"sum", f32, {1000}};
  sched::ExternalTimeline gate{"gate"};
  const Event opened = gate.next();
};
HEDDLE_CONFORMANCE_SUITE(FirstValuesTest);

// D2: allocation submits no task: the first use starts with the initial values
TEST_P(FirstValuesTest, TakingMemorySubmitsNothing) {
  const Code add = compile(1);
  const std::uint64_t before = device.timeline().counters().submitted;
  const BufferView view(Buffer::allocate(device, type), type);
  const Routine routine = Context(device).link(add);
  EXPECT_EQ(device.timeline().counters().submitted, before);
  open();
  EXPECT_TRUE(routine.schedule().wait().ok());
  EXPECT_THAT(routine.context().read<float>(sum), Each(1));
  EXPECT_THAT(values_of(view, device), Each(0));
  EXPECT_EQ(device.timeline().counters().submitted, before + 3);
}

// D2, S11: initial values are present even if an earlier failure skips the task that writes them
TEST_P(FirstValuesTest, AreThereAfterAFailureAndAfterRecovery) {
  const Event failed = device.submit("fails", [] { throw std::runtime_error("before"); });
  const BufferView view(Buffer::allocate(device, type), type);
  std::vector<float> unread(1000);
  const Event skipped = view.to_host(device, std::as_writable_bytes(std::span(unread)));
  const Tensor ones("ones", HostArray::of({1000}, std::vector<float>(1000, 1)),
                    MemoryMode::hosted_nonconstant);
  Index i;
  Program p("p");
  p << (sum(i) += ones(i));
  const Routine routine = Context(device).link(backend.compile(p));
  open();
  EXPECT_FALSE(failed.wait().ok());
  device.recover();
  EXPECT_FALSE(skipped.status().ok());
  EXPECT_THAT(values_of(view, device), Each(0));
  EXPECT_TRUE(routine.schedule().wait().ok());
  EXPECT_THAT(routine.context().read<float>(sum), Each(1));
}

// D2, S12
TEST_P(FirstValuesTest, AreThereAfterTheyWereCancelled) {
  const BufferView view(Buffer::allocate(device, type), type);
  std::vector<float> unread(1000);
  const Event first = view.to_host(device, std::as_writable_bytes(std::span(unread)));
  device.cancel_pending();
  EXPECT_EQ(first.wait().code(), ErrorCode::cancelled);
  device.await();
  EXPECT_THAT(values_of(view, backend.physical_device(0).new_virtual_device()), Each(0));
  EXPECT_THAT(values_of(view, device), Each(0));
}

// D2: a reader on a second device waits for the device whose task writes the initial values, in
// every sync mode
TEST_P(FirstValuesTest, OtherDevicesComeAfterThem) {
  for (const Sync sync : {Sync::automatic, Sync::manual}) {
    const Backend opened_so = open_with(sync);
    const Device first = opened_so.physical_device(0).new_virtual_device();
    const Device other = opened_so.physical_device(0).new_virtual_device();
    const BufferView view = dirty_view(first);
    sched::ExternalTimeline hold("hold");
    first.wait(hold.next());
    std::vector<float> ours(1000, -1), theirs(1000, -1);
    const Event here = view.to_host(first, std::as_writable_bytes(std::span(ours)));
    const Event there = view.to_host(other, std::as_writable_bytes(std::span(theirs)));
    EXPECT_FALSE(there.done());
    EXPECT_TRUE(hold.signal(1).ok());
    EXPECT_TRUE(there.wait().ok());
    EXPECT_TRUE(here.wait().ok());
    EXPECT_THAT(ours, Each(0));
    EXPECT_THAT(theirs, Each(0));
  }
  open();
}

// D2: of several devices whose first uses race, one writes the initial values, and the rest wait
TEST_P(FirstValuesTest, OneOfThoseThatRacePutsThemThere) {
  open();
  const ArrayType half{f32, {500}};
  const Device other = backend.physical_device(0).new_virtual_device();
  const std::vector<float> ones(500, 1), twos(500, 2);
  constexpr int rounds = 300;
  std::vector<BufferView> views;
  for (int k = 0; k < rounds; ++k) views.push_back(dirty_view(device));
  std::atomic<int> arrived = 0;
  const auto write = [&](const Device& by, std::size_t offset, const std::vector<float>& values) {
    for (int k = 0; k < rounds; ++k) {
      const BufferView part(views[k].buffer(), half, offset);
      ++arrived;
      while (arrived < 2 * (k + 1)) continue;
      part.from_host(by, bytes(values));
    }
  };
  std::thread writer([&] { write(other, 0, ones); });
  write(device, 2000, twos);
  writer.join();
  other.await();
  for (const BufferView& view : views) {
    const std::vector<float> found = values_of(view, device);
    ASSERT_THAT(std::span(found).first(500), Each(1));
    ASSERT_THAT(std::span(found).last(500), Each(2));
  }
}

// D2: a tensor that the first routine overwrites completely has initial values too, although a
// routine that runs does not need them
TEST_P(FirstValuesTest, AreThereBeforeAWholeOverwrite) {
  open();
  const Backend manual = open_with(Sync::manual);
  const Device own = manual.physical_device(0).new_virtual_device();
  Tensor out("out", f32, {1000});
  Index i;
  Program p("fill");
  p << (out(i) = 3);
  static_cast<void>(dirty_view(own));
  const Routine fill = Context(own).link(manual.compile(p));
  const Context unread = Context(own).link(manual.compile(p)).context();
  EXPECT_THAT(unread.read<float>(out), Each(0));
  sched::ExternalTimeline hold("hold");
  own.wait(hold.next());
  const Event cancelled = fill.schedule();
  own.cancel_pending();
  EXPECT_TRUE(hold.signal(1).ok());
  EXPECT_EQ(cancelled.wait().code(), ErrorCode::cancelled);
  EXPECT_THAT(fill.context().read<float>(out), Each(0));
  EXPECT_TRUE(fill.schedule().wait().ok());
  EXPECT_THAT(fill.context().read<float>(out), Each(3));
}

// D2, D17: new owners, merges and copies get the initial values
TEST_P(FirstValuesTest, AreThereForWhoeverUsesItFirst) {
  open();
  const Device other = backend.physical_device(0).new_virtual_device();
  EXPECT_THAT(values_of({dirty_view(device).buffer().donate(), type}, other), Each(0));
  const BufferView copied = dirty_view(other);
  EXPECT_TRUE(copied.copy_from(other, dirty_view(device)).wait().ok());
  EXPECT_THAT(values_of(copied, device), Each(0));
  Tensor to("to", f32, {1000});
  to.set_mode(MemoryMode::on_device);
  Index i;
  Program p("gather");
  p << (to(i) = merge(sum)(i) + 1);
  const Routine gather = Context(other).link(backend.compile(p));
  for (const MergeMode mode : {MergeMode::copy, MergeMode::stream}) {
    for (const bool loads : {false, true}) {
      const Context source = Context(device).with(sum, dirty_view(device));
      if (loads) load_merge(gather, source, mode);
      const Event merged = loads ? gather.schedule() : merge(gather, source, mode);
      EXPECT_TRUE(merged.wait().ok());
      EXPECT_THAT(gather.context().read<float>(to), Each(1));
    }
  }
}

}  // namespace
}  // namespace heddle
