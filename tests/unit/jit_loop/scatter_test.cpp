// Accumulations by atomic operations: their text and rules, what schedules and emitters make of
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heddle/graph_ops.hpp"
#include "jit/emit/c.hpp"
#include "jit/emit/cuda.hpp"
#include "jit/loop/rewrite.hpp"
#include "support/failure.hpp"
#include "support/gpu_kernels.hpp"
#include "support/parsed.hpp"
#include "support/random_contraction.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Loop accumulating(const std::string& body) {
  return parsed(
      "buffer t0 input i32[64]\nbuffer t1 input f32[64]\nbuffer t2 inout f32[8]\n"
      "buffer t3 inout i32[8]\nbuffer t4 inout i64[8]\nkernel {\n" +
      body + "}\n");
}

/// In each iteration of a parallel loop and its block loop, at a position i2.
std::string by_threads(const std::string& stores) {
  return "parallel i0 in 0..2 {\nblock i1 in 0..32 {\nat i2 in 0..8 = t0[32*i0 + i1] {\n" + stores +
         "}\n}\n}\n";
}

std::string refused(const std::string& body) {
  return failure([&] { static_cast<void>(accumulating(body)); }).to_string();
}

const std::string adds = "t2[i2] atomically= add.f32(t2[i2], t1[32*i0 + i1])\n";

// J5: the text says which stores are atomic
TEST(ScatterTest, TextKeepsTheMark) {
  const Loop loop = accumulating(by_threads(adds));
  const std::string text = print(loop);
  EXPECT_THAT(text, HasSubstr("        t2[i2] atomically= add.f32(t2[i2], t1[32*i0 + i1])\n"));
  EXPECT_EQ(print(parse_loop(text)), text);
  const Loop atomic = accumulating("t2[0] atomically= add.f32(t2[0], 1:f32)\n");
  const Loop plain = accumulating("t2[0] = add.f32(t2[0], 1:f32)\n");
  EXPECT_FALSE(atomic == plain);
  EXPECT_NE(hash(atomic), hash(plain));
  EXPECT_TRUE(substitute(atomic.body[0], {})->atomic);
}

// J5: what an atomic store may do
TEST(ScatterTest, AtomicStoresAccumulate) {
  for (const char* const value :
       {"t1[0]", "mul.f32(t2[0], 2:f32)", "min.f32(t2[0], 2:f32)", "add.f32(t2[1], 2:f32)",
        "add.f32(t2[0], t2[0])", "add.f32(t2[0], mul.f32(t2[1], 2:f32))"}) {
    EXPECT_THAT(refused(std::string("t2[0] atomically= ") + value + "\n"),
                HasSubstr("t2 is stored atomically, but not by t2[..] = op(t2[..], term)"))
        << value;
  }
  EXPECT_THAT(refused("t4[0] atomically= max.i64(t4[0], 1:i64)\n"), HasSubstr("t4 is stored"));
  EXPECT_EQ(refused("t4[0] atomically= add.i64(2:i64, t4[0])\n"), "ok");
  EXPECT_THAT(refused("lanes i0 in 0..4 { t3[i0] atomically= add.i32(t3[i0], 1:i32) }\n"),
              HasSubstr("lanes loop i0 stores atomically"));
}

// J5, J9: iterations that run at once may meet in accumulations of one operation, and in nothing
// else
TEST(ScatterTest, ParallelIterationsMeetInAccumulationsAlone) {
  EXPECT_EQ(refused(by_threads(adds)), "ok");
  EXPECT_EQ(refused(by_threads("t3[i2] atomically= min.i32(t3[i2], 1:i32)\n"
                               "t3[0] atomically= min.i32(t3[0], 2:i32)\n")),
            "ok");
  EXPECT_THAT(refused(by_threads("t2[i2] = add.f32(t2[i2], t1[32*i0 + i1])\n")),
              HasSubstr("writes elements of t2 that other iterations touch"));
  const auto mixed = HasSubstr("accumulates in t2 atomically, and accesses it otherwise too");
  EXPECT_THAT(refused(by_threads(adds + "t4[0] atomically= add.i64(t4[0], i64(t2[0]))\n")), mixed);
  EXPECT_THAT(refused(by_threads(adds + "t2[i2] = 1:f32\n")), mixed);
  EXPECT_THAT(refused("parallel i0 in 0..8 { at i1 in 0..8 = i32(t2[i0]) {\n"
                      "t2[i1] atomically= add.f32(t2[i1], 1:f32) } }\n"),
              mixed);
  EXPECT_THAT(refused(by_threads("t3[i2] atomically= min.i32(t3[i2], 1:i32)\n"
                                 "t3[i2] atomically= max.i32(t3[i2], 1:i32)\n")),
              HasSubstr("accumulates in t3 atomically, and accesses it otherwise too"));
  EXPECT_THAT(refused(by_threads(adds + "zero t3\n")), HasSubstr("zeroes t3"));
}

/// The text of the loops on a GPU, which compute what they did, one after the other.
std::string on_gpu(const Lowered& plain, bool unordered, int sm = 90) {
  const Lowered made = schedule(plain, gpu_target(sm), {}, {}, {}, false, unordered);
  std::vector<HostArray> expected, found;
  for (std::size_t k = 0; k < plain.loop.buffers.size(); ++k) {
    expected.push_back(small_numbers(plain.loop.buffers[k].type, k));
    found.push_back(small_numbers(plain.loop.buffers[k].type, k));
  }
  interpret(plain.loop, expected);
  interpret(made.loop, found);
  for (std::size_t k = 0; k < expected.size(); ++k)
    EXPECT_TRUE(same_elements(expected[k], found[k])) << print(made.loop);
  return print(made.loop);
}

// J9: where order does not matter, the threads of a GPU share a scatter out
TEST(ScatterTest, ThreadsShareScattersOut) {
  const Tensor to("to", i32, {5000}), x("x", f32, {5000}), z("z", f32, {16});
  const Index i, k;
  Program program("scatter");
  program << (z(at(to(i))) += x(i));
  const Lowered plain = optimize(lower(program));
  EXPECT_THAT(on_gpu(plain, true),
              AllOf(HasSubstr("  # scatter: threads accumulate in any order"),
                    HasSubstr("  parallel i0 in 0..19 {\n    block i1 in 0..256 {\n      at i2 in "
                              "0..16 = t0[256*i0 + i1] {\n        t1[i2] atomically= add.f32("
                              "t1[i2], t2[256*i0 + i1])\n")));
  EXPECT_THAT(on_gpu(plain, false),
              AllOf(HasSubstr("for i0 in 0..5000"), Not(HasSubstr("parallel")),
                    Not(HasSubstr("atomically"))));
  // The threads take neighbours of a row.
  const Tensor rows("rows", f32, {50, 64}), sums("sums", f32, {16, 64}), at_rows("at", i32, {50});
  Program of_rows("rows");
  of_rows << (sums(at(at_rows(i)), k) += rows(i, k));
  EXPECT_THAT(on_gpu(optimize(lower(of_rows)), true),
              HasSubstr("  parallel i0 in 0..50 {\n    block i1 in 0..64 {\n      at i2 in 0..16 = "
                        "t0[i0] {\n        t1[i2, i1] atomically= add.f32("));
}

/// A lowered kernel with these loops.
Lowered of_text(const std::string& text) {
  Lowered lowered;
  lowered.loop = parsed(text);
  lowered.interface = read_interface(lowered.loop);
  for (const BufferDecl& each : lowered.loop.buffers)
    lowered.tensors.emplace_back("t", each.type.dtype, each.type.dims);
  return lowered;
}

// J9: a buffer of which each thread has elements of its own is stored to as before, and may be read
TEST(ScatterTest, OnlyElementsThatThreadsMeetInAreAtomic) {
  EXPECT_THAT(on_gpu(of_text("buffer t0 input i32[64]\nbuffer t1 inout i32[8]\n"
                             "buffer t2 inout i32[64]\nbuffer t3 inout i32[64]\nkernel {\n"
                             "for i0 in 0..64 {\nt2[i0] = add.i32(t2[i0], 1:i32)\n"
                             "t3[i0] = t2[i0]\nat i1 in 0..8 = t0[i0] {\n"
                             "t1[i1] = add.i32(t1[i1], t2[i0]) } } }\n"),
                     true),
              AllOf(HasSubstr("block i1 in 0..64"), HasSubstr("t2[i1] = add.i32("),
                    HasSubstr("t1[i2] atomically= add.i32(")));
  EXPECT_THAT(on_gpu(of_text("buffer t0 input i32[64]\nbuffer t1 inout i32[8]\nkernel {\n"
                             "for i0 in 0..64 {\nat i1 in 0..8 = t0[i0] {\n"
                             "t1[i1] = add.i32(t1[i1], 3:i32)\n"
                             "t1[i1] = min.i32(t1[i1], 5:i32) } } }\n"),
                     true),
              Not(HasSubstr("atomically")))
      << "two operations";
}

// J9: what a GPU cannot make atomic stays in order, and so does what has work for many threads
TEST(ScatterTest, OthersStayInOrder) {
  const Index i, k;
  const Tensor to("to", i32, {5000});
  const auto of_type = [&](DType type, int sm) {
    const Tensor x("x", type, {5000}), z("z", type, {16});
    Program program("scatter");
    program << (z(at(to(i))) += x(i));
    return on_gpu(optimize(lower(program)), true, sm);
  };
  for (const DType type : {i32, u32, i64, u64, f32, f64})
    EXPECT_THAT(of_type(type, 90), HasSubstr("atomically")) << name(type);
  for (const DType type : {i8, u16, f16})
    EXPECT_THAT(of_type(type, 90), Not(HasSubstr("atomically"))) << name(type);
  EXPECT_THAT(of_type(f64, 52), Not(HasSubstr("parallel")));
  for (const Scatter how : {Scatter::set, Scatter::multiply, Scatter::minimum, Scatter::maximum}) {
    Graph g("scatter");
    const Node x = g.parameter("x", {i32, {16}}), places = g.parameter("to", {i32, {5000}}),
               updates = g.parameter("updates", {i32, {5000}});
    g.finish({scatter(x, {places}, updates, how)});
    const bool atomic = how == Scatter::minimum || how == Scatter::maximum;
    const std::string text = on_gpu(optimize(lower(g.program().program)), true);
    EXPECT_EQ(text.find("atomically") != std::string::npos, atomic) << text;
  }
  const Tensor each("each", f32, {640});
  Program own_elements("own elements");
  own_elements << (each(i) += 1);
  EXPECT_THAT(on_gpu(optimize(lower(own_elements)), true), Not(HasSubstr("atomically")));
  // 8192 rows of their own are work enough.
  const Tensor few("few", i32, {3}), y("y", f32, {3, 8192}), own("own", f32, {5, 8192});
  Program wide("wide");
  wide << (own(at(few(i)), k) += y(i, k));
  EXPECT_THAT(on_gpu(optimize(lower(wide)), true), HasSubstr("atomically")) << "inside";
  EXPECT_THAT(on_gpu(of_text("buffer t0 input i32[3]\nbuffer t1 inout f32[5,8192]\n"
                             "buffer t2 input f32[3,8192]\nkernel {\nfor i0 in 0..8192 {\n"
                             "for i1 in 0..3 { at i2 in 0..5 = t0[i1] {\n"
                             "t1[i2, i0] = add.f32(t1[i2, i0], t2[i1, i0]) } } } }\n"),
                     true),
              AllOf(HasSubstr("parallel"), Not(HasSubstr("atomically"))));
}

// J9: a position stays outside a loop that changes what it is read from
TEST(ScatterTest, PositionsStayWhereTheyAreRead) {
  const Lowered lowered = of_text(
      "buffer t0 inout i32[64]\nbuffer t1 inout i32[8]\nkernel {\nfor i0 in 0..64 {\n"
      "at i1 in 0..8 = t0[i0] { for i2 in 0..3 {\nt0[i0] = 7:i32\n"
      "t1[i1] = add.i32(t1[i1], 1:i32) } } } }\n");
  EXPECT_THAT(on_gpu(lowered, true),
              AllOf(HasSubstr("block i1 in 0..64 {\n      at i2 in 0..8 = t0["),
                    HasSubstr("t1[i2] atomically= ")));
}

// B4, J6: kernels for GPUs store atomically where threads meet; those for processors never do
TEST(ScatterTest, OnlyGpusStoreAtomically) {
  const Loop loop = accumulating(by_threads(
      adds +
      "t3[i2] atomically= max.i32(t3[i2], t0[i2])\nt4[i2] atomically= add.i64(t4[i2], -1:i64)\n"));
  const CompileUnit unit = gpu_kernels(loop, "unit").unit;
  EXPECT_THAT(emit_cuda(unit, gpu_target(90)),
              AllOf(HasSubstr("atomicAdd(&t2[i2], t1["), HasSubstr("atomicMax(&t3[i2], t0[i2]);"),
                    HasSubstr("atomicAdd((GLOBAL u64*)&t4[i2], (u64)(")));
  EXPECT_THAT(failure([&] { static_cast<void>(emit_c(unit)); }).to_string(),
              HasSubstr("stores to t2 atomically in parallel loops: only GPUs have such stores"));
  const Loop serial = accumulating("for i0 in 0..8 { t3[0] atomically= max.i32(t3[0], t0[i0]) }\n");
  EXPECT_THAT(emit_c(gpu_kernels(serial, "unit").unit), HasSubstr("t3[0] = "));
}

}  // namespace
}  // namespace heddle::jit::testing
