// The end of contexts, devices, backends and handles: freed memory, surviving objects, error
// messages.
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <thread>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class FinalisingTest : public Conformance {};
HEDDLE_CONFORMANCE_SUITE(FinalisingTest);

// D13, O21, bad input: finalising in any order, later use fails by name, children and buffers stay
// usable
TEST_P(FinalisingTest, FinalisedThingsRefuseByNameAndChildrenGoOn) {
  const Tensor t("t", f32, {2});
  const Context root(device);
  Index i;
  Program p("p");
  p << (t(i) += 1.0);
  const Code code = backend.compile(p);
  const Routine run = root.link(code);
  root.finalize();
  root.finalize();
  EXPECT_EQ(failure([&] { static_cast<void>(root.link(code)); }).code(),
            ErrorCode::failed_precondition);
  run.schedule();
  EXPECT_THAT(run.context().read<float>(t), ElementsAre(1, 1));
  const BufferView view = run.context().view(t);
  device.finalize();
  device.finalize();
  const Tensor whole("whole", f32, {2});
  Program q("q");
  q << (whole(i) = Expr(1.0));  // needs no zeroing
  const Code overwrites = backend.compile(q);
  const Context fresh(device);
  const auto refuse_all = [&](const std::string& culprit) {
    const std::function<void()> uses[] = {
        [&] { run.schedule(); },
        [&] { static_cast<void>(fresh.link(overwrites)); },
        [&] { static_cast<void>(fresh.with(t, view)); },
        [&] { static_cast<void>(Buffer::allocate(device, t.type())); },
        [&] { static_cast<void>(Buffer::allocate(device, {f32, {0}})); },
        [&] { static_cast<void>(run.context().read<float>(t)); },
        [&] { static_cast<void>(fresh.from_host(t)); },
        [&] { view.copy_from(device, view); },
        [&] { static_cast<void>(copy(t, run.context(), run.context())); },
        [&] { static_cast<void>(load_merge(device, t, run.context(), MergeMode::copy)); },
        [&] { device.await(); },
        [&] { device.recover(); },
        [&] { throw_if_failed(device.submit("late", [] {}).status()); }};
    for (const auto& use : uses) {
      const Status refused = failure(use);
      EXPECT_EQ(refused.code(), ErrorCode::failed_precondition);
      EXPECT_THAT(text(refused), AllOf(HasSubstr(culprit), HasSubstr("finalised")));
    }
  };
  refuse_all("device '" + device.name() + "'");
  EXPECT_TRUE(view.buffer().live());
  const Device reader = backend.physical_device(0).new_virtual_device();
  std::vector<float> survived(2);
  EXPECT_TRUE(view.to_host(reader, std::as_writable_bytes(std::span(survived))).wait().ok());
  EXPECT_THAT(survived, ElementsAre(1, 1));
  backend.finalize();
  refuse_all("backend '" + GetParam() + "'");
  backend.finalize();
  EXPECT_EQ(failure([&] { static_cast<void>(backend.compile(p)); }).code(),
            ErrorCode::failed_precondition);
  EXPECT_EQ(
      failure([&] { static_cast<void>(backend.physical_device(0).new_virtual_device()); }).code(),
      ErrorCode::failed_precondition);
}

// D2, D13: a finalised context frees, in timeline order, memory without other owners
TEST_P(FinalisingTest, FinalisedContextsFreeTheirMemory) {
  const Tensor kept("kept", f32, {100}), shared("shared", f32, {200}), own("own", f32, {400});
  Index i;
  Program p("p"), q("q");
  p << (kept(i) += 1.0) << (shared(i) += 1.0) << (own(i) += 1.0);
  q << (shared(i) += 1.0);
  const auto in_use = [&] { return device.statistics().bytes_in_use; };
  const auto before = in_use();
  const Context root(device);
  const Code code = backend.compile(p);
  const Routine run = root.link(code);
  const Context middle = Context(device).with(shared, run.context().view(shared));
  const Routine child = middle.link(backend.compile(q));
  std::optional<BufferView> view = run.context().view(kept);
  EXPECT_EQ(in_use(), before + 2800);
  device.await();
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  const Event last = run.schedule();
  run.context().finalize();
  run.context().finalize();
  EXPECT_EQ(in_use(), before + 1200);  // although the routine's handle still exists
  device.trim();
  EXPECT_GE(device.statistics().bytes_cached, 1600u);  // held by the task
  EXPECT_EQ(failure([&] { run.schedule(); }).code(), ErrorCode::failed_precondition);
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(last.wait().ok());
  EXPECT_THAT(run.context().tensors(), testing::IsEmpty());
  child.schedule();
  EXPECT_EQ(child.context().read<float>(shared)[0], 2);
  std::vector<float> values(100);
  EXPECT_TRUE(view->to_host(device, std::as_writable_bytes(std::span(values))).wait().ok());
  EXPECT_EQ(values[99], 1);
  view.reset();
  child.context().finalize();
  EXPECT_EQ(in_use(), before + 800);  // held by its parent
  middle.finalize();
  EXPECT_EQ(in_use(), before);
}

// D6, D13: the merge buffer of a finalised device is freed, with the device or with its backend
TEST_P(FinalisingTest, MergeBuffersGoWithTheirDevices) {
  const Tensor t("t", f32, {1000});
  Index i;
  Program p("p");
  p << (t(i) = Expr(1.0));
  const Routine source = Context(device).link(backend.compile(p));
  EXPECT_TRUE(source.schedule().wait().ok());
  for (const bool whole : {false, true}) {
    const Backend owner = Backend::open(GetParam());
    const Device other = owner.physical_device(0).new_virtual_device();
    const Transfer loaded = load_merge(other, t, source.context(), MergeMode::copy);
    EXPECT_TRUE(loaded.event.wait().ok());
    EXPECT_EQ(other.statistics().bytes_in_use, 4000u);
    whole ? owner.finalize() : other.finalize();
    EXPECT_EQ(other.statistics().bytes_in_use, 0u);
  }
}

// D13, S2: finalising a context in use by other threads refuses their calls or lets them finish
TEST_P(FinalisingTest, ContextsAreFinalisedFromAnyThread) {
  const Tensor t("t", i32, {4});
  Index i;
  Program p("p");
  p << (t(i) += 1);
  const Code code = backend.compile(p);
  const auto before = device.statistics().bytes_in_use;
  for (int round = 0; round < 20; ++round) {
    const Routine run = Context(device).link(code);
    std::vector<std::thread> users;
    for (int k = 0; k < 3; ++k) {
      users.emplace_back([&] {
        while (true) {
          const Status status = failure([&] {
            run.schedule();
            static_cast<void>(run.context().view(t));
            static_cast<void>(run.context().num_bytes());
          });
          if (status.ok()) continue;
          EXPECT_EQ(status.code(), ErrorCode::failed_precondition) << text(status);
          return;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    run.context().finalize();
    for (auto& thread : users) thread.join();
    device.await();
    EXPECT_EQ(device.statistics().bytes_in_use, before);
  }
}

// D13, S13: any order of destruction, with work queued
TEST_P(FinalisingTest, HandlesMayGoInAnyOrder) {
  for (unsigned order = 0; order < 120; ++order) {
    auto b = std::make_unique<Backend>(Backend::open(GetParam()));
    auto d = std::make_unique<Device>(b->physical_device(0).new_virtual_device());
    static const std::map<std::string, Code> codes = [] {
      std::map<std::string, Code> made;
      const Tensor once("once", f32, {64});
      Index j;
      Program q("once");
      q << (once(j) += 1.0);
      for (const auto& name : backends_under_test())
        made.emplace(name, Backend::open(name).compile(q));
      return made;
    }();
    auto r = std::make_unique<Routine>(Context(*d).link(codes.at(GetParam())));
    for (int k = 0; k < 20; ++k) r->schedule();
    auto e = std::make_unique<Event>(r->schedule());
    auto v = std::make_unique<BufferView>(r->context().view(r->context().tensors().front()));
    const std::array<std::function<void()>, 5> drops{[&] { b.reset(); }, [&] { d.reset(); },
                                                     [&] { r.reset(); }, [&] { e.reset(); },
                                                     [&] { v.reset(); }};
    std::array<std::size_t, 5> positions{0, 1, 2, 3, 4};
    for (unsigned k = 0; k < order; ++k) std::next_permutation(positions.begin(), positions.end());
    for (const std::size_t k : positions) drops[k]();
  }
}

}  // namespace
}  // namespace heddle
