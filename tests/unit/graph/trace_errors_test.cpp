// Traces: what functions throw, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "unit/graph/traced_net.hpp"

namespace heddle::trace_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// F2, G16: what the function throws comes back with its name and its last node; the next trace of
// the thread is as if nothing had happened
TEST(TraceErrorsTest, WhatIsThrownNamesTheFunctionAndItsLastNode) {
  const auto fine = [](const Node& x) { return exp(x) + 1; };
  const std::string wanted = trace("fine", fine, pair_of_f32).graph().to_string();
  const auto throws = [](auto thrown) {
    return [thrown](const Node& x) -> Node {
      static_cast<void>(tanh(x));
      throw thrown;
    };
  };
  Status status = failed_trace("of_error", [](const Node& x) {
    const Node y = sum(x, {1});  // no such axis
    return y;
  });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(
      status.message(),
      MatchesRegex("function 'of_error' failed in its trace, at trace_errors_test.cpp:[0-9]+, "
                   "before it made a node"));
  EXPECT_THAT(status.cause().message(),
              HasSubstr("'sum' of %0 'arg0' f32[2] (trace_errors_test.cpp:"));
  status = failed_trace("of_exception", throws(std::runtime_error("no weights")));
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(status.message(), HasSubstr("after %1 tanh f32[2] (trace_errors_test.cpp:"));
  EXPECT_EQ(status.cause().message(), "no weights");
  EXPECT_THROW(std::rethrow_exception(status.exception()), std::runtime_error);
  status = failed_trace("of_memory", throws(std::bad_alloc()));
  EXPECT_EQ(status.code(), ErrorCode::exhausted);
  status = failed_trace("of_code", throws(Error(ErrorCode::not_found, "no file")));
  EXPECT_EQ(status.code(), ErrorCode::not_found);
  EXPECT_EQ(status.root().message(), "no file");
  status = failed_trace("of_number", throws(7));
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_EQ(status.cause().message(), "threw something that is no std::exception");
  EXPECT_THROW(std::rethrow_exception(status.exception()), int);
  status = failed_trace("of_nothing", throws(Error(Status())));
  EXPECT_EQ(status.cause().message(), "threw an Error without a failure");
  EXPECT_EQ(trace("fine", fine, pair_of_f32).graph().to_string(), wanted);
}

// F2, G16: types that no array has are refused under the argument's path
TEST(TraceErrorsTest, TypesAreChecked) {
  const Status status = failure([&] {
    static_cast<void>(trace(
        "sized", [](const std::vector<Node>& parts) { return parts; },
        std::vector{pair_of_f32, {f32, {-3}}}));
  });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(status.message(), StartsWith("arg0/1 of function 'sized' cannot be f32[-3], at "));
  EXPECT_THAT(status.cause().message(), HasSubstr("-3 elements"));
}

// G33: results are nodes of the graph, one at least; the error names the path of one that is none
TEST(TraceErrorsTest, ResultsAreChecked) {
  using Results = std::map<std::string, std::vector<Node>>;
  const auto refused = [](const char* name, const std::function<Results(Node)>& function) {
    const Status status = failure([&] { static_cast<void>(trace(name, function, pair_of_f32)); });
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << status.to_string();
    return std::string(status.message());
  };
  EXPECT_THAT(refused("none", [](const Node&) { return Results{{"a", {}}}; }),
              HasSubstr("function 'none' returned {\"a\": []}, in which is no node"));
  EXPECT_THAT(refused("null", [](const Node& x) { return Results{{"a", {x, x, Node()}}}; }),
              HasSubstr("result 'a/2' of graph 'null' is a node of no graph"));
  const Graph other("other");
  const Node foreign = other.parameter("y", {f32, {2}});
  EXPECT_THAT(
      refused("mixed", [&](const Node& x) { return Results{{"a", {x}}, {"b", {foreign}}}; }),
      AllOf(HasSubstr("result 'b/0' of graph 'mixed' is %0 'y' f32[2] (trace_errors_test.cpp:"),
            HasSubstr("of graph 'other'")));
  EXPECT_THAT(failed_trace("one", [](const Node&) { return Node(); }).message(),
              HasSubstr("the result of graph 'one' is a node of no graph"));
  const Status early = failure([] {
    static_cast<void>(
        trace("early", [](const Graph& g, Node x) { return g.finish({x}), x; }, pair_of_f32));
  });
  EXPECT_EQ(early.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(early.message(), HasSubstr("graph 'early' is finished already"));
}

// F2, G33: a node that was kept from another trace is refused, and both graphs are named
TEST(TraceErrorsTest, NodesOfOtherTracesAreRefused) {
  Node kept;
  const auto keeps = [&](const Node& x) { return kept = x + 1; };
  static_cast<void>(trace("earlier", keeps, pair_of_f32));
  const auto both = AllOf(HasSubstr("'earlier'"), HasSubstr("'later"));
  EXPECT_THAT(failed_trace("later", [&](const Node& x) { return x + kept; }).to_string(), both);
  EXPECT_THAT(failed_trace("later", [&](const Node&) { return exp(kept); }).to_string(), both);
  EXPECT_THAT(failed_trace("later", [&](const Node&) { return kept; }).to_string(), both);
  // Of two traces of one name, each has its number.
  EXPECT_THAT(failed_trace("earlier", [&](const Node& x) { return x + kept; }).root().message(),
              AllOf(HasSubstr("of graph 'earlier#2'"), HasSubstr("of graph 'earlier':")));
}

// F2: arguments of another structure are refused, with the first path that differs
TEST(TraceErrorsTest, OtherStructuresAreRefused) {
  const auto traced = trace("shaped", run_net, net_types(), ArrayType{f32, {4, 2}});
  const auto refused = [&](const auto&... arguments) {
    const Status status =
        failure([&] { static_cast<void>(traced.flatten_arguments<int>(arguments...)); });
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << status.to_string();
    return std::string(status.message());
  };
  const Net<int> net = tree_map<ArrayType>(net_types(), [](const ArrayType&) { return 7; });
  EXPECT_THAT(traced.flatten_arguments<int>(net, 8), ElementsAre(7, 7, 7, 7, 7, 8));
  Net<int> other = net;
  other.layers[1].bias = 9;
  EXPECT_THAT(refused(other, 8),
              AllOf(HasSubstr("the arguments of 'shaped"), HasSubstr("at arg0/layers/1/bias: ")));
  other = net;
  other.layers.pop_back();
  EXPECT_THAT(refused(other, 8), HasSubstr("at arg0/layers: "));
  other = net;
  other.scales.erase("in");
  EXPECT_THAT(refused(other, 8), HasSubstr("at arg0/scales: "));
  EXPECT_THAT(refused(net, std::vector{8}), HasSubstr("at arg1: "));
  EXPECT_THAT(refused(8, net), HasSubstr("at arg0: "));
  EXPECT_THAT(refused(net), HasSubstr("takes 2 arguments, and is given 1"));
}

}  // namespace
}  // namespace heddle::trace_test
