// Expressions that share their parts: n operations are n operations, however many paths lead to
// them. Each test ends at once, or not in a lifetime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <string>

#include "heddle/code.hpp"
#include "heddle/program.hpp"
#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/lower/lower.hpp"
#include "jit/toolchain/compiler.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr int levels = 60;

/// x(i), added to itself 60 times over: 60 operations, 2^60 paths.
Expr doubled(const Tensor& x, const Index& i) {
  Expr e = x(i);
  for (int n = 0; n < levels; ++n) e = e + e;
  return e;
}

struct Chain {
  Tensor x{"x", f64, {4}}, y{"y", f64, {4}}, z{"z", f64, {4}};
  Index i;
  Program program(const std::string& name) const {
    Program p(name);
    p << (y(i) = doubled(x, i));
    return p;
  }
};

std::chrono::nanoseconds processor_time() {
  timespec now{};
  EXPECT_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// The time that this thread works in it, however busy the machine is.
std::chrono::milliseconds time_of(const std::function<void()>& call) {
  const std::chrono::nanoseconds start = processor_time();
  call();
  return std::chrono::duration_cast<std::chrono::milliseconds>(processor_time() - start);
}

// J2: describing and asking for tensors
TEST(SharedExprTest, AreDescribedAtOnce) {
  const Chain chain;
  EXPECT_LT(time_of([&] {
              Program p = chain.program("doubled");
              p << p;
              EXPECT_EQ(p.tensors(), (std::vector<Tensor>{chain.x, chain.y}));
              EXPECT_EQ(p.reads_before_writing(), (std::vector<Tensor>{chain.x}));
              EXPECT_EQ(p.merge_tensor(), std::nullopt);
            }),
            std::chrono::seconds(1));
}

// J5: each part is printed once, by a name; small programs are trees as they were written
TEST(SharedExprTest, ArePrintedOnce) {
  const Chain chain;
  std::string text;
  EXPECT_LT(time_of([&] { text = chain.program("doubled").to_string(); }), std::chrono::seconds(1));
  EXPECT_THAT(text, testing::StartsWith("program doubled\n"
                                        "  let e0 = (x(i0) + x(i0))\n"
                                        "  let e1 = (e0 + e0)\n"));
  EXPECT_THAT(text, EndsWith("  let e58 = (e57 + e57)\n"
                             "  y(i0) = (e58 + e58)\n"));
  EXPECT_LT(text.size(), 2000u);
  Program small("small");
  const Expr twice = chain.x(chain.i) + chain.x(chain.i);
  small << (chain.y(chain.i) = twice * twice);
  EXPECT_THAT(small.to_string(), HasSubstr("y(i0) = ((x(i0) + x(i0)) * (x(i0) + x(i0)))\n"));
}

// J5: whatever is described, its text is bounded, and says where it was cut
TEST(SharedExprTest, LongTextIsCut) {
  const Chain chain;
  Program wide("wide");
  for (int n = 0; n < 20'000; ++n) wide << (chain.y(chain.i) = chain.x(chain.i) * n);
  EXPECT_LT(wide.to_string().size(), std::size_t{65} << 10);
  EXPECT_THAT(wide.to_string(), EndsWith("of 20000)\n"));
  Program labelled(std::string(1 << 20, 'p'));
  labelled.comment(std::string(1 << 20, 'c'));
  EXPECT_LT(labelled.to_string().size(), std::size_t{65} << 10);
  EXPECT_THAT(labelled.to_string(), HasSubstr("cut"));
}

TEST(SharedExprTest, StayShared) {
  // Seam: substitute() keeps what it does not change, and shares what it makes
  const Chain chain;
  Program other("other");
  EXPECT_LT(time_of([&] { other = chain.program("doubled").substitute({{chain.x, chain.z}}); }),
            std::chrono::seconds(1));
  EXPECT_EQ(other.tensors(), (std::vector<Tensor>{chain.z, chain.y}));
  EXPECT_THAT(other.to_string(), HasSubstr("let e58 = (e57 + e57)"));
}

// J7: a nameless program is refused with its beginning, not with all of it
TEST(SharedExprTest, AreRefusedWithoutAName) {
  const Chain chain;
  const Program nameless = chain.program("");
  std::string why;
  EXPECT_LT(time_of([&] {
              try {
                static_cast<void>(jit::draft_program(nameless, {}, jit::make_null_compiler()));
              } catch (const Error& error) {
                EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
                why = error.what();
              }
            }),
            std::chrono::seconds(1));
  EXPECT_THAT(why, AllOf(HasSubstr("no name"), HasSubstr("let e0 = (x(i0) + x(i0))")));
  EXPECT_LT(why.size(), 1000u);
}

// J5: lowered and optimised, n operations are n operations
TEST(SharedExprTest, AreCompiledAtOnce) {
  const Chain chain;
  std::string loops;
  EXPECT_LT(time_of([&] {
              const Code code = jit::finish(
                  jit::draft_program(chain.program("doubled"), {}, jit::make_null_compiler()));
              loops = code.loop_text() + code.unoptimized_text();
            }),
            std::chrono::seconds(1));
  EXPECT_THAT(loops, HasSubstr("add.f64(x57, x57)"));
  EXPECT_THAT(loops, Not(HasSubstr("add.f64(add.f64(add")));
  EXPECT_LT(loops.size(), 20'000u);
}

// J4: so are tensors that are recomputed where they are read, each read twice
TEST(SharedExprTest, VirtualTensorsInAChainAreCompiledAtOnce) {
  Index i;
  Program p("chain");
  std::vector<Tensor> made{Tensor("x", f64, {4})};
  for (int n = 0; n < levels; ++n) {
    made.emplace_back("v" + std::to_string(n), f64, Dims{4});
    if (n + 1 < levels) made.back().set_mode(MemoryMode::virtual_);
    p << (made[n + 1](i) = made[n](i) + made[n](i));
  }
  std::string loops;
  EXPECT_LT(time_of([&] {
              loops = jit::finish(jit::draft_program(p, {}, jit::make_null_compiler())).loop_text();
            }),
            std::chrono::seconds(2));
  EXPECT_LT(loops.size(), 40'000u);
}

// J2: statements are appended in time that does not depend on how many there are
TEST(SharedExprTest, ManyStatementsAreDescribedAtOnce) {
  const Tensor g("g", f32, {4});
  Index i;
  const auto append = [&](int count) {
    return time_of([&] {
      Program p("many");
      for (int n = 0; n < count; ++n) p << (g(i) = g(i) + merge(g)(i) * n);
      EXPECT_EQ(p.tensors().size(), 1u);
    });
  };
  // Eight times as many take eight times as long; looking at all earlier ones would take 64 times.
  const auto few = append(2'500);
  EXPECT_LT(append(20'000), 24 * few + std::chrono::milliseconds(100));
}

}  // namespace
}  // namespace heddle
