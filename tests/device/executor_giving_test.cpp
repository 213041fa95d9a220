// Donation by executor calls: memory taken, calls refused, and no memory taken by refused calls.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/device/executors_fixture.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ExecutorGivingTest : public ExecutorsFixture {};
HEDDLE_CONFORMANCE_SUITE(ExecutorGivingTest);

// F4, F6: an argument whose producer failed is refused, once the failure is known, with its cause
TEST_P(ExecutorGivingTest, RefuseWhatDidNotCome) {
  const Device other = another();
  const Executor add = adder({.name = "add", .argument_names = {"", "bias"}});
  const Array good = row({1, 2}), bad = lost(other);
  static_cast<void>(bad.wait());
  const std::string why = refusal(ErrorCode::failed_precondition, [&] { add(donate(good), bad); });
  EXPECT_THAT(
      why, AllOf(HasSubstr("executor 'add' on " + device.name()),
                 HasSubstr("argument 1 of 2, 'bias' f32[2] did not come"), HasSubstr("unplugged")));
  EXPECT_TRUE(good.live());
  EXPECT_THAT(add(good, good).values<float>(), ElementsAre(2, 4));
}

// F4: where one argument is refused the other arguments stay valid, for any reason
TEST_P(ExecutorGivingTest, RefusedCallsTakeNothing) {
  const Executor add = adder({.name = "add", .argument_names = {"left"}});
  const Array x = row({1, 2}), gone = row({3, 4}), other = row({1, 2, 3});
  static_cast<void>(add(donate(gone), 0.0F));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { add(donate(x), gone); }),
              HasSubstr("argument 1 of 2, 'arg1' f32[2] was donated: to executor 'add', where the "
                        "result has its memory now; use that"));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { add(gone, donate(x)); }),
              HasSubstr("argument 0 of 2, 'left' f32[2] was donated"));
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { add(donate(x), other); }),
              AllOf(HasSubstr("f32[2]"), HasSubstr("f32[3]"), HasSubstr("executors_fixture.hpp")));
  EXPECT_THAT(
      refusal(ErrorCode::invalid_argument, [&] { add(donate(x), x); }),
      HasSubstr(
          "argument 0 of 2, 'left' f32[2] is donated, and is argument 1 of 2, 'arg1' f32[2] too; "
          "pass a copy() of one"));
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { add(donate(x), donate(x)); }),
              HasSubstr("donated again"));
  const Array whole = row({1, 2, 3, 4});
  const Array part(device, BufferView(whole.view().buffer(), {f32, {2}}));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { add(donate(x), donate(part)); }),
              AllOf(HasSubstr("argument 1 of 2"), HasSubstr("cannot be donated: it is a part of")));
  EXPECT_TRUE(x.live());
  EXPECT_THAT(add(x, x).values<float>(), ElementsAre(2, 4));
}

// F4: a call refused by a full queue takes no memory either
TEST_P(ExecutorGivingTest, FullQueuesTakeNothing) {
  if (GetParam().starts_with("sync_")) return;  // never full
  BackendOptions options;
  options.name = GetParam();
  options.scheduling.device.queue_size = 2;
  options.scheduling.device.full = sched::FullPolicy::fail;
  const Device small = Backend::open(options).physical_device(0).new_virtual_device();
  const Executor inc(small, [](Node x) { return x + 1; });
  const Array x(small, Values{1}), y(small, Values{2});
  small.await();
  Gate gate(small);
  Status full;
  for (int k = 0; k < 10 && full.ok(); ++k) full = failure([&] { inc(x); });
  EXPECT_EQ(full.code(), ErrorCode::exhausted) << text(full);
  EXPECT_EQ(inc.try_call(donate(y)).status.code(), ErrorCode::exhausted);
  EXPECT_TRUE(y.live());
  gate.open();
  small.await();
  EXPECT_THAT(inc(donate(y)).values<float>(), ElementsAre(3));
}

// F4, F6: many donated arguments at once: a result takes each, or one argument occurs twice
TEST_P(ExecutorGivingTest, ManyAreGivenAtOnce) {
  const Executor inc(device,
                     [](const std::vector<Node>& x) {
                       std::vector<Node> y;
                       for (const Node& each : x) y.push_back(each + 1);
                       return y;
                     },
                     {.name = "inc"});
  constexpr std::size_t count = 40;
  std::vector<Array> state;
  for (std::size_t k = 0; k < count; ++k) state.push_back(row({static_cast<float>(k), 1}));
  const std::vector<Array> same(count, row({5, 6}));
  for (const Array& each : inc(same)) EXPECT_THAT(each.values<float>(), ElementsAre(6, 7));
  state = inc(state);
  device.await();
  const std::uint64_t before = device.statistics().bytes_in_use;
  for (int times = 0; times < 3; ++times) state = inc(donate(state));
  EXPECT_EQ(device.statistics().bytes_in_use, before);
  for (std::size_t k = 0; k < count; ++k)
    EXPECT_THAT(state[k].values<float>(), ElementsAre(static_cast<float>(k) + 4, 5));
  std::vector<Array> twice = state;
  twice[7] = twice[33];
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { inc(donate(twice)); }),
              HasSubstr("argument 7 of 40, 'arg0/7' f32[2] is donated, and is argument 33 of 40, "
                        "'arg0/33' f32[2] too, donated again"));
  EXPECT_TRUE(twice[33].live());
}

// F6: donated arguments and their copies are invalid after the call; results have their memory
TEST_P(ExecutorGivingTest, ResultsTakeTheMemoryOfWhatIsDonated) {
  const Executor inc = plus_one();
  Array state(device, {1000}, Values(1000, 1));
  const Array first = state;
  inc(state).wait();
  device.await();
  const std::uint64_t before = device.statistics().bytes_in_use;
  for (int k = 0; k < 5; ++k) {
    state = inc(donate(state));
    EXPECT_FALSE(first.live());
    EXPECT_EQ(device.statistics().bytes_in_use, before);
  }
  EXPECT_EQ(state.values<float>()[999], 6);
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { inc(first); }),
              HasSubstr("was donated: to executor 'inc'"));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { inc(donate(first)); }),
              HasSubstr("was donated: to executor 'inc'"));
  EXPECT_THAT(text(failure([&] { static_cast<void>(first.to_host()); })),
              HasSubstr("where the result has its memory now"));
  const Executor total(device, [](Node x) { return sum(x); }, {.name = "total"});
  EXPECT_EQ(total(donate(state)).item<float>(), 6000);
  EXPECT_FALSE(state.live());
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { total(state); }),
              HasSubstr("to executor 'total', where no result fits its memory"));
}

// F6: a donated argument with pending reads elsewhere is written after those reads
TEST_P(ExecutorGivingTest, DonatedMemoryIsReadFirst) {
  const Device other = another();
  const Executor inc = plus_one();
  const Array x = row({1, 2});
  inc.on(other)(x).wait();
  inc(x).wait();
  Gate gate(other);
  const Array seen = inc.on(other)(x);
  const Array taken = inc(inc(donate(x)));
  EXPECT_FALSE(taken.event().wait_for(std::chrono::milliseconds(5)).ok());
  gate.open();
  EXPECT_THAT(seen.values<float>(), ElementsAre(2, 3));
  EXPECT_THAT(taken.values<float>(), ElementsAre(3, 4));
}

// Donated arguments may be results in another place: values equal those of a call without donation
TEST_P(ExecutorGivingTest, ValuesAreTheSameInPlace) {
  const Executor swap(device, [](const std::pair<Node, Node>& p, Node z) {
    return std::tuple(p.second, p.first, z + sum(p.first), p.first + p.second, z);
  });
  const auto make = [&](float value) { return row({value, value + 1, value + 2}); };
  const auto expected = swap(std::pair(make(1), make(10)), make(100));
  const std::pair given(make(1), make(10));
  const Array z = make(100);
  const auto found = swap(donate(given), donate(z));
  std::vector<Values> want, have;
  visit_leaves<Array>(expected,
                      [&](const auto&, auto& x) { want.push_back(x.template values<float>()); });
  visit_leaves<Array>(found,
                      [&](const auto&, auto& x) { have.push_back(x.template values<float>()); });
  EXPECT_EQ(have, want);
  EXPECT_THAT(have[3], ElementsAre(11, 13, 15));
  EXPECT_FALSE(given.second.live());
}

// Each result has its own memory, even if the function returns one node twice, or its argument
TEST_P(ExecutorGivingTest, ResultsAreNoAliases) {
  const Executor twice(device, [](Node x) { return std::pair(x, x); });
  const Executor inc = plus_one();
  const Array x = row({5});
  const auto [a, b] = twice(x);
  static_cast<void>(inc(donate(x)));
  EXPECT_THAT(inc(donate(a)).values<float>(), ElementsAre(6));
  EXPECT_THAT(b.values<float>(), ElementsAre(5));
  const auto [c, d] = twice(donate(b));
  static_cast<void>(inc(donate(d)));
  EXPECT_THAT(c.values<float>(), ElementsAre(5));
}

// A result takes the memory of a value of the host, which only the call has as an array
TEST_P(ExecutorGivingTest, ResultsTakeTheMemoryOfValuesOfTheHost) {
  const Executor<Node (*)(const Node&)> twice(device, [](const Node& x) { return x + x; });
  const std::vector<float> values(1000, 1);
  throw_if_failed(twice(values).wait());
  const std::uint64_t one = device.statistics().bytes_in_use + sizeof(float) * values.size();
  EXPECT_EQ(twice(values).values<float>(), std::vector<float>(1000, 2));
  EXPECT_EQ(device.statistics().bytes_peak, one);
}

// Options donate arguments by number, with every leaf
TEST_P(ExecutorGivingTest, OptionsDonate) {
  const auto step = [](const std::vector<Node>& state, Node x) {
    return std::vector{state[0] + x, state[1] - x};
  };
  const Executor second(device, step, {.donate = {1}});
  const Executor first(device, step, {.donate = {0}});
  const Executor third(device, step, {.name = "third", .donate = {2}});
  const std::vector state{row({1}), row({2})};
  const Array x = row({3}), y = row({4});
  EXPECT_THAT(second(state, x)[1].values<float>(), ElementsAre(-1));
  EXPECT_FALSE(x.live());
  EXPECT_TRUE(state[0].live() && state[1].live());
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { third(state, y); }),
              AllOf(HasSubstr("executor 'third'"), HasSubstr("names argument 2"),
                    HasSubstr("called with 2")));
  EXPECT_THAT(first(state, y)[0].values<float>(), ElementsAre(5));
  EXPECT_FALSE(state[0].live() || state[1].live());
  EXPECT_TRUE(y.live());
}

// F6: when several threads donate one array, one call takes the array, and the remaining calls fail
TEST_P(ExecutorGivingTest, OneOfManyTakesADonatedArray) {
  const Executor inc = plus_one();
  inc(row({0})).wait();
  for (int round = 0; round < 20; ++round) {
    const Array x = row({1});
    std::atomic<int> taken = 0;
    in_threads(3, [&](int) {
      const auto tried = inc.try_call(donate(x));
      if (tried) {
        ++taken;
        EXPECT_THAT(tried.results->values<float>(), ElementsAre(2));
      } else {
        EXPECT_THAT(text(tried.status), HasSubstr("was donated"));
      }
    });
    EXPECT_EQ(taken, 1);
  }
}

// F4: a call without memory for its results takes no arguments either
TEST_P(ExecutorGivingTest, FullMemoryTakesNothing) {
  const Executor huge(device, [](Node x) { return broadcast_to(x, {std::int64_t{1} << 42}); },
                      {.name = "huge"});
  const Array x = row({1});
  EXPECT_THAT(refusal(ErrorCode::exhausted, [&] { huge(donate(x)); }),
              HasSubstr("the result of graph 'huge#0': 17592186044416 bytes"));
  EXPECT_TRUE(x.live());
  EXPECT_THAT(plus_one()(donate(x)).values<float>(), ElementsAre(2));
}

// F4: among several mistakes a type error is reported first, then the first argument's error
TEST_P(ExecutorGivingTest, TheFirstMistakeIsNamed) {
  const Executor add = adder();
  const Device other = another();
  const Array bad = lost(other), gone = row({1, 2}), longer = row({1, 2, 3});
  static_cast<void>(bad.wait());
  static_cast<void>(add(donate(gone), 1.0F));
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { add(gone, longer); }),
              HasSubstr("do not broadcast"));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { add(gone, bad); }),
              HasSubstr("argument 0 of 2, 'arg0' f32[2] was donated"));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { add(bad, gone); }),
              HasSubstr("argument 0 of 2, 'arg0' f32[2] did not come"));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { add(donate(gone), gone); }),
              HasSubstr("argument 0 of 2, 'arg0' f32[2] was donated"));
  static_cast<void>(device.submit("sensor", [] { throw std::runtime_error("unplugged"); }).wait());
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { add(gone, 1.0F); }),
              HasSubstr("argument 0 of 2, 'arg0' f32[2] was donated"));
  add.finalize();
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { add(gone, longer); }),
              HasSubstr("executor 'add' was finalised"));
}

// G12: results take the memory of donated arguments before temporaries made from host values
TEST_P(ExecutorGivingTest, DonatedArraysComeBeforeTemporaries) {
  const auto add = adder();
  const Array x = row({1, 2});
  const Array sum = add(Values{3, 4}, donate(x));
  EXPECT_THAT(sum.values<float>(), testing::ElementsAre(4, 6));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { add(x, x); }),
              testing::HasSubstr("has its memory now"));
}

}  // namespace
}  // namespace heddle
