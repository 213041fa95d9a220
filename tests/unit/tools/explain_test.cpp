// `heddle explain` and the files that it reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "heddle/graph_ops.hpp"
#include "heddle/status.hpp"
#include "heddle/trace.hpp"
#include "jit/loop/text.hpp"
#include "jit/machine/rates.hpp"
#include "tests/unit/tools/run_program.hpp"
#include "tools/explain/cost.hpp"
#include "tools/explain/program_file.hpp"

namespace heddle::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Outcome;
using testing::run_heddle;
using ::testing::StartsWith;

std::string parsed(const std::string& text) {
  return parse_program("dir/layer.heddle", text).to_string();
}
std::string refusal(const std::string& text) {
  try {
    return parse_program("p", text).to_string();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << text;
    return std::string(error.status().message());
  }
}

// J13: positions are written as in C++; an index may be called so too
TEST(ProgramFileTest, ReadsComputedPositions) {
  const std::string tensors = "tensor x f32[8]\ntensor r i32[5]\ntensor y f32[5]\n";
  EXPECT_THAT(parsed(tensors + "y(i) = x(at(r(i) * 2) + 1)\nx(at(r(at))) += y(at)\n"),
              AllOf(HasSubstr("y(i) = x(at((r(i) * 2)) + 1)"), HasSubstr("x(at(r(at))) += y(at)")));
  EXPECT_THAT(refusal(tensors + "y(i) = x(at(y(i)))\n"), HasSubstr("position of f32"));
  EXPECT_THAT(refusal(tensors + "y(i) = x(2 - at(r(i)))\n"), HasSubstr("-1 times"));
  EXPECT_THAT(refusal(tensors + "y(i) = x(at(r(i))\n"), HasSubstr("expected ')'"));
}

// J2: the notation of a file is that of C++
TEST(ProgramFileTest, ReadsWhatTheNotationHas) {
  const Tensor x("x", f32, {8, 3}), w("w", f32, {3, 4}), b("b", f32, {4}), y("y", f32, {8, 4}),
      total("total", f64, {}), g("g", f32, {4});
  const StaticIndex step("step", 2);
  Index i("i"), j("j"), k("k"), h("h", 4);
  Program p("layer");
  p << (y(i, j) = sum(x(i, k) * w(k, j))) << (y(i, j) = relu(y(i, j) + b(j)))
    << (total() += y(2 * h + step, 3) - -1.5e-1 * cast(embed(h), f32))
    << (b(j) -= where(b(j) < 0 || b(j) == 1, max(b(j), merge(g)(j)), fma(b(j), 2, 3) / 4))
    << (b(j) = bitcast(bitcast(b(j), u32) + 1, f32));
  EXPECT_EQ(parsed(R"(# a layer
tensor x f32[8, 3]   # comments anywhere
tensor w f32[3,4]
tensor b f32[4]
tensor y f32[8, 4]
tensor total f64[]
tensor g f32[4]
static step 2
index h 4
y(i, j) = sum(x(i, k) * w(k, j))
y(i, j) = relu(y(i, j) + b(j))

total() += y(2*h + step, 3) - -1.5e-1 * f32(h)
b(j) -= where(b(j) < 0 || b(j) == 1, max(b(j), merge(g)(j)), fma(b(j), 2, 3) / 4)
b(j) = from_bits(bits(b(j)) + 1)
)"),
            p.to_string());
}

TEST(ProgramFileTest, OperatorsBindAsInC) {
  const std::string head = "tensor a i64[4]\ntensor c i64[4]\n";
  EXPECT_EQ(parsed(head + "c(i) = 1 + a(i) * 2 - a(i) % 3"),
            parsed(head + "c(i) = (1 + (a(i) * 2)) - (a(i) % 3)"));
  EXPECT_EQ(parsed(head + "c(i) = where(a(i) + 1 < 2 && !(a(i) == 3) || false, 8, 9)"),
            parsed(head + "c(i) = where((((a(i) + 1) < 2) && (!(a(i) == 3))) || false, 8, 9)"));
  EXPECT_EQ(parsed(head + "c(3 - i) = a(i)"), parsed(head + "c(-1*i + 3) = a(i)"));
}

TEST(ProgramFileTest, ErrorsNameTheLineAndWhatWasExpected) {
  const std::string head = "tensor a f32[4]\ntensor c f32[4]\n";
  EXPECT_EQ(refusal(""), "p:1: no statement (expected at least one, such as y(i) = 2 * x(i))");
  EXPECT_EQ(refusal(head + "c(i) = b(i)"), "p:3: neither a tensor nor an operation: 'b'");
  EXPECT_EQ(refusal(head + "d(i) = a(i)"),
            "p:3: no tensor 'd' (expected a line 'tensor d f32[...]' before)");
  EXPECT_EQ(refusal(head + "c(i) = a(i) a(i)"), "p:3: found 'a' (expected the end of the line)");
  EXPECT_EQ(refusal(head + "c(i) = a(i) *"), "p:3: found 'end of line' (expected a value)");
  EXPECT_EQ(refusal(head + "c(i) = max(a(i))"), "p:3: 1 arguments of max (expected 2)");
  EXPECT_EQ(refusal(head + "c(i) = 1 + sum(a(i))"),
            "p:3: sum() reduces a whole right side: t(i) = sum(...)");
  EXPECT_EQ(refusal(head + "c(i) : a(i)"), "p:3: found ':' (expected =, +=, -=, *=, /=, &= or |=)");
  EXPECT_EQ(refusal("tensor a f33[4]"), "p:1: no dtype 'f33' (expected f32, i64, ...)");
  EXPECT_EQ(refusal("tensor a f32[x]"),
            "p:1: found 'x' (expected an extent, an integer below 2^63)");
  EXPECT_EQ(refusal("tensor a f32[99999999999999999999]"),
            "p:1: found '99999999999999999999' (expected an extent, an integer below 2^63)");
  EXPECT_EQ(refusal(head + "tensor a f32[1]"), "p:3: 'a' is declared twice");
  EXPECT_THAT(refusal(head + "c(i) = a(i + 4)"), HasSubstr("p:3: "));
  EXPECT_THAT(refusal(head + "c(i) = " + std::string(500, '(')), HasSubstr("deeper"));
  EXPECT_THAT(refusal(head + "c(i) = " + std::string(500, '-') + "a(i)"), HasSubstr("deeper"));
}

TEST(CostTest, CountsOperationsAndTraffic) {
  const Cost cost = cost_of(jit::parse_loop(R"(heddle-loop 1
buffer t0 input f32[4,8]
buffer t1 output f32[4]
kernel {
  for i0 in 0..4 {
    let x0: f32 = 0:f32
    for i1 in 0..8 {
      x0 = fma.f32(t0[i0, i1], t0[i0, i1], x0)
    }
    t1[i0] = relu.f32(x0)
  }
}
)"));
  EXPECT_EQ(cost.operations, 4 * (8 * 2 + 1));
  EXPECT_EQ(cost.bytes_read, 4 * 8 * 4);
  EXPECT_EQ(cost.bytes_written, 4 * 4);
  EXPECT_EQ(cost.bytes_of_scratch, 0);
}

TEST(MachineTest, MeasuresSomethingPlausible) {
  EXPECT_GT(jit::measure_peak_operations(), 1e7);
  EXPECT_GT(jit::measure_read_bandwidth(1 << 16), 1e7);
  EXPECT_GT(jit::measure_read_bandwidth(0), 1e7);
}

class ExplainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() /
            ("heddle_explain_" + std::to_string(::getpid()) + ".heddle");
  }
  void TearDown() override { std::filesystem::remove(path_); }
  Outcome explain(const std::string& text, const std::vector<std::string>& more = {}) const {
    std::ofstream(path_) << text;
    std::vector<std::string> arguments{"explain", path_.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_heddle(arguments);
  }

 private:
  std::filesystem::path path_;
};

TEST_F(ExplainTest, ShowsStagesCostAndLimits) {
  const Outcome outcome = explain(
      "tensor a f32[16, 8]\ntensor m f32[8]\ntensor c f32[16]\nstatic s 4\n"
      "c(i) = sum(a(i, k) * merge(m)(k) + f32(s))\n",
      {"--source"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* const title : {"described", "lowered", "placements", "signature", "source",
                                  "compiled", "cost", "limits"}) {
    EXPECT_THAT(outcome.out, HasSubstr(std::string("== ") + title + "\n"));
  }
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("measured "), HasSubstr("% of the bound's speed")));
}

// The bound bounds: a product in registers is hardly faster than multiply-adds alone, whose code is
// for this processor's vectors. Others may have disturbed them meanwhile; so it counts once.
TEST_F(ExplainTest, NothingIsMuchFasterThanItsBound) {
  const std::string percent_of = " % of the bound's speed at best";
  double percent = 0;
  for (int attempt = 0; attempt < 5 && (percent <= 0 || percent > 150); ++attempt) {
    const Outcome outcome = explain(
        "tensor a f32[256, 256]\ntensor b f32[256, 256]\ntensor c f32[256, 256]\n"
        "c(i, j) += a(i, k) * b(k, j)\n");
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::size_t end = outcome.out.find(percent_of);
    ASSERT_NE(end, std::string::npos) << outcome.out;
    percent = std::stod(outcome.out.substr(outcome.out.rfind('\n', end) + 1));
  }
  EXPECT_GT(percent, 0);
  EXPECT_LT(percent, 150);
}

// F1: the text of a graph, with its names and scopes
TEST_F(ExplainTest, TakesTextsOfGraphs) {
  const auto traced = trace(
      "layer",
      [](const Graph& g, const Node& x) {
        const auto scope = g.scope("layers/3");
        return softmax(x);
      },
      ArrayType{f32, {4, 8}});
  const std::string text = traced.graph().to_string();
  const Outcome outcome = explain("# a graph\n\n" + text, {"--source"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("== graph\n" + text + "\n== described\n"));
  for (const char* const title : {"lowered", "signature", "source", "compiled", "limits"})
    EXPECT_THAT(outcome.out, HasSubstr(std::string("== ") + title + "\n"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("arg0(i0, i1)"), HasSubstr("# layers/3\n")));
  const Outcome refused = explain("heddle-graph 1\nv0 = parameter f32[4]\nresults v1\n");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr(".heddle: graph text line 3 column 9: expected a result"));
  EXPECT_THAT(refused.out, IsEmpty());
}

TEST_F(ExplainTest, SaysWhatIsWrong) {
  Outcome outcome = explain("tensor a f32[16\n");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr(":1: found 'end of line' (expected ']')"));
  EXPECT_THAT(outcome.out, IsEmpty());
  outcome = run_heddle({"explain", "/dev/null/file"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("'/dev/null/file' cannot be read"));
  outcome = run_heddle({"explain", "/tmp"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("'/tmp' is a directory"));
  EXPECT_EQ(run_heddle({"explain"}).exit_code, 2);
}

}  // namespace
}  // namespace heddle::tools
