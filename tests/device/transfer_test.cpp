// Devices, memory, transfers, merge buffers: the D clauses.
#include <algorithm>
#include <latch>
#include <numeric>
#include <thread>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class TransferTest : public Conformance {
 protected:
  /// A routine that fills `t` with a value, linked on a device.
  Routine filler(const Device& on, const Tensor& t, double value) const {
    Index i;
    Program p("fill");
    p << (t(i) = Expr(value));
    return Context(on).link(backend.compile(p));
  }
  /// A routine that adds the merge buffer of `t` to `t`.
  Routine adder(const Device& on, const Tensor& t) const {
    Index i;
    Program p("add");
    p << (t(i) += merge(t)(i));
    return Context(on).link(backend.compile(p));
  }
};
HEDDLE_CONFORMANCE_SUITE(TransferTest);

// D1, O7, O8, O9: unique ids, memoised physical devices, range errors
TEST_P(TransferTest, DevicesHaveUniqueNames) {
  const Hardware first = backend.physical_device(0);
  EXPECT_TRUE(first == backend.physical_device(0));
  const Device other = first.new_virtual_device();
  EXPECT_EQ(device.name(), GetParam() + ":0.0");
  EXPECT_EQ(other.name(), GetParam() + ":0.1");
  EXPECT_EQ(other.subordinal(), 1);
  EXPECT_GE(backend.num_physical_devices(), 1);
  for (const int bad : {-1, backend.num_physical_devices(), 1 << 30}) {
    EXPECT_THAT(text(failure([&] { static_cast<void>(backend.physical_device(bad)); })),
                AllOf(HasSubstr(std::to_string(bad)), HasSubstr("0 to")));
  }
}

// D1, O5, O53: suggestions and the exact cap
TEST_P(TransferTest, AllDevicesHonoursItsCap) {
  BackendOptions options;
  options.name = GetParam();
  options.virtual_devices = 3;
  const Backend many = Backend::open(options);
  EXPECT_EQ(many.suggested_num_virtual_devices(), 3);
  const int physical = many.num_physical_devices();
  for (int max = 1; max <= 3 * physical + 2; ++max) {
    EXPECT_EQ(static_cast<int>(many.all_devices(max).size()), std::min(max, 3 * physical));
  }
  EXPECT_EQ(failure([&] { static_cast<void>(many.all_devices(0)); }).code(),
            ErrorCode::invalid_argument);
}

// D2: counted, reused, aligned
TEST_P(TransferTest, MemoryIsCountedAlignedAndReused) {
  const auto before = device.statistics();
  {
    const Buffer buffer = Buffer::allocate(device, {f32, {1000}});
    EXPECT_EQ(device.statistics().bytes_in_use, before.bytes_in_use + 4000);
    std::vector<float> values(1000, 1);
    const BufferView view(buffer, {f32, {1000}});
    EXPECT_TRUE(view.to_host(device, std::as_writable_bytes(std::span(values))).wait().ok());
    EXPECT_EQ(values, std::vector<float>(1000, 0));
    for (float& v : values) v = 7;
    EXPECT_TRUE(view.from_host(device, std::as_bytes(std::span(values))).wait().ok());
  }
  EXPECT_EQ(device.statistics().bytes_in_use, before.bytes_in_use);
  EXPECT_GE(device.statistics().bytes_peak, before.bytes_in_use + 4000);
  const Buffer again = Buffer::allocate(device, {f32, {1000}});  // reuses the block, zero again
  std::vector<float> values(1000, 1);
  EXPECT_TRUE(BufferView(again, {f32, {1000}})
                  .to_host(device, std::as_writable_bytes(std::span(values)))
                  .wait()
                  .ok());
  EXPECT_EQ(values, std::vector<float>(1000, 0));
}

// D3, bad input: out of memory gives `exhausted` with tensor and bytes, and every object stays
// usable
TEST_P(TransferTest, OutOfMemoryNamesTheTensorAndLeavesAllUsable) {
  const Tensor huge("huge", f32, {std::int64_t{1} << 58}), fitting("small", f32, {2});
  Index i;
  Program p("p"), q("q");
  p << (huge(i) += 1.0);
  const Status refused =
      failure([&] { static_cast<void>(Context(device).link(backend.compile(p))); });
  EXPECT_EQ(refused.code(), ErrorCode::exhausted);
  EXPECT_THAT(text(refused),
              AllOf(HasSubstr("'huge'"), HasSubstr(std::to_string(std::int64_t{1} << 60))));
  const Routine fine = filler(device, fitting, 3);
  fine.schedule();
  EXPECT_THAT(fine.context().read<float>(fitting), ElementsAre(3, 3));
}

// D4, O39, O40: host storage; a transfer without work is reported as such; memory is touched when
// the task runs
TEST_P(TransferTest, HostTransfersRunInOrder) {
  const HostArray host = HostArray::range({f32, {3}});
  const Tensor x("x", host), plain("plain", f32, {3}),
      elsewhere("elsewhere", HostArray({f32, {3}}));
  Index i;
  Program p("p");
  p << (x(i) *= 2.0) << (plain(i) = x(i));
  const Routine run = Context(device).link(backend.compile(p));
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  const Transfer in = run.context().from_host(x);
  EXPECT_EQ(in.outcome, TransferOutcome::scheduled);
  host.set(0, 10);  // before the task runs
  run.schedule();
  const Transfer out = run.context().to_host(x);
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(out.event.wait().ok());
  EXPECT_THAT(host.values<float>(), ElementsAre(20, 2, 4));
  EXPECT_EQ(run.context().from_host(plain).outcome, TransferOutcome::nothing_to_do);
  EXPECT_THAT(run.context().from_host(plain).reason, HasSubstr("host storage"));
  EXPECT_THAT(run.context().to_host(elsewhere).reason, HasSubstr("not in context"));
}

// D4: constants are read in place where memory is shared
TEST_P(TransferTest, HostedConstantsAreReadInPlace) {
  const HostArray host = HostArray::range({f32, {3}});
  const Tensor x("x", host, MemoryMode::hosted_constant), y("y", f32, {3});
  Index i;
  Program p("p");
  p << (y(i) = x(i) + 1.0);
  const auto before = device.statistics().bytes_in_use;
  const Routine run = Context(device).link(backend.compile(p));
  const bool shared = is_cpu_row(GetParam());
  EXPECT_EQ(run.context().from_host(x).outcome,
            shared ? TransferOutcome::in_place : TransferOutcome::scheduled);
  if (shared) {
    EXPECT_EQ(run.context().to_host(x).outcome, TransferOutcome::in_place);
  } else {
    EXPECT_EQ(failure([&] { static_cast<void>(run.context().to_host(x)); }).code(),
              ErrorCode::failed_precondition);
  }
  EXPECT_EQ(device.statistics().bytes_in_use, before + (shared ? 12 : 24));  // y alone, or x too
  run.schedule();
  EXPECT_THAT(run.context().read<float>(y), ElementsAre(1, 2, 3));
}

// D5, O33, O34
TEST_P(TransferTest, CopiesBetweenDevices) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor t("t", f32, {2}), absent("absent", f32, {2});
  const Routine from = filler(device, t, 5);
  const Routine to = filler(other, t, 1);
  const Event filled = from.schedule();
  to.schedule();
  TransferOptions after;
  after.after = {filled};
  const Transfer moved = copy(t, from.context(), to.context(), after);
  EXPECT_EQ(moved.outcome, TransferOutcome::scheduled);
  EXPECT_TRUE(moved.event.wait().ok());
  EXPECT_THAT(to.context().read<float>(t), ElementsAre(5, 5));
  EXPECT_EQ(other.statistics().copies, 1u);
  const Status missing =
      failure([&] { static_cast<void>(copy(absent, from.context(), to.context())); });
  EXPECT_EQ(missing.code(), ErrorCode::not_found);
  EXPECT_THAT(text(missing), HasSubstr("'absent'"));
  EXPECT_EQ(copy(t, from.context(), Context(other)).outcome, TransferOutcome::nothing_to_do);
}

// D5, bad input: copy between two backends and open instances
TEST_P(TransferTest, CopiesBetweenBackends) {
  const Backend second = Backend::open(GetParam() == "cc" ? "sync_gccjit" : "cc");
  const Device other = second.physical_device(0).new_virtual_device();
  const Tensor t("t", f32, {2});
  const Routine from = filler(device, t, 5);
  EXPECT_TRUE(from.schedule().wait().ok());
  Index i;
  Program p("use");
  p << (t(i) += 1.0);
  const Routine to = Context(other).link(second.compile(p));
  static_cast<void>(copy(t, from.context(), to.context()));
  to.schedule();
  EXPECT_THAT(to.context().read<float>(t), ElementsAre(6, 6));
}

// D5, D15: any device copies bytes between any two devices, in pieces where staged; later work on
// the device waits for the copy
TEST_P(TransferTest, AnyDeviceMovesTheBytes) {
  const ArrayType type{f32, {40'000}};
  std::vector<Device> devices{device, backend.physical_device(0).new_virtual_device()};
  for (int k = 1; k < std::min(3, backend.num_physical_devices()); ++k)
    devices.push_back(backend.physical_device(k).new_virtual_device());
  for (const Device& by : devices) {
    std::vector<BufferView> views;
    for (int round = 0; round < 3; ++round) {
      for (const Device& on : devices) views.emplace_back(Buffer::allocate(on, type), type);
    }
    std::vector<float> values(40'000), back(values.size());
    std::iota(values.begin(), values.end(), 1.0F);
    EXPECT_TRUE(views[0].from_host(devices[0], std::as_bytes(std::span(values))).wait().ok());
    Event moved;
    for (std::size_t k = 1; k < views.size(); ++k) moved = views[k].copy_from(by, views[k - 1]);
    EXPECT_TRUE(moved.wait().ok()) << by.name();
    const auto bytes = std::as_writable_bytes(std::span(back));
    EXPECT_TRUE(views.back().to_host(devices.back(), bytes).wait().ok());
    EXPECT_EQ(back, values) << by.name();
  }
}

// D6, D8, O35, O36, O37: both modes; the slot grows and is reused for any tensor
TEST_P(TransferTest, MergesByCopyAndByStream) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor g("g", f32, {2});
  const Routine source = filler(device, g, 5);
  const Routine consumer = adder(other, g);
  EXPECT_TRUE(source.schedule().wait().ok());
  EXPECT_TRUE(consumer.context().expected_merge_tensor() == g);
  EXPECT_TRUE(merge(consumer, source.context(), MergeMode::copy).wait().ok());
  EXPECT_THAT(consumer.context().read<float>(g), ElementsAre(5, 5));
  const Transfer streamed = load_merge(consumer, source.context(), MergeMode::stream);
  EXPECT_EQ(streamed.outcome, TransferOutcome::streamed);
  consumer.schedule();
  EXPECT_THAT(consumer.context().read<float>(g), ElementsAre(10, 10));
  EXPECT_EQ(other.statistics().merges_copied, 1u);
  EXPECT_EQ(other.statistics().merges_streamed, 1u);
  const Tensor large("large", f32, {1000});
  const Routine large_source = filler(device, large, 2);
  const Routine large_consumer = adder(other, large);
  EXPECT_TRUE(large_source.schedule().wait().ok());
  EXPECT_TRUE(merge(large_consumer, large_source.context(), MergeMode::copy).wait().ok());
  EXPECT_EQ(large_consumer.context().read<float>(large)[999], 2);
}

// D6: stream borrows the live buffer, copy does not; under automatic order the values are equal
TEST_P(TransferTest, StreamSeesLaterWritesInManualOnly) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor g("g", f32, {1});
  const Routine source = filler(device, g, 5);
  for (const Sync sync : {Sync::manual, Sync::automatic}) {
    for (const MergeMode mode : {MergeMode::copy, MergeMode::stream}) {
      EXPECT_TRUE(source.schedule().wait().ok());
      const Routine consumer = adder(other, g);
      TransferOptions options;
      options.sync = sync;
      const Transfer load = load_merge(consumer, source.context(), mode, options);
      EXPECT_TRUE(load.event.wait().ok());
      source.context().write(g, std::vector<float>{7});
      consumer.schedule();
      const bool seen = sync == Sync::manual && load.outcome == TransferOutcome::streamed;
      EXPECT_THAT(consumer.context().read<float>(g), ElementsAre(seen ? 7 : 5));
    }
  }
}

// D7, O31, O32, O58, bad input: a different tensor, an empty buffer, no merge at all, a different
// mode: each is refused at the call, and the device stays usable
TEST_P(TransferTest, MergeMismatchNamesBothTensors) {
  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor g("g", f32, {2}), h("h", f32, {2});
  const Routine consumer = adder(other, g);
  const auto refused = [&](const std::string& found) {
    const Status status = failure([&] { consumer.schedule(); });
    EXPECT_EQ(status.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(text(status), AllOf(HasSubstr("'g'"), HasSubstr(found)));
  };
  refused("none");
  const Routine source = filler(device, h, 1);
  EXPECT_TRUE(source.schedule().wait().ok());
  const Status lacking =
      failure([&] { static_cast<void>(load_merge(consumer, source.context(), MergeMode::copy)); });
  EXPECT_EQ(lacking.code(), ErrorCode::not_found);
  static_cast<void>(load_merge(other, h, source.context(), MergeMode::stream));
  refused("'h'");
  other.await();
  const Routine plain = filler(other, g, 1);
  EXPECT_THAT(text(failure([&] {
                static_cast<void>(load_merge(plain, source.context(), MergeMode::copy));
              })),
              HasSubstr("reads no merge buffer"));
  Index i;
  Program p("only_copy");
  p << (g(i) += merge(g)(i));
  CompileOptions options;
  options.merge_mode = MergeMode::copy;
  const Routine strict = Context(other).link(backend.compile(p, options));
  EXPECT_THAT(
      text(failure([&] {
        static_cast<void>(load_merge(strict, filler(device, g, 1).context(), MergeMode::stream));
      })),
      AllOf(HasSubstr("copy only"), HasSubstr("'only_copy'")));
}

// D5, D12: views are copied between any memories, on the device of either view
TEST_P(TransferTest, ViewsAreCopiedBetweenBackends) {
  const Backend second = Backend::open(GetParam() == "cc" ? "sync_gccjit" : "cc");
  const Device other = second.physical_device(0).new_virtual_device();
  const ArrayType type{f32, {2}};
  for (const auto& [from, to] : {std::pair(device, other), std::pair(other, device)}) {
    for (const Device& on : {from, to}) {
      const BufferView source(Buffer::allocate(from, type), type);
      const BufferView target(Buffer::allocate(to, type), type);
      const std::vector<float> values{3, 4};
      EXPECT_TRUE(source.from_host(from, std::as_bytes(std::span(values))).wait().ok());
      to.await();
      EXPECT_TRUE(target.copy_from(on, source).wait().ok());
      std::vector<float> read(2);
      EXPECT_TRUE(target.to_host(to, std::as_writable_bytes(std::span(read))).wait().ok());
      EXPECT_EQ(read, values);
    }
  }
}

// D5: copies between two places of one buffer
TEST_P(TransferTest, CopiesBetweenPlacesOfOneBuffer) {
  const Tensor t("t", f32, {2});
  const Buffer buffer = Buffer::allocate(device, {f32, {4}});
  const Context low = Context(device).with(t, BufferView(buffer, t.type()));
  const Context high = Context(device).with(t, BufferView(buffer, t.type(), 8));
  low.write(t, std::vector<float>{1, 2});
  EXPECT_EQ(copy(t, low, high).outcome, TransferOutcome::scheduled);
  EXPECT_THAT(high.read<float>(t), ElementsAre(1, 2));
  EXPECT_EQ(copy(t, low, Context(device).with(t, BufferView(buffer, t.type()))).outcome,
            TransferOutcome::nothing_to_do);
}

// D12, O41
TEST_P(TransferTest, BuffersAreFirstClass) {
  const Buffer buffer = Buffer::allocate(device, {i32, {8}});
  const BufferView all(buffer, {i32, {8}});
  const BufferView tail(buffer, {i32, {2, 2}}, 16);
  const std::vector<std::int32_t> values{1, 2, 3, 4};
  EXPECT_TRUE(tail.from_host(device, std::as_bytes(std::span(values))).wait().ok());
  std::vector<std::int32_t> read(8);
  EXPECT_TRUE(all.to_host(device, std::as_writable_bytes(std::span(read))).wait().ok());
  EXPECT_THAT(read, ElementsAre(0, 0, 0, 0, 1, 2, 3, 4));
  for (const auto& [type, offset] :
       {std::pair<ArrayType, std::size_t>{{i32, {9}}, 0}, {{i32, {1}}, 2}, {{i32, {1}}, 32}}) {
    EXPECT_EQ(failure([&] { static_cast<void>(BufferView(buffer, type, offset)); }).code(),
              ErrorCode::invalid_argument);
  }
  EXPECT_EQ(failure([&] { tail.from_host(device, std::as_bytes(std::span(read))); }).code(),
            ErrorCode::invalid_argument);
  EXPECT_THAT(text(failure([&] { all.copy_from(device, BufferView(buffer, {f32, {8}})); })),
              AllOf(HasSubstr("i32[8]"), HasSubstr("f32[8]")));
  const Buffer donated = buffer.donate();
  EXPECT_FALSE(buffer.live());
  EXPECT_TRUE(donated.live());
  EXPECT_EQ(failure([&] { all.to_host(device, std::as_writable_bytes(std::span(read))); }).code(),
            ErrorCode::failed_precondition);
  const Tensor t("t", i32, {8});
  const Context context = Context(device).with(t, BufferView(donated, {i32, {8}}));
  EXPECT_EQ(context.read<std::int32_t>(t)[7], 4);
}

// S10, S11: a failing host task poisons the device; recover keeps buffers
TEST_P(TransferTest, RecoverKeepsBuffers) {
  const Tensor t("t", f32, {2});
  const Routine run = filler(device, t, 4);
  EXPECT_TRUE(run.schedule().wait().ok());
  device.submit("bad", [] { throw std::runtime_error("broken sensor"); });
  EXPECT_THAT(text(failure([&] { device.await(); })),
              AllOf(HasSubstr(device.name()), HasSubstr("'bad'"), HasSubstr("broken sensor")));
  EXPECT_THAT(text(failure([&] { run.schedule(); })), HasSubstr("broken sensor"));
  device.recover();
  EXPECT_THAT(run.context().read<float>(t), ElementsAre(4, 4));
}

// J5, S2: compile, link and every kind of transfer from eight threads at once
TEST_P(TransferTest, ThreadsCompileLinkAndTransferAtOnce) {
  std::vector<std::thread> threads;
  std::latch start(8);
  for (int k = 0; k < 8; ++k) {
    threads.emplace_back([&, k] {
      start.arrive_and_wait();
      const Device mine = backend.physical_device(0).new_virtual_device();
      const Tensor t("t", f32, {4});
      const Routine source = filler(device, t, k);
      const Routine consumer = adder(mine, t);
      EXPECT_TRUE(source.schedule().wait().ok());
      EXPECT_TRUE(merge(consumer, source.context(), MergeMode::copy).wait().ok());
      EXPECT_EQ(consumer.context().read<float>(t)[3], static_cast<float>(k));
      source.context().write(t, std::vector<float>(4, 100));
      EXPECT_TRUE(copy(t, source.context(), consumer.context()).event.wait().ok());
      EXPECT_TRUE(merge(consumer, source.context(), MergeMode::stream).wait().ok());
      EXPECT_EQ(consumer.context().read<float>(t)[0], 200);
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace heddle
