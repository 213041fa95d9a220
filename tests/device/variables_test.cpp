// Executor features beside arguments and results: variables, side parameters, marked nodes.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/device/executors_fixture.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class T>
struct VariablesMoments {
  T mean, square;
};
template <class T>
HEDDLE_TREE(VariablesMoments<T>, mean, square)

class VariablesTest : public ExecutorsFixture {
 protected:
  using Sums = Variable<Array>;
  using Moments = Variable<VariablesMoments<Array>>;
  /// Adds to the variable, and returns the old value.
  [[nodiscard]] auto adding(const Sums& sum, ExecutorOptions options = {.name = "add"}) const {
    return Executor(
        device,
        [=](const Graph& graph, Node by) {
          const Node before = sum.read(graph);
          sum.update(graph, before + by);
          return before;
        },
        std::move(options));
  }
  [[nodiscard]] Moments moments() const { return {"moments", {row({1}), row({2})}}; }
  /// Adds parameter "bias" f32[2].
  [[nodiscard]] auto biased(SideParametersHook hook) const {
    return Executor(
        device, [](const Graph& graph, Node x) { return x + graph.parameter("bias", {f32, {2}}); },
        {.name = "biased", .on_side_parameters = std::move(hook)});
  }
  [[nodiscard]] std::uint64_t bytes() const { return device.statistics().bytes_in_use; }
};
HEDDLE_CONFORMANCE_SUITE(VariablesTest);

// Each call reads the values of the previous call; copies held by callers stay unchanged
TEST_P(VariablesTest, CallsReadWhatTheLastOneLeft) {
  const Sums sum("sum", row({0, 1}));
  const Executor add = adding(sum);
  EXPECT_THAT(add(row({1, 1})).values<float>(), ElementsAre(0, 1));
  EXPECT_THAT(failure([&] { add(row({1, 2, 3})); }).to_string(),
              HasSubstr("'sum' f32[2] (variables_test.cpp:"));
  const Array kept = sum.value();
  EXPECT_THAT(add(row({2, 2})).values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(kept.values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(sum.value().values<float>(), ElementsAre(3, 4));
  sum.set(row({7, 7}));
  EXPECT_THAT(add(1.0F).values<float>(), ElementsAre(7, 7));
  EXPECT_THAT(sum.value().values<float>(), ElementsAre(8, 8));
  EXPECT_EQ(sum.name(), "sum");
  EXPECT_EQ(add.statistics().traces, 3U);
}

// Updates are in place if the arrays have no other owner: neither a snapshot nor the original array
TEST_P(VariablesTest, AreUpdatedInPlace) {
  std::optional<Array> first(std::in_place, device, Dims{1000}, Values(1000, 1));
  const Sums sum("sum", *first);
  const Executor add(device, [=](const Graph& graph, Node by) {
    sum.update(graph, sum.read(graph) + by);
    return by * 2;
  });
  const Array by = row({1}), result = add(by);
  device.await();
  const std::uint64_t both = bytes();
  EXPECT_TRUE(first->live());
  first.reset();
  EXPECT_EQ(bytes(), both - 4000);
  for (int k = 0; k < 3; ++k) {
    Gate gate(device);
    static_cast<void>(add(by));
    EXPECT_LT(bytes(), both - 3000);
  }
  const Array kept = sum.value();
  static_cast<void>(add(by));
  EXPECT_GE(bytes(), both);
  EXPECT_EQ(kept.values<float>()[999], 5);
  EXPECT_EQ(sum.value().values<float>()[0], 6);
}

// Leaves of one variable may swap places; a read after an update returns the new value
TEST_P(VariablesTest, UpdatesSeeOneAnother) {
  const Moments both = moments();
  const Executor swap(device, [=](const Graph& graph, Node x) {
    const auto [mean, square] = both.read(graph);
    both.update(graph, {square + x, mean});
    const auto then = both.read(graph);
    both.update(graph, {then.mean, then.square * 10});
    return std::pair(then.mean, then.square);
  });
  const auto [a, b] = swap(row({5}));
  EXPECT_THAT(a.values<float>(), ElementsAre(7));
  EXPECT_THAT(b.values<float>(), ElementsAre(1));
  swap(row({5}));
  EXPECT_THAT(both.value().mean.values<float>(), ElementsAre(15));
  EXPECT_THAT(both.value().square.values<float>(), ElementsAre(70));
  const Executor keep(device, [=](const Graph& graph, Node x) {
    both.update(graph, {x, x});
    return std::vector<Node>();
  });
  const Array x = row({3});
  EXPECT_THAT(keep(x), IsEmpty());
  static_cast<void>(plus_one()(donate(x)));
  EXPECT_THAT(both.value().mean.values<float>(), ElementsAre(3));
  EXPECT_THAT(both.value().square.values<float>(), ElementsAre(3));
}

// Calls take effect in call order, on any devices
TEST_P(VariablesTest, AreUpdatedInOrderOnAllDevices) {
  const Device other = another();
  const Sums sum("sum", row({1}));
  const Executor step(device, [=](const Graph& graph, Node times, Node plus) {
    sum.update(graph, sum.read(graph) * times + plus);
    return plus;
  });
  step(1.0F, 0.0F).wait();
  Gate gate(device);
  step(2.0F, 1.0F);
  step.on(other)(10.0F, 2.0F);
  const Array between = sum.value();
  step(3.0F, 3.0F);
  EXPECT_FALSE(between.done());
  gate.open();
  EXPECT_THAT(between.values<float>(), ElementsAre(32));
  EXPECT_THAT(sum.value().values<float>(), ElementsAre(99));
  const Device foreign = Backend::open("sync_cc").physical_device(0).new_virtual_device();
  step.on(foreign)(2.0F, 0.0F);
  step(1.0F, 1.0F);
  EXPECT_THAT(sum.value().values<float>(), ElementsAre(199));
}

// Threads lose no update, and threads that take variables in a different order do not deadlock
TEST_P(VariablesTest, ThreadsLoseNoUpdate) {
  const Device other = another();
  const Sums a("a", row({0})), b("b", row({0}));
  const auto add_to = [](const Sums& first, const Sums& second) {
    return [=](const Graph& graph, Node by) {
      const Node one = first.read(graph), two = second.read(graph);
      second.update(graph, two + by);
      first.update(graph, one + by);
      return one - two;
    };
  };
  const Executor ab(device, add_to(a, b)), ba(device, add_to(b, a));
  in_threads(4, [&](int t) {
    const Array by = Array(t % 2 == 0 ? device : other, Values{1});
    for (int k = 0; k < 50; ++k) {
      const Array none = t < 2 ? ab.on(by.device())(by) : ba.on(by.device())(by);
      EXPECT_THAT(none.values<float>(), ElementsAre(0));
    }
  });
  EXPECT_THAT(a.value().values<float>(), ElementsAre(200));
  EXPECT_THAT(b.value().values<float>(), ElementsAre(200));
}

// After the memory of a variable's array was taken, the next call names the taker, until the
// variable is set again
TEST_P(VariablesTest, SayWhoTookTheirArrays) {
  const Moments both = moments();
  const Executor mean(device, [=](const Graph& graph, Node x) { return both.read(graph).mean + x; },
                      {.name = "mean"});
  static_cast<void>(plus_one()(donate(both.value().mean)));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { mean(row({1})); }),
              HasSubstr("executor 'mean' on " + device.name() +
                        ": parameter 'moments/mean' f32[1] was donated: to executor 'inc'"));
  both.set({row({4}), row({4})});
  const Array value = both.value().mean;
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { mean(donate(value)); }),
              HasSubstr("is donated, and is parameter 'moments/mean' f32[1] too"));
  EXPECT_THAT(mean(value).values<float>(), ElementsAre(8));
}

// Type errors name the path and the expected type
TEST_P(VariablesTest, MistakesAreNamed) {
  const Moments both = moments();
  const Executor wrong(device, [=](const Graph& graph, Node x) {
    both.update(graph, {both.read(graph).mean, x});
    return x;
  });
  const std::string fits = "'moments/square' is f32[2] (expected f32[1], which it was made with)";
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { wrong(row({1, 2})); }),
              HasSubstr("the update of variable 'moments': " + fits));
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { both.set({row({1}), row({1, 2})}); }),
              HasSubstr("the new value of variable 'moments': " + fits));
  EXPECT_THAT(both.value().square.values<float>(), ElementsAre(2));
  EXPECT_THAT(refusal(ErrorCode::failed_precondition,
                      [&] { trace([&](const Graph& graph) { return both.read(graph).mean; }); }),
              AllOf(HasSubstr("variable 'moments'"), HasSubstr("no executor traces")));
  std::optional<Graph> kept;
  const Executor keep(device, [&](const Graph& graph, Node x) {
    kept = graph;
    return x;
  });
  keep(1.0F);
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { static_cast<void>(both.read(*kept)); }),
              AllOf(HasSubstr("variable 'moments'"), HasSubstr("is finished")));
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { Sums("", row({1})); }),
              HasSubstr("empty name"));
  EXPECT_THAT(refusal(ErrorCode::invalid_argument, [&] { Variable("none", std::vector<Array>()); }),
              HasSubstr("in which is no array"));
}

// Hooks set side parameters at each call, by number or name
TEST_P(VariablesTest, HooksSetSideParameters) {
  float next = 1;
  std::string seen;
  const Executor mixed(device,
                       [](const Graph& graph, Node x) {
                         const Node a = graph.parameter("a", {f32, {1}});
                         return x * a + graph.parameter("b", {f32, {2}});
                       },
                       {.name = "mixed", .on_side_parameters = [&](SideParameters& sides) {
                          seen = sides.graph().name();
                          for (std::size_t k = 0; k < sides.size(); ++k)
                            seen += " " + sides.name(k) + sides.type(k).to_string();
                          sides.set("b", row({10, 20}));
                          sides.set(0, row({99}));
                          sides.set(0, row({next++}));
                        }});
  EXPECT_THAT(mixed(row({1, 2})).values<float>(), ElementsAre(11, 22));
  EXPECT_EQ(seen, "mixed#0 af32[1] bf32[2]");
  EXPECT_THAT(mixed(row({1, 2})).values<float>(), ElementsAre(12, 24));
  EXPECT_EQ(mixed.statistics().traces, 1U);
}

// F4: side parameters that are missing, have the wrong type or throw refuse the call, without
// taking memory
TEST_P(VariablesTest, SideParametersAreChecked) {
  const Array x = row({1, 2}), bias = row({1, 1});
  const auto why = [&](ErrorCode code, SideParametersHook hook) {
    const Executor run = biased(std::move(hook));
    return refusal(code, [&] { run(donate(x)); });
  };
  using Sides = SideParameters;
  EXPECT_THAT(why(ErrorCode::failed_precondition, {}),
              HasSubstr("side parameter 0 of 1, 'bias' f32[2] of graph 'biased#0', is not set; set "
                        "it in ExecutorOptions::on_side_parameters, or make it an argument"));
  EXPECT_THAT(why(ErrorCode::failed_precondition, [](Sides&) {}), HasSubstr("is not set"));
  EXPECT_THAT(why(ErrorCode::invalid_argument, [&](Sides& s) { s.set(0, row({1})); }),
              HasSubstr("'bias' f32[2] of graph 'biased#0', is set to an array f32[1]"));
  EXPECT_THAT(why(ErrorCode::invalid_argument, [&](Sides& s) { s.set("weight", bias); }),
              HasSubstr("graph 'biased#0' has no side parameter 'weight'; it has 'bias'"));
  EXPECT_THAT(why(ErrorCode::invalid_argument, [&](Sides& s) { s.set(1, bias); }),
              HasSubstr("side parameter 1 of graph 'biased#0', which has 1, from 0 on"));
  EXPECT_THAT(
      why(ErrorCode::not_found, [](Sides&) { throw Error(ErrorCode::not_found, "no file"); }),
      HasSubstr("no file"));
  EXPECT_THAT(why(ErrorCode::invalid_argument, [&](Sides& s) { s.set(0, x); }),
              HasSubstr("is donated, and is parameter 'bias' f32[2] too"));
  EXPECT_TRUE(x.live());
  const Executor taking = biased([&](Sides& s) { s.set("bias", donate(bias)); });
  EXPECT_THAT(taking(x).values<float>(), ElementsAre(2, 3));
  EXPECT_FALSE(bias.live());
  EXPECT_TRUE(x.live());
  EXPECT_THAT(refusal(ErrorCode::failed_precondition, [&] { taking(x); }),
              HasSubstr("parameter 'bias' f32[2] was donated: to executor 'biased'"));
}

// Loggers receive the marked nodes of each call, in order, one call after the other
TEST_P(VariablesTest, LoggersAreToldWhatIsMarked) {
  std::vector<std::string> told;
  const NodeLogger logger = [&](const LoggedNodes& logged) {
    told.push_back(logged.graph.name());
    for (std::size_t k = 0; k < logged.messages.size(); ++k) {
      told.push_back(logged.messages[k] + ": " + logged.nodes[k].substr(0, 2) + " " +
                     std::to_string(logged.values[k].item<float>()).substr(0, 3));
    }
  };
  const Executor marked(device,
                        [](Node x, Node y) {
                          const Node sum = x + y;
                          const Node twice = (sum * 2).log("twice");
                          sum.log("sum");
                          y.log("y");
                          sum.log("again");
                          return twice - 1;
                        },
                        {.name = "marked", .logger = chain(logger, [&](const LoggedNodes&) {
                                             told.emplace_back("second");
                                           })});
  const Array x = row({1});
  EXPECT_THAT(marked(x, row({2})).values<float>(), ElementsAre(5));
  EXPECT_THAT(told, ElementsAre("marked#0", "twice: %5 6.0", "sum: %2 3.0", "y: %1 2.0",
                                "again: %2 3.0", "second"));
  told.clear();
  EXPECT_THAT(marked(donate(x), row({3})).values<float>(), ElementsAre(7));
  EXPECT_THAT(told[2], "sum: %2 4.0");
  told.clear();
  static_cast<void>(plus_one({.name = "plain", .logger = logger})(row({1})));
  EXPECT_THAT(told, ElementsAre("plain#0"));
}

// F4: a logger that throws fails the call; the error has its name and the exception's text
TEST_P(VariablesTest, LoggersThatThrowAreNamed) {
  const Executor marked(device, [](Node x) { return (x + 1).log("sum"); },
                        {.name = "marked", .logger = [](const LoggedNodes&) {
                           throw std::runtime_error("disk full");
                         }});
  const auto told = marked.try_call(row({1}));
  EXPECT_THAT(text(told.status), AllOf(HasSubstr("executor 'marked'"),
                                       HasSubstr("its logger failed"), HasSubstr("disk full")));
  EXPECT_THROW(std::rethrow_exception(told.status.exception()), std::runtime_error);
}

// The default logger prints marked nodes, in full on request; without a logger the output is empty
TEST_P(VariablesTest, MarkedNodesArePrinted) {
  const auto twice = [](Node x) {
    x.log("#full all");
    return (x * 2).log("twice");
  };
  const auto printed = [&](const auto& executor, std::int64_t n) {
    testing::internal::CaptureStderr();
    executor(HostArray::range({f32, {n}})).wait();
    return testing::internal::GetCapturedStderr();
  };
  const Executor loud(device, twice, {.name = "loud"});
  EXPECT_THAT(printed(loud, 100), AllOf(HasSubstr("graph 'loud#0':\nall: %0 'arg0' f32[100]"),
                                        HasSubstr(" 50, 51, 52,"),
                                        HasSubstr("twice: %3 mul f32[100]"), HasSubstr("...")));
  const bool whole = printed(loud, 2500).find("2498, 2499]") != std::string::npos;
  EXPECT_TRUE(whole);
  EXPECT_THAT(printed(Executor(device, twice, {.logger = nullptr}), 100), IsEmpty());
  EXPECT_THAT(printed(plus_one(), 100), IsEmpty());
}

// J33: parts of buffers are updated through new memory
TEST_P(VariablesTest, PartsOfBuffersAreUpdated) {
  const Buffer both = Buffer::allocate(device, {f32, {4}});
  const Variable part("part", Array(device, BufferView(both, {f32, {2}}, 8)));
  const Executor add(device, "add", [=](const Graph& graph, Node by) {
    part.update(graph, part.read(graph) + by);
  });
  for (int k = 0; k < 3; ++k) add(row({1, 2}));
  EXPECT_THAT(part.value().values<float>(), ElementsAre(3, 6));
  EXPECT_THAT(Array(device, BufferView(both, {f32, {4}})).values<float>(), ElementsAre(0, 0, 0, 0));
}

// S4: a call that waits for room in a queue does not block readers of its variables
TEST_P(VariablesTest, AreReadWhileCallsWaitForRoom) {
  if (GetParam().starts_with("sync_")) return;  // its calls do not wait
  BackendOptions options;
  options.name = GetParam();
  options.scheduling.device.queue_size = 2;
  const Backend small = Backend::open(options);
  const Device busy = small.physical_device(0).new_virtual_device();
  const Variable steps("steps", Array(busy, {0.F}));
  const Executor step(busy, "step",
                      [=](const Graph& graph) { steps.update(graph, steps.read(graph) + 1); });
  step();
  std::atomic<bool> begun = false, read = false;
  busy.submit("reads", [&] {
    begun = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // until a call waits
    static_cast<void>(steps.value());
    read = true;
  });
  wait_until([&] { return begun.load(); });
  for (int k = 0; k < 4; ++k) step();
  EXPECT_TRUE(read);
  EXPECT_EQ(steps.value().item<float>(), 5);
}

}  // namespace
}  // namespace heddle
