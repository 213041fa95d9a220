// Where tensors live: tracing, inference, inlining and their refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "heddle/host_array.hpp"
#include "heddle/status.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/text.hpp"
#include "jit/lower/passes.hpp"
#include "support/parsed.hpp"

namespace heddle::jit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using enum MemoryMode;

MemoryMode mode_of(const Lowered& lowered, const Tensor& tensor) {
  for (const auto& [placed, placement] : lowered.placements) {
    if (placed == tensor) return placement.mode;
  }
  ADD_FAILURE() << tensor.label() << " has no placement";
  return unset;
}

MemoryMode placed(const Program& program, const Tensor& tensor, OptimizeOptions options = {}) {
  return mode_of(optimize(lower(program), options), tensor);
}

std::string refusal(const Program& program) {
  try {
    static_cast<void>(optimize(lower(program)));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return std::string(e.status().message());
  }
  return {};
}

struct PlacementTest : ::testing::Test {
  Tensor a{"a", f32, {4}}, v{"v", f32, {4}}, out{"out", f32, {4}};
  Index i, j;
  Program program{"p"};
};

// J4: what is only read is an input; with host storage a constant
TEST_F(PlacementTest, InputsStayInMemory) {
  const Tensor host("host", HostArray(ArrayType{f32, {4}}), hosted_constant);
  const Tensor fixed("fixed", f32, {4}), stored("stored", f32, {4}), near("near", f32, {4});
  fixed.set_mode(effectively_constant);
  stored.set_mode(materialized);
  near.set_mode(device_only);
  program << (out(i) = a(i) + host(i) + fixed(i) + stored(i) + near(i));
  EXPECT_EQ(placed(program, a), on_device);
  EXPECT_EQ(placed(program, host), hosted_constant);
  EXPECT_EQ(placed(program, fixed), on_device);
  EXPECT_EQ(placed(program, stored), on_device);
  EXPECT_EQ(placed(program, near), on_device);
}

// J4: what several scatters would compute from several elements, they read
TEST_F(PlacementTest, ProductsOfScattersAreStored) {
  constexpr std::int64_t edges = 5000;
  const Tensor t("t", f32, {edges}), d("d", f32, {edges, 3}), from("from", i64, {edges}),
      to("to", i64, {edges}), sums("sums", f32, {90, 3}), more("more", f32, {90, 3}),
      pull("pull", f32, {edges, 3}), back("back", f32, {edges, 3});
  const Index edge, axis;
  const auto scattered = [&](const Expr& value) {
    Program scatters("scatters");
    scatters << (pull(edge, axis) = value) << (sums(at(from(edge)), axis) += pull(edge, axis))
             << (back(edge, axis) = -pull(edge, axis));
    scatters << (more(at(to(edge)), axis) += back(edge, axis));
    return placed(scatters, pull);
  };
  EXPECT_EQ(scattered(t(edge) * d(edge, axis)), local);
  EXPECT_EQ(scattered(2 * d(edge, axis)), virtual_);
}

// J4: what is read before it is written lives between runs
TEST_F(PlacementTest, RecurrentTensorsStayInMemory) {
  const Tensor host("host", HostArray(ArrayType{f32, {4}}), hosted_nonconstant);
  program << (v(i) += a(i)) << (host(i) *= 2) << (out(i) = v(i));
  EXPECT_EQ(placed(program, v), on_device);
  EXPECT_EQ(placed(program, host), hosted_changed_on_devices);
}

// J4: an unset tensor that a program leaves with a value is a result, however it was made
TEST_F(PlacementTest, ResultsAreNeverLost) {
  const Tensor grown("grown", f32, {4}), reused("reused", f32, {4});
  program << (grown(i) = a(i)) << (grown(i) += a(i)) << (reused(i) = a(i)) << (out(i) = reused(i))
          << (reused(i) = 0);
  EXPECT_EQ(placed(program, grown), on_device);
  EXPECT_EQ(placed(program, reused), on_device);
  EXPECT_EQ(placed(program, out), on_device);
}

// J4: cells read once are recomputed, cells read more often are stored in scratch
TEST_F(PlacementTest, IntermediatesAreVirtualOrLocal) {
  const Tensor once("once", f32, {4}), often("often", f32, {4}), fixed("fixed", f32, {4}),
      grid("grid", f32, {4, 4});
  program << (once(i) = exp(a(i))) << (often(i) = exp(a(i))) << (fixed(i) = 0.25)
          << (out(i) = once(i) * often(i)) << (grid(i, j) = often(i) * fixed(j));
  EXPECT_EQ(placed(program, once), virtual_);
  EXPECT_EQ(placed(program, often), local);
  EXPECT_EQ(placed(program, fixed), virtual_) << "constants cost nothing to recompute";
  EXPECT_EQ(placed(program, often, {.max_visits = 10}), virtual_);
  EXPECT_EQ(placed(program, once, {.inline_virtual = false}), local);
}

// J4: a cell read more often is recomputed too where that takes less than storing and loading it
TEST_F(PlacementTest, CheapIntermediatesAreRecomputed) {
  constexpr std::int64_t n = 5000;  // beyond the first-level cache
  const Tensor x("x", f32, {n}), y("y", f32, {n}), cheap("cheap", f32, {n}), dear("dear", f32, {n}),
      many("many", f32, {n}), total("total", f32, {}), wide("wide", f32, {n, 40}),
      small("small", f32, {4});
  const Index all, other;
  program << (cheap(all) = x(all) * 2 + 1) << (dear(all) = cheap(all) / cheap(n - 1 - all))
          << (y(all) = dear(all) * dear(n - 1 - all)) << (many(all) = x(all) * 2 - 1)
          << (wide(all, other) = many(all)) << (total() = sum(cheap(all)))
          << (small(i) = a(i) * 2 + 1) << (out(i) = small(i) * small(3 - i));
  EXPECT_EQ(placed(program, cheap), virtual_);
  EXPECT_EQ(placed(program, dear), local) << "a division, and two of the others";
  EXPECT_EQ(placed(program, many), local) << "each is read 40 times";
  EXPECT_EQ(placed(program, small), local) << "near ones are as soon loaded";
  EXPECT_EQ(placed(program, cheap, {.inline_virtual = false}), local);
  // What reads a sum that is computed where it is read takes that sum's time; and what has elements
  // of another size would keep its readers from being vectors.
  const Tensor h("h", f32, {100, 100}), r("r", f32, {100, 100}), z("z", f32, {100, 100}),
      w1("w1", f32, {100, 100}), w2("w2", f32, {100, 100});
  const Tensor bytes("bytes", i8, {n}), numbers("numbers", f32, {n});
  const Index p, q, k, l;
  Program layers("layers");
  layers << (h(p, q) = sum(w1(p, k) * w2(k, q))) << (r(p, q) = relu(h(p, q)))
         << (z(p, l) = sum(r(p, q) * w1(q, l))) << (numbers(all) = cast(bytes(all), f32))
         << (y(all) = numbers(all) * numbers(n - 1 - all));
  EXPECT_EQ(placed(layers, r), local);
  EXPECT_EQ(placed(layers, numbers), local);
  // Each takes twice the work of the one before: the last, from the first, 2^20 loads.
  Program chain("chain");
  std::vector<Tensor> links{x};
  for (int link = 0; link < 20; ++link) {
    const Tensor last = links.back();
    links.emplace_back("link", f32, Dims{n});
    chain << (links.back()(all) = last(all) - last(n - 1 - all));
  }
  chain << (y(all) = links.back()(all));
  const auto computed = std::ranges::count_if(
      links, [&](const Tensor& link) { return placed(chain, link) == virtual_; });
  EXPECT_GT(computed, 5);
  EXPECT_LT(computed, 15);
}

// J4: requests that leave it open are forced to the first that is allowed
TEST_F(PlacementTest, GeneralRequestsAreForced) {
  const auto forced = [this](MemoryMode asked) {
    const Tensor t("t", f32, {4});
    t.set_mode(asked);
    Program p("forced");
    p << (t(i) = exp(a(i))) << (out(i) = t(i));
    EXPECT_EQ(t.mode(), asked) << "compiling changes no tensor (O56)";
    return placed(p, t);
  };
  EXPECT_EQ(forced(never_virtual), local);
  EXPECT_EQ(forced(device_only), local);
  EXPECT_EQ(forced(local), local);
  EXPECT_EQ(forced(materialized), on_device);
  EXPECT_EQ(forced(on_device), on_device);
  EXPECT_EQ(forced(effectively_constant), virtual_);
  EXPECT_EQ(forced(virtual_), virtual_);
}

// O56: the tensor's own mode and provenance are as before
TEST_F(PlacementTest, InferenceHasNoSideEffects) {
  program << (v(i) = a(i)) << (out(i) = v(i));
  static_cast<void>(optimize(lower(program)));
  for (const Tensor& tensor : {a, v, out}) EXPECT_EQ(tensor.mode(), unset);
}

// J4: a compile keeps what was asked for when it began
TEST_F(PlacementTest, WishesAreTakenOnce) {
  program << (v(i) = a(i)) << (out(i) = v(i));
  const std::vector<Wish> wishes = wishes_of(program);
  v.set_mode(on_device);
  EXPECT_EQ(mode_of(optimize(lower(program, wishes)), v), virtual_);
  EXPECT_EQ(placed(program, v), on_device);
}

// J4: a request that the program cannot keep names tensor, place, reason and cure
TEST_F(PlacementTest, ImpossibleRequestsAreRefused) {
  const auto with = [](MemoryMode mode, auto&& add) {
    const Tensor t("asked", f32, {4});
    t.set_mode(mode);
    Program p("refused");
    add(p, t);
    return refusal(p);
  };
  const auto reads = [this](Program& p, const Tensor& t) { p << (out(i) = t(i)); };
  const auto accumulates = [this](Program& p, const Tensor& t) { p << (t(i) += a(i)); };
  EXPECT_THAT(with(virtual_, reads),
              AllOf(HasSubstr("'asked' cannot be virtual"), HasSubstr("placement_test.cpp:"),
                    HasSubstr("never assigns it"), HasSubstr("ask for on_device")));
  EXPECT_THAT(with(local, reads), HasSubstr("cannot be local"));
  EXPECT_THAT(with(virtual_, accumulates), HasSubstr("before it has assigned all of it"));
  EXPECT_THAT(with(local, accumulates), HasSubstr("keep its values between runs"));
  EXPECT_THAT(with(effectively_constant, accumulates), HasSubstr("changes it from run to run"));
  const Tensor host("host", HostArray(ArrayType{f32, {4}}), hosted_constant);
  program << (host(i) = a(i));
  EXPECT_THAT(refusal(program), AllOf(HasSubstr("'host' cannot be hosted(constant)"),
                                      HasSubstr("changed_on_devices")));
}

// J4: what cannot be recomputed is refused with its numbered cause where virtual was asked for,
// and stored in scratch where it was only a proposal
TEST_F(PlacementTest, WhatCannotBeInlinedIsStoredOrRefused) {
  program << (v(i) = a(i) + 1) << (a(i) = 0) << (out(i) = v(i));
  EXPECT_EQ(placed(program, v), local);
  v.set_mode(virtual_);
  EXPECT_THAT(refusal(program), AllOf(HasSubstr("'v' cannot be virtual (asked for at "),
                                      HasSubstr("cause 5:"), HasSubstr("ask for local")));
}

// J4: a chain whose sources change only after the first link was inlined
TEST_F(PlacementTest, ChainsAreJudgedAsTheyBecome) {
  const Tensor w("w", f32, {4});
  program << (v(i) = a(i) + 1) << (w(i) = v(i) * 2) << (a(i) = 0) << (out(i) = w(i));
  EXPECT_EQ(placed(program, v), virtual_);
  EXPECT_EQ(placed(program, w), local);
}

// J4: definitions of several statements are recomputed whole
TEST_F(PlacementTest, AccumulatedTensorsCanBeVirtual) {
  const Tensor m("m", f32, {4, 4});
  program << (v(i) = 1) << (v(i) += m(i, j) * a(j)) << (v(i) = relu(v(i)))
          << (out(i) = v(3 - Subscript(i)));
  const Lowered final = optimize(lower(program));
  EXPECT_EQ(mode_of(final, v), virtual_);
  EXPECT_EQ(final.tensors.size(), 3u);
}

// J4: recomputation that would double at each step stops at a limit
TEST_F(PlacementTest, InliningDoesNotExplode) {
  std::vector<Tensor> chain{a};
  for (int level = 0; level < 40; ++level) {
    chain.emplace_back("level" + std::to_string(level), f32, Dims{4});
    chain.back().set_mode(level == 39 ? unset : virtual_);
    const Tensor& from = chain[chain.size() - 2];
    program << (chain.back()(i) = from(i) + from(3 - Subscript(i)));
  }
  EXPECT_THAT(refusal(program), HasSubstr("cause 10:"));
}

std::string cause(const std::string& body) {
  const Loop loop = parsed(
      "buffer t0 input f32[4]\nbuffer t1 scratch f32[4]\n"
      "buffer t2 inout f32[4]\nbuffer t3 scratch f32[4,4]\nstatic s0 range 4\nstatic s1\n"
      "kernel {\n" +
      body + "}\n");
  const Inlinable found = find_definition(KernelUses(loop), 1);
  const std::string other = find_definition(KernelUses(loop), 3).refusal;
  return found.refusal.starts_with("8") ? other : found.refusal;
}

// J4: each refusal of virtualisation has its cause
TEST(DefinitionTest, CausesAreNumbered) {
  const std::string define = "for i0 in 0..4 { t1[i0] = t0[i0] }\n";
  const std::string use = "for i9 in 0..4 { t2[i9] = t1[i9] }\n";
  EXPECT_EQ(cause(define + use), "");
  EXPECT_THAT(cause(define + "for i1 in 0..4 { t1[i1] = add.f32(t1[i1], t1[0]) }\n" + use),
              HasSubstr("1: "));
  EXPECT_THAT(cause("for i0 in 0..4 { t3[i0, i0] = t0[i0] }\n"), HasSubstr("2: "));
  EXPECT_THAT(cause("for i0 in 0..3 { t1[i0] = t0[i0] }\n" + use), HasSubstr("3: "));
  EXPECT_THAT(cause("for i0 in 0..4 { t1[-i0 + 3] = t0[i0] }\n" + use), HasSubstr("3: "));
  EXPECT_THAT(cause("for i0 in 0..4 { for i1 in 0..4 { t1[i0] = t0[i1] } }\n" + use),
              HasSubstr("3: "));
  EXPECT_THAT(cause("for i0 in 0..4 { t1[i0] = t0[i0]\n t2[i0] = 1:f32 }\n" + use),
              HasSubstr("4: "));
  EXPECT_THAT(cause("for i0 in 0..4 { t1[i0] = t2[i0] }\n" + use), HasSubstr("5: "));
  EXPECT_THAT(cause("let x0: f32 = 0:f32\nfor i0 in 0..4 { x0 = add.f32(x0, t0[i0])\n"
                    "t1[i0] = x0 }\n" +
                    use),
              HasSubstr("6: "));
  EXPECT_THAT(cause("for i0 in 0..4 { t1[i0] = t1[i0] }\n" + use), HasSubstr("7: "));
  EXPECT_THAT(cause(define + use + "for i1 in 0..4 { t1[i1] = 1:f32 }\n"), HasSubstr("7: "));
  EXPECT_THAT(cause(""), HasSubstr("8: "));
  EXPECT_THAT(cause(define + "t2[0] = t1[s1]\n"), HasSubstr("9: "));
  EXPECT_EQ(cause(define + "t2[0] = t1[s0]\n"), "");
}

// J4: a definition keeps its inner loops and locals, and loses those over its axes
TEST(DefinitionTest, AxesAreStripped) {
  const Loop loop = parsed(
      "buffer t0 input f32[4,3]\nbuffer t1 scratch f32[4]\nkernel {\n"
      "for i0 in 0..4 { let x0: f32 = 0:f32\n for i1 in 0..3 { x0 = add.f32(x0, t0[i0, i1]) }\n"
      "t1[i0] = x0 } }\n");
  const Inlinable found = find_definition(KernelUses(loop), 1);
  ASSERT_TRUE(found.definition);
  ASSERT_EQ(found.definition->parts.size(), 1u);
  EXPECT_EQ(found.definition->parts[0].axes, std::vector<std::optional<VarId>>{0u});
  EXPECT_EQ(found.definition->parts[0].body.size(), 3u);
}

// J4: visits are counted per cell, constants known, huge nests cut short
TEST(TraceTest, CountsVisitsOfTheMostReadCell) {
  const auto traced = [](const std::string& body) {
    return trace(
        parsed("buffer t0 inout f32[100]\nbuffer t1 inout f32[100]\nkernel {\n" + body + "}\n"),
        6)[0];
  };
  const std::string define = "for i0 in 0..100 { t0[i0] = exp.f32(t1[i0]) }\n";
  EXPECT_EQ(traced(define + "for i1 in 0..100 { t1[i1] = t0[i1] }\n").visits_max, 1);
  EXPECT_EQ(traced(define + "for i1 in 0..100 { t1[i1] = t0[7] }\n").visits_max, 6);
  EXPECT_EQ(
      traced(define + "for i1 in 0..50 { t1[i1] = add.f32(t0[i1], t0[i1 + 1]) }\n").visits_max, 2);
  EXPECT_EQ(traced(define + "for i1 in 0..100 { t0[i1] = neg.f32(t0[i1]) }\n").visits_max, 0)
      << "accumulating is no use";
  EXPECT_FALSE(traced(define).constant);
  EXPECT_TRUE(traced("for i0 in 0..100 { t0[i0] = 3:f32 }\n").constant);
  EXPECT_FALSE(traced("zero t0\nzero t0\n").constant) << "two setters";
  std::string deep = "t1[i9] = t0[i0]\n";
  for (int k = 9; k >= 0; --k) deep = "for i" + std::to_string(k) + " in 0..100 { " + deep + "}\n";
  EXPECT_GT(traced("zero t0\n" + deep).visits_max, 1'000'000);
}

// J5: passes tell an observer what they changed, in order
TEST(OptimizeTest, ObserverSeesChanges) {
  const Tensor a("a", f32, {4}), v("v", f32, {4}), out("out", f32, {4});
  Index i;
  Program program("observed");
  program << (v(i) = a(i) * 1) << (out(i) = v(i));
  std::vector<std::string> passes;
  static_cast<void>(optimize(lower(program), {}, [&](std::string_view pass, const Lowered&) {
    passes.emplace_back(pass);
  }));
  EXPECT_THAT(passes,
              ::testing::ElementsAre("infer_placements", "inline_virtual", "simplify", "renumber"));
}

// J5, issue: the same program gives the same text and hash, whatever ids its tensors have
TEST(OptimizeTest, TextAndHashDoNotDependOnHistory) {
  const auto build = [](int before) {
    std::vector<Tensor> unrelated;
    for (int k = 0; k < before; ++k) unrelated.emplace_back("u" + std::to_string(k), f32, Dims{2});
    // Declared in another order each time: names and ids are no part of the text.
    std::vector<Tensor> mine;
    for (int k = 0; k < 3; ++k) mine.emplace_back("t" + std::to_string(k + before), f32, Dims{4});
    if (before % 2 == 1) std::swap(mine[0], mine[2]);
    Index i;
    Program program("p");
    program << (mine[1](i) = mine[0](i)) << (mine[2](i) += mine[1](3 - Subscript(i)));
    return print(optimize(lower(program)).loop);
  };
  EXPECT_EQ(build(0), build(100));
  EXPECT_EQ(build(0), build(7));
  EXPECT_EQ(hash(parse_loop(build(0))), hash(parse_loop(build(101))));
}

}  // namespace
}  // namespace heddle::jit
