// Donation at link time: a routine's output takes the memory of an input at the input's last read.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class GivingTest : public Conformance {
 protected:
  static constexpr std::int64_t n = 1000;

  /// `to` = `from` + 1.
  [[nodiscard]] Code adder(const Tensor& to, const Tensor& from) const {
    Program p("add");
    Index i;
    p << (to(i) = from(i) + 1);
    return backend.compile(p);
  }
  [[nodiscard]] Context holding(const Tensor& t, float value) const {
    const Buffer buffer = Buffer::allocate(device, t.type());
    const Context context = Context(device).with(t, BufferView(buffer, t.type()));
    context.write(t, std::vector<float>(n, value));
    return context;
  }
  static std::string refusal(const std::function<void()>& act) {
    const Status status = failure(act);
    EXPECT_EQ(status.code(), ErrorCode::failed_precondition) << text(status);
    return text(status);
  }

  const Tensor x{"x", f32, {n}}, y{"y", f32, {n}}, z{"z", f32, {n}};
};
HEDDLE_CONFORMANCE_SUITE(GivingTest);

// D17: the output replaces the input in memory: no copy, and no new memory
TEST_P(GivingTest, OutputsTakeTheMemoryOfDeadInputs) {
  std::optional<Context> start = holding(x, 4);
  device.await();
  const std::uint64_t before = device.statistics().bytes_peak;
  const Routine first = start->link(adder(y, x), {.donate = {x}});
  const Routine second = first.context().link(adder(z, y), {.donate = {y}});
  start.reset();
  EXPECT_FALSE(second.context().contains(x));
  EXPECT_FALSE(second.context().contains(y));
  first.schedule();
  second.schedule();
  EXPECT_THAT(second.context().read<float>(z), Each(6));
  device.await();
  EXPECT_EQ(device.statistics().bytes_peak, before);
}

// D17: a donor gets the first tensor that may take its memory, which leaves later tensors to donors
// with fewer candidates
TEST_P(GivingTest, DonorsLeaveTakersToOthers) {
  const Tensor a("a", f32, {n}), b("b", f32, {n}), c("c", f32, {n});
  Program p("three");
  const Index i;
  p << (x(i) = c(i) * 2);  // before the reads of a and b: only c's memory is free
  p << (y(i) = a(i) * 2);
  p << (z(i) = b(i) * 2);
  Context start(device);
  for (const Tensor& t : {a, b, c}) {
    const Buffer buffer = Buffer::allocate(device, t.type());
    start = start.with(t, BufferView(buffer, t.type()));
    start.write(t, std::vector<float>(n, t == a ? 1 : t == b ? 2 : 3));
  }
  const Routine three = start.link(backend.compile(p), {.donate = {a, c, b}});
  three.schedule();
  EXPECT_THAT(three.context().read<float>(x), Each(6));
  EXPECT_THAT(three.context().read<float>(y), Each(2));
  EXPECT_THAT(three.context().read<float>(z), Each(4));
}

// D17, D3: a tensor without elements has no memory to donate, and a link that would take the memory
// succeeds anyway: sizes are data
TEST_P(GivingTest, TensorsWithoutElementsGiveNothing) {
  const Tensor none("none", f32, {0}), more("more", f32, {0});
  const Context start = Context(device).link(adder(none, Tensor("from", f32, {0}))).context();
  const Routine first = start.link(adder(more, none), {.donate = {none}});
  EXPECT_TRUE(first.schedule().wait().ok());
  EXPECT_TRUE(first.schedule().wait().ok());
  EXPECT_TRUE(first.context().contains(none));
  EXPECT_TRUE(first.context().read<float>(more).empty());
}

// D17: after the donation the donor is refused, with tensor, taker and place, in every context, for
// every use, on every thread
TEST_P(GivingTest, LaterUsesAreRefusedByName) {
  const Context start = holding(x, 4);
  const Tensor w("w", f32, {n});
  const Routine reader = start.link(adder(w, x));
  const Call prepared = reader.prepare();
  const Buffer buffer = start.view(x).buffer();
  const Routine taker = start.link(adder(y, x), {.donate = {x}});
  reader.schedule();  // still valid before the donation
  EXPECT_THAT(start.read<float>(x), Each(4));
  taker.schedule();
  const auto is_told = AllOf(HasSubstr("'x'"), HasSubstr("'y'"), HasSubstr("giving_test.cpp"));
  EXPECT_THAT(refusal([&] { reader.schedule(); }), is_told);
  EXPECT_THAT(refusal([&] { prepared.schedule(); }), is_told);
  EXPECT_THAT(refusal([&] { taker.schedule(); }), is_told);
  EXPECT_THAT(refusal([&] { static_cast<void>(start.read<float>(x)); }), is_told);
  EXPECT_THAT(refusal([&] { static_cast<void>(start.link(adder(z, x))); }), is_told);
  EXPECT_THAT(refusal([&] { static_cast<void>(start.link(adder(z, x), {.donate = {x}})); }),
              is_told);
  EXPECT_THAT(refusal([&] { static_cast<void>(buffer.donate()); }),
              AllOf(HasSubstr("'y'"), HasSubstr("giving_test.cpp")));
  std::thread([&] { EXPECT_THAT(refusal([&] { reader.schedule(); }), is_told); }).join();
  EXPECT_FALSE(buffer.live());
  EXPECT_THAT(taker.context().read<float>(y), Each(5));
  EXPECT_THAT(reader.context().read<float>(w), Each(5));
}

// D17: before the donation the taker has no memory, and its uses are refused
TEST_P(GivingTest, EarlierUsesOfTheTakerAreRefused) {
  const Context start = holding(x, 4);
  const Routine taker = start.link(adder(y, x), {.donate = {x}});
  const Routine next = taker.context().link(adder(z, y));
  const auto is_told = AllOf(HasSubstr("'y'"), HasSubstr("'x'"), HasSubstr("'add' is scheduled"));
  EXPECT_THAT(refusal([&] { next.schedule(); }), is_told);
  EXPECT_THAT(refusal([&] { static_cast<void>(taker.context().read<float>(y)); }), is_told);
  const Buffer promised = taker.context().view(y).buffer();
  EXPECT_THAT(refusal([&] { static_cast<void>(promised.donate()); }), HasSubstr("'x'"));
  EXPECT_THAT(promised.to_string(), HasSubstr("not given yet"));
  taker.schedule();
  EXPECT_TRUE(promised.live());
  EXPECT_THAT(promised.to_string(), Not(HasSubstr("given")));
  next.schedule();
  EXPECT_THAT(next.context().read<float>(z), Each(6));
}

// D17: the donor is hidden in contexts below, until a routine writes it again
TEST_P(GivingTest, TheDonorIsHiddenBelow) {
  const Context start = holding(x, 4);
  const Routine taker = start.link(adder(y, x), {.donate = {x}});
  taker.schedule();
  const auto is_told = AllOf(HasSubstr("'x'"), HasSubstr("gives its memory to tensor 'y'"));
  EXPECT_THAT(refusal([&] { static_cast<void>(taker.context().link(adder(z, x))); }), is_told);
  EXPECT_THAT(refusal([&] { static_cast<void>(taker.context().view(x)); }), is_told);
  const Routine anew = taker.context().link(adder(x, y));
  anew.schedule();
  EXPECT_THAT(anew.context().read<float>(x), Each(6));
  EXPECT_THAT(anew.context().read<float>(y), Each(5));
}

// D17: invalid donations are refused at link time, without side effects
TEST_P(GivingTest, WhatCannotBeGivenIsRefused) {
  const Context start = holding(x, 4);
  const auto with = [&](const Context& from, const Code& code, std::vector<Tensor> given) {
    return failure([&] { static_cast<void>(from.link(code, {.donate = std::move(given)})); });
  };
  const Code add = adder(y, x);
  EXPECT_EQ(with(start, add, {z}).code(), ErrorCode::invalid_argument) << "not used";
  EXPECT_EQ(with(start, add, {x, x}).code(), ErrorCode::invalid_argument) << "twice";
  EXPECT_EQ(with(Context(device), add, {x}).code(), ErrorCode::not_found);
  EXPECT_THAT(text(with(start.link(add).context(), add, {x})), HasSubstr("new to the context"));

  Index i, j;
  const Tensor square("square", f32, {40, 40}), turned("turned", f32, {40, 40});
  Program turn("turn");
  turn << (turned(i, j) = square(j, i));
  const Context squares = Context(device).with(
      square, BufferView(Buffer::allocate(device, square.type()), square.type()));
  EXPECT_THAT(text(with(squares, backend.compile(turn), {square})),
              AllOf(HasSubstr("'turn'"), HasSubstr("'square'"), HasSubstr("f32[40,40]")));

  const Buffer large = Buffer::allocate(device, ArrayType{f32, {2 * n}});
  const Context part = Context(device).with(x, BufferView(large, x.type(), 4 * n));
  EXPECT_THAT(text(with(part, add, {x})), HasSubstr("part of a buffer"));

  const Buffer one = Buffer::allocate(device, x.type());
  const Context twice =
      Context(device).with(x, BufferView(one, x.type())).with(z, BufferView(one, z.type()));
  Program both("both");
  Index k;
  both << (y(k) = x(k) + z(k));
  EXPECT_THAT(text(with(twice, backend.compile(both), {x})),
              AllOf(HasSubstr("'x'"), HasSubstr("'z'")))
      << "the same buffer twice in one call";

  const std::vector<Program> programs{both};
  EXPECT_EQ(failure([&] {
              static_cast<void>(twice.link_batch(backend.compile_batch(programs), {.donate = {x}}));
            }).code(),
            ErrorCode::invalid_argument);
  start.link(add, {.donate = {x}}).schedule();
}

// D17: compiled routines compute the same bits in donated memory, where donation is allowed
TEST_P(GivingTest, GivesTheSameBits) {
  int given = 0;
  for (const std::int64_t size : {10, 40}) {
    const Tensor in("in", f32, {size, size}), out("out", f32, {size, size});
    const Tensor more("more", f32, {size, size}), top("top", f32, {size}),
        rows("rows", f32, {size}), part("part", f32, {size, size});
    const std::function<void(Program&)> programs[] = {
        [&](Program& p) {
          Index i, j;
          p << (out(i, j) = in(i, j) * 2 + more(i, j));
        },
        [&](Program& p) {
          Index i, j;
          p << (out(i, j) = in(j, i));
        },
        [&](Program& p) {
          Index i, j;
          p << (out(i, j) = in(i, j) + more(j, i));
        },
        [&](Program& p) {
          Index i, j;
          p << (top(i) = maximum(in(i, j))) << (part(i, j) = exp(in(i, j) - top(i)));
          p << (rows(i) = sum(part(i, j))) << (out(i, j) = part(i, j) / rows(i));
        },
        [&](Program& p) {
          Index i, j, k;
          p << (out(i, j) = sum(in(i, k) * more(k, j)));
        },
        [&](Program& p) {
          Index i, j;
          p << (rows(i) = sum(in(i, j))) << (out(i, j) = rows(j) + more(i, j));
        }};
    for (const auto& describe : programs) {
      Program p("same");
      describe(p);
      const Code code = backend.compile(p);
      std::vector<float> values(static_cast<std::size_t>(size * size));
      for (std::size_t k = 0; k < values.size(); ++k)
        values[k] = static_cast<float>(k % 91) / 8 - 5;
      const auto run = [&](const LinkOptions& options) {
        Context start(device);
        for (const Tensor& t : {in, more})
          start = start.with(t, BufferView(Buffer::allocate(device, t.type()), t.type()));
        start.write(in, values);
        start.write(more, values);
        const Routine routine = start.link(code, options);
        routine.schedule();
        return routine.context().read<float>(out);
      };
      const std::vector<float> expected = run({});
      std::vector<float> found = expected;
      if (failure([&] { found = run({.donate = {in}}); }).ok()) ++given;
      EXPECT_EQ(found, expected) << size << ": " << code.loop_text();
    }
  }
  EXPECT_GE(given, 5);
}

// D17: constants of the host are read-only and cannot be donated
TEST_P(GivingTest, HostedConstantsAreNotGiven) {
  const Tensor fixed("fixed", HostArray(x.type()), MemoryMode::hosted_constant);
  const Code code = adder(y, fixed);
  const Context context = Context(device).link(code).context();
  EXPECT_THAT(
      refusal([&] { static_cast<void>(context.link(adder(z, fixed), {.donate = {fixed}})); }),
      AllOf(HasSubstr("'fixed'"), HasSubstr("constant")));
}

// D9, D17: the write waits for every accepted use of the memory, in any sync mode
TEST_P(GivingTest, AcceptedUsesComeFirst) {
  for (const Sync sync : {Sync::automatic, Sync::manual}) {
    const Device other = backend.physical_device(0).new_virtual_device();
    const Context start = holding(x, 4);
    const Routine taker = start.link(adder(y, x), {.donate = {x}});
    sched::ExternalTimeline gate("gate");
    const Event open = gate.next();
    other.wait(open);
    std::vector<float> seen(n);
    const Event read = start.view(x).to_host(other, std::as_writable_bytes(std::span(seen)));
    const Event taken = taker.schedule({}, {.sync = sync});
    EXPECT_FALSE(taken.wait_for(5ms).ok());
    EXPECT_TRUE(gate.signal(open.ticket()).ok());
    EXPECT_TRUE(read.wait().ok());
    EXPECT_TRUE(taken.wait().ok());
    EXPECT_THAT(seen, Each(4));
    EXPECT_THAT(taker.context().read<float>(y), Each(5));
  }
}

// D2, D17: queued uses keep the memory, even after donor and taker are destroyed
TEST_P(GivingTest, QueuedUsesKeepTheMemory) {
  const Device other = backend.physical_device(0).new_virtual_device();
  sched::ExternalTimeline gate("gate");
  const Event open = gate.next();
  std::vector<float> seen(n);
  Event read;
  {
    const Context start = holding(x, 4);
    const Routine taker = start.link(adder(y, x), {.donate = {x}});
    other.wait(open);
    read = start.view(x).to_host(other, std::as_writable_bytes(std::span(seen)));
    taker.schedule();
    device.cancel_pending();
  }
  const Buffer fresh = Buffer::allocate(device, x.type());
  const std::vector<float> sevens(n, 7);
  BufferView(fresh, x.type()).from_host(device, std::as_bytes(std::span(sevens)));
  EXPECT_TRUE(gate.signal(open.ticket()).ok());
  EXPECT_TRUE(read.wait().ok());
  EXPECT_THAT(seen, Each(4));
  device.await();
}

// D9, D17: if the routine did not run, reads of its outputs are refused
TEST_P(GivingTest, WhatWasNotWrittenIsRefused) {
  const Context start = holding(x, 4);
  const Routine taker = start.link(adder(y, x), {.donate = {x}});
  sched::ExternalTimeline gate("gate");
  const Event open = gate.next();
  device.wait(open);
  const Event taken = taker.schedule();
  device.cancel_pending();
  EXPECT_TRUE(gate.signal(open.ticket()).ok());
  EXPECT_EQ(taken.wait().code(), ErrorCode::cancelled);
  EXPECT_THAT(refusal([&] { static_cast<void>(taker.context().read<float>(y)); }),
              HasSubstr("not written"));
  taker.context().write(y, std::vector<float>(n, 1));
  EXPECT_THAT(taker.context().read<float>(y), Each(1));
}

// D17: a routine that can be scheduled only once cannot be recorded
TEST_P(GivingTest, RecordingsTakeNoneThatGives) {
  const Context start = holding(x, 1);
  const Routine gives = start.link(adder(y, x), {.donate = {x}});
  Recording recording("again");
  const Status why = failure([&] { recording.schedule(gives); });
  EXPECT_EQ(why.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(text(why), AllOf(HasSubstr("'add'"), HasSubstr("'x'"), HasSubstr("once")));
}

// D17: concurrent uses of the donor run completely before the donation or are refused
TEST_P(GivingTest, ThreadsSeeNoForeignValue) {
  const Device other = backend.physical_device(0).new_virtual_device();
  for (int round = 0; round < 10; ++round) {
    const Context start = holding(x, 4);
    const Routine taker = start.link(adder(y, x), {.donate = {x}});
    const BufferView view = start.view(x);
    std::atomic<int> reads = 0;
    std::thread reader([&] {
      std::vector<float> seen(n);
      const Status refused = failure([&] {
        while (true) {
          throw_if_failed(view.to_host(other, std::as_writable_bytes(std::span(seen))).wait());
          EXPECT_EQ(std::ranges::count(seen, 4.0F), n);
          ++reads;
        }
      });
      EXPECT_EQ(refused.code(), ErrorCode::failed_precondition) << text(refused);
    });
    while (reads < round) std::this_thread::yield();
    taker.schedule();
    EXPECT_THAT(taker.context().read<float>(y), Each(5));
    reader.join();
  }
}

}  // namespace
}  // namespace heddle
