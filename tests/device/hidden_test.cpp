// Tensors that a routine assigns and hides: their visibility and values in related contexts.
#include <functional>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// "store" keeps h on the device; "keep" assigns h, reads h, and hides the values.
class HiddenTest : public Conformance {
 protected:
  HiddenTest() {
    store << (h(i) = x(i) + 1.0);
    keep << (h(i) = x(i) * 10.0) << (y(i) = h(i));
    use << (z(i) = h(i));
  }

  /// Both cases where the values of h are not stored.
  Code keeping(MemoryMode mode) const {
    if (mode == MemoryMode::local) {
      // Reads h too often, and h takes too long, for recomputation at each read.
      Program often("keep");
      Index k;
      often << (h(i) = sum(x(k) * embed(i))) << (y(i) = sum(h(k) * embed(i)));
      return backend.compile(often);
    }
    return backend.compile(keep);
  }

  static testing::Matcher<const std::string&> culprits() {
    return AllOf(HasSubstr("'h'"), HasSubstr("'keep'"), HasSubstr("MemoryMode::on_device"));
  }
  void expect_refused(const std::function<void()>& use_of_h) const {
    const Status status = failure(use_of_h);
    EXPECT_EQ(status.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(text(status), culprits());
  }

  const Tensor x{"x", f32, {4}}, h{"h", f32, {4}}, y{"y", f32, {4}}, z{"z", f32, {4}};
  Index i;
  Program store{"store"}, keep{"keep"}, use{"use"};
};
HEDDLE_CONFORMANCE_SUITE(HiddenTest);

// J4, D17: where a later routine assigns and hides a tensor that an earlier routine stored, reads
// of the earlier values are refused by name; contexts without the later routine still have the
// values
TEST_P(HiddenTest, ValuesOlderThanTheLastAssignmentAreRefused) {
  const Device other = backend.physical_device(0).new_virtual_device();
  for (const MemoryMode mode : {MemoryMode::virtual_, MemoryMode::local}) {
    const Routine a = Context(device).link(backend.compile(store));
    const Code kept = keeping(mode);
    EXPECT_EQ(kept.placement(h), mode);
    const Routine b = a.context().link(kept);
    a.context().write(x, std::vector<float>{1, 2, 3, 4});
    a.schedule();
    b.schedule();
    const Context& gone = b.context();
    EXPECT_FALSE(gone.contains(h));
    expect_refused([&] { static_cast<void>(gone.read<float>(h)); });
    expect_refused([&] { gone.write(h, std::vector<float>(4)); });
    expect_refused([&] { static_cast<void>(gone.view(h)); });
    expect_refused([&] { static_cast<void>(gone.to_host(h)); });
    expect_refused([&] { static_cast<void>(gone.from_host(h)); });
    expect_refused([&] { static_cast<void>(gone.with(h, a.context().view(h))); });
    expect_refused([&] { static_cast<void>(copy(h, gone, a.context())); });
    expect_refused([&] { static_cast<void>(copy(h, a.context(), gone)); });
    for (const MergeMode merged : {MergeMode::copy, MergeMode::stream})
      expect_refused([&] { static_cast<void>(load_merge(other, h, gone, merged)); });
    expect_refused([&] { static_cast<void>(gone.link(backend.compile(use))); });
    // The same holds in contexts further down, and in contexts with added tensors.
    const Context below = gone.with(z, BufferView(Buffer::allocate(device, z.type()), z.type()));
    expect_refused([&] { static_cast<void>(below.read<float>(h)); });
    expect_refused([&] { static_cast<void>(below.link(backend.compile(use))); });
    // No routine assigned h in this context since.
    EXPECT_THAT(a.context().read<float>(h), ElementsAre(2, 3, 4, 5));
    const Routine beside = a.context().link(backend.compile(use));
    beside.schedule();
    EXPECT_THAT(beside.context().read<float>(z), ElementsAre(2, 3, 4, 5));
  }
}

// J4, D17: a routine that stores the whole tensor makes it visible again, in the one buffer that
// related contexts share (O42); a routine that stores only a part would leave older values in the
// rest
TEST_P(HiddenTest, StoringItWholeMakesItVisibleAgain) {
  const Routine a = Context(device).link(backend.compile(store));
  const Routine b = a.context().link(backend.compile(keep));
  Program part("part");
  part << (h(0) = Expr(7.0));
  expect_refused([&] { static_cast<void>(b.context().link(backend.compile(part))); });
  const Routine c = b.context().link(backend.compile(store));
  const Routine d = c.context().link(backend.compile(use));
  a.context().write(x, std::vector<float>{1, 2, 3, 4});
  for (const Routine& routine : {a, b, c, d}) routine.schedule();
  EXPECT_THAT(d.context().read<float>(h), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(d.context().read<float>(z), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(c.context().view(h).buffer(), a.context().view(h).buffer());
  expect_refused([&] { static_cast<void>(b.context().read<float>(h)); });
  // A tensor that no routine stored before gets memory at this link.
  const Routine first = Context(device).link(backend.compile(keep));
  expect_refused([&] { static_cast<void>(first.context().link(backend.compile(part))); });
  const Routine then = first.context().link(backend.compile(store));
  then.schedule();
  EXPECT_THAT(then.context().read<float>(h), Each(1));
}

// J4, J8, O29: a hidden tensor listed as a prior tensor is refused as hidden, not as unknown
TEST_P(HiddenTest, FromPriorContextNamesTheRoutine) {
  const Routine a = Context(device).link(backend.compile(store));
  const Routine b = a.context().link(backend.compile(keep));
  LinkOptions options;
  options.from_prior_context = {h};
  EXPECT_NO_THROW(static_cast<void>(a.context().link(backend.compile(use), options)));
  expect_refused([&] { static_cast<void>(b.context().link(backend.compile(use), options)); });
  expect_refused([&] { static_cast<void>(b.context().link(backend.compile(store), options)); });
}

// J4, J8, O55: batches too, in any compile mode: contexts grow entry by entry
TEST_P(HiddenTest, BatchesHideLikeTheirRoutinesLinkedOneByOne) {
  const std::vector<Program> hidden{store, keep, use};
  Program again("again");
  again << (h(i) = x(i) - 1.0);
  const std::vector<Program> visible{store, keep, again, use};
  for (const bool shared : {true, false}) {
    BatchOptions options;
    options.each.shared = shared;
    expect_refused([&] {
      static_cast<void>(Context(device).link_batch(backend.compile_batch(hidden, options)));
    });
    options.occupancy = [](const std::string& name, std::size_t) { return name != "keep"; };
    EXPECT_NO_THROW(
        static_cast<void>(Context(device).link_batch(backend.compile_batch(hidden, options))));
    options.occupancy = nullptr;
    const auto routines = Context(device).link_batch(backend.compile_batch(visible, options));
    routines[0]->context().write(x, std::vector<float>{1, 2, 3, 4});
    for (const auto& routine : routines) routine->schedule();
    EXPECT_THAT(routines[3]->context().read<float>(z), ElementsAre(0, 1, 2, 3));
    EXPECT_FALSE(routines[0]->context().contains(z));
    expect_refused([&] { static_cast<void>(routines[1]->context().read<float>(h)); });
  }
}

}  // namespace
}  // namespace heddle
