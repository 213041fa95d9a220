// Tensors with host storage: the source of their initial values, and constants that refuse writes.
#include <atomic>
#include <functional>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class HostedTest : public Conformance {
 protected:
  static std::span<const std::byte> bytes(const std::vector<float>& values) {
    return std::as_bytes(std::span(values));
  }
};
HEDDLE_CONFORMANCE_SUITE(HostedTest);

// D4, D12: host storage that devices may read in place refuses every kind of write; the error names
// tensor and mode
TEST_P(HostedTest, ConstantsRefuseEveryWrite) {
  const HostArray host = HostArray::range({f32, {3}});
  const Tensor c("c", host, MemoryMode::hosted_constant), y("y", f32, {3});
  Index i;
  Program use("use"), make("make");
  use << (y(i) = c(i) + 1.0);
  make << (c(i) = y(i));
  const Routine run = Context(device).link(backend.compile(use));
  const Context& here = run.context();
  const BufferView view = here.view(c);
  const BufferView other(Buffer::allocate(device, c.type()), c.type());
  // A different tensor in the same memory.
  const Tensor alias("alias", f32, {3});
  Program change("change");
  change << (alias(i) = alias(i) * 2.0);
  const Context aliased = Context(device).with(alias, view);
  const std::vector<float> values{7, 8, 9};
  const std::function<void()> writes[] = {
      [&] { here.write(c, values); },
      [&] { view.from_host(device, bytes(values)); },
      [&] { view.copy_from(device, other); },
      [&] { BufferView(view.buffer(), {f32, {1}}, 4).from_host(device, bytes({5})); },
      [&] { static_cast<void>(copy(c, Context(device).with(c, other), here)); },
      [&] { aliased.write(alias, values); },
      [&] { static_cast<void>(aliased.link(backend.compile(change))); }};
  for (const auto& write : writes) {
    const Status refused = failure(write);
    EXPECT_EQ(refused.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(text(refused), AllOf(HasSubstr("'c'"), HasSubstr("hosted(constant)")));
  }
  EXPECT_THAT(text(failure([&] { static_cast<void>(backend.compile(make)); })),
              AllOf(HasSubstr("'c'"), HasSubstr("hosted(constant)")));
  device.await();
  EXPECT_THAT(host.values<float>(), ElementsAre(0, 1, 2));
  run.schedule();
  EXPECT_THAT(here.read<float>(y), ElementsAre(1, 2, 3));
  // Reads, copies and merges from the memory are still allowed.
  EXPECT_THAT(here.read<float>(c), ElementsAre(0, 1, 2));
  EXPECT_TRUE(other.copy_from(device, view).wait().ok());
}

// D4, D17: in_place applies only to the tensor's own host storage; a transfer elsewhere moves the
// values, or is refused where it would change a constant, and donated memory is always refused
TEST_P(HostedTest, InPlaceMeansTheSameMemory) {
  const HostArray host = HostArray::range({f32, {3}}), storage = HostArray::range({f32, {3}});
  const Tensor c("c", host, MemoryMode::hosted_constant), y("y", f32, {3});
  const Tensor alias("alias", storage, MemoryMode::hosted_nonconstant);
  storage.set(0, 7);
  Index i;
  Program use("use");
  use << (y(i) = c(i) + 1.0);
  const Routine run = Context(device).link(backend.compile(use));
  const Context& here = run.context();
  const auto refused = [&](const auto& transfer) {
    const Status status = failure(transfer);
    EXPECT_EQ(status.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(text(status), AllOf(HasSubstr("'c'"), HasSubstr("hosted(constant)")));
  };
  // The constant in memory other than its host storage.
  const BufferView view(Buffer::allocate(device, c.type()), c.type());
  const Context apart = Context(device).with(c, view);
  refused([&] { static_cast<void>(apart.to_host(c)); });
  EXPECT_EQ(apart.from_host(c).outcome, TransferOutcome::scheduled);
  EXPECT_THAT(apart.read<float>(c), ElementsAre(0, 1, 2));
  // A different tensor in the constant's memory.
  const Context aliased = Context(device).with(alias, here.view(c));
  refused([&] { static_cast<void>(aliased.from_host(alias)); });
  const Transfer moved = aliased.to_host(alias);
  EXPECT_EQ(moved.outcome, TransferOutcome::scheduled);
  EXPECT_TRUE(moved.event.wait().ok());
  EXPECT_THAT(storage.values<float>(), ElementsAre(0, 1, 2));
  EXPECT_THAT(host.values<float>(), ElementsAre(0, 1, 2));
  const Buffer taken = here.view(c).buffer().donate();
  EXPECT_THAT(text(failure([&] { static_cast<void>(here.from_host(c)); })),
              AllOf(HasSubstr("'c'"), HasSubstr("donate")));
  // Memory of the constant stays read-only under a new owner.
  refused([&] { BufferView(taken, c.type()).from_host(device, bytes({4, 5, 6})); });
}

// D4: code compiled before the tensor became a constant does not write to it either
TEST_P(HostedTest, CodeCompiledEarlierMayNotAssignAConstant) {
  const HostArray host = HostArray::range({f32, {3}});
  const Tensor x("x", f32, {3}), y("y", f32, {3});
  Index i;
  Program make("make"), use("use");
  make << (x(i) = Expr(5.0));
  use << (y(i) = x(i));
  const Code early = backend.compile(make);
  x.set_host(host, MemoryMode::hosted_constant);
  const Routine run = Context(device).link(backend.compile(use));
  const Status refused = failure([&] { static_cast<void>(run.context().link(early)); });
  EXPECT_EQ(refused.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(text(refused),
              AllOf(HasSubstr("'make'"), HasSubstr("'x'"), HasSubstr("hosted(constant)")));
  EXPECT_THAT(host.values<float>(), ElementsAre(0, 1, 2));
}

// J4, D4: a compile uses the host storage that was set when the compile began
TEST_P(HostedTest, HostStorageGivenLaterConcernsLaterCompiles) {
  const Tensor x("x", f32, {3}), y("y", f32, {3});
  Index i;
  Program use("use");
  use << (y(i) = x(i) + 1.0);
  const Code early = backend.compile(use);
  x.set_host(HostArray::range({f32, {3}}));
  const Routine run = Context(device).link(early);
  EXPECT_EQ(run.context().from_host(x).outcome, TransferOutcome::nothing_to_do);
  run.schedule();
  EXPECT_THAT(run.context().read<float>(y), ElementsAre(1, 1, 1));
  const Routine later = run.context().link(backend.compile(use));
  EXPECT_EQ(later.context().from_host(x).outcome, TransferOutcome::scheduled);
  later.schedule();
  EXPECT_THAT(later.context().read<float>(y), ElementsAre(1, 2, 3));
}

// S13: linking in a task refuses values that a later task of the same device writes
TEST_P(HostedTest, LinkingInATaskDoesNotWaitForWhatComesAfterIt) {
  if (GetParam().starts_with("sync_")) return;  // tasks of inline devices have no later ones
  const HostArray host = HostArray::range({f32, {3}});
  const Tensor x("x", host, MemoryMode::hosted_nonconstant), y("y", f32, {3});
  Index i;
  Program change("change"), use("use");
  change << (x(i) += 1.0);
  use << (y(i) = x(i) * 10.0);
  const Routine changes = Context(device).link(backend.compile(change));
  const Code uses = backend.compile(use);
  const Context apart(backend.physical_device(0).new_virtual_device());
  std::atomic<bool> queued = false;
  Status refused;
  const Event linked = device.submit("link", [&] {
    queued.wait(false);
    refused = failure([&] { static_cast<void>(apart.link(uses)); });
  });
  changes.schedule();
  const Event written = changes.context().to_host(x).event;
  queued = true;
  queued.notify_all();
  EXPECT_TRUE(linked.wait().ok());
  EXPECT_TRUE(written.wait().ok());
  EXPECT_EQ(refused.code(), ErrorCode::failed_precondition) << text(refused);
  EXPECT_THAT(apart.link(uses).schedule().wait().code(), ErrorCode::ok);
}

// J4, O39: a tensor with host storage starts with the storage's values at link time, in every mode
// except constant; later changes need from_host
TEST_P(HostedTest, HostStorageGivesTheFirstValues) {
  for (const MemoryMode mode :
       {MemoryMode::hosted_nonconstant, MemoryMode::hosted_changed_on_devices,
        MemoryMode::hosted_volatile}) {
    const HostArray host = HostArray::range({f32, {3}});
    const Tensor x("x", host, mode), y("y", f32, {3}), part("part", host, mode);
    Index i;
    const auto read_only = mode == MemoryMode::hosted_volatile;
    Program p("p"), more("more");
    if (read_only) {
      p << (y(i) = x(i) * 10.0);
    } else {
      p << (x(i) += 1.0) << (y(i) = x(i) * 10.0) << (part(1) = Expr(7.0));
    }
    more << (y(i) = x(i) + 1.0);
    sched::ExternalTimeline gate("gate");
    const Event opened = gate.next();
    device.wait(opened);
    const Routine run = Context(device).link(backend.compile(p));
    const Routine next = run.context().link(backend.compile(more));
    host.set(0, 100);  // after linking: not visible
    run.schedule();
    EXPECT_TRUE(gate.signal(opened.ticket()).ok());
    if (read_only) {
      EXPECT_THAT(run.context().read<float>(y), ElementsAre(0, 10, 20));
    } else {
      EXPECT_THAT(run.context().read<float>(y), ElementsAre(10, 20, 30));
      // The elements that are not assigned keep the initial values.
      EXPECT_THAT(run.context().read<float>(part), ElementsAre(0, 7, 2));
    }
    EXPECT_TRUE(run.context().from_host(x).event.wait().ok());
    next.schedule();
    EXPECT_THAT(next.context().read<float>(y), ElementsAre(101, 2, 3));
  }
}

// D2, J4: a routine that assigns the whole tensor first skips the upload; each context starts from
// host storage again
TEST_P(HostedTest, EachContextStartsFromTheHostStorage) {
  const HostArray host = HostArray::range({f32, {3}});
  const Tensor x("x", host);
  Index i;
  Program p("p");
  p << (x(i) += 1.0);
  const Code code = backend.compile(p);
  const Routine first = Context(device).link(code);
  first.schedule();
  first.schedule();
  EXPECT_THAT(first.context().read<float>(x), ElementsAre(2, 3, 4));
  EXPECT_THAT(host.values<float>(), ElementsAre(0, 1, 2));
  const Routine second = Context(device).link(code);
  second.schedule();
  EXPECT_THAT(second.context().read<float>(x), ElementsAre(1, 2, 3));
  const Routine child = first.context().link(code);  // shares its parent's memory
  child.schedule();
  EXPECT_THAT(child.context().read<float>(x), ElementsAre(3, 4, 5));
}

}  // namespace
}  // namespace heddle
