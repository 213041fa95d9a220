// Which loops run as vectors, and the marks that say so.
#include <gtest/gtest.h>

#include "heddle/status.hpp"
#include "jit/emit/c.hpp"
#include "jit/loop/text.hpp"
#include "jit/lower/lower.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/vector/lane_prims.hpp"
#include "jit/vector/lanes.hpp"
#include "support/loop_interpreter.hpp"
#include "support/parsed.hpp"
#include "support/random_contraction.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

// J5: comparisons and conditions are masks where the target has instructions for them
TEST(LanePlanTest, ConditionsAreMasks) {
  const Loop loop = parsed(R"(buffer t0 input f32[64]
buffer t1 input f32[2]
buffer t2 input f64[64]
buffer t3 output f32[64]
kernel {
  lanes i0 in 0..64 {
    let x0: bool = and.bool(lt.f32(t0[i0], 1:f32), lt.f32(t1[0], t1[1]))
    t3[i0] = where.f32(x0, t0[i0], 0:f32)
  }
  lanes i1 in 0..64 {
    t3[i1] = where.f32(lt.f64(t2[i1], t2[0]), t0[i1], 0:f32)
  }
}
)");
  EXPECT_EQ(plan_lanes(loop, tiny_target(Isa::avx512)).vectors, std::set<VarId>{0});
  EXPECT_EQ(plan_lanes(loop, tiny_target(Isa::avx2)).vectors, std::set<VarId>{0});
  EXPECT_TRUE(plan_lanes(loop, tiny_target(Isa::portable)).vectors.empty());
}

// J5: lanes loops run as vectors where all their statements can, blocks live in registers where
// they can
TEST(LanePlanTest, FindsVectorsAndRegisters) {
  const Loop loop = parsed(R"(buffer t0 input f32[64]
buffer t1 output f32[64]
buffer t2 output u16[64]
kernel {
  let x0: f32[2,16] = 0:f32
  let x1: f32[16] = 0:f32
  unroll i0 in 0..2 {
    lanes i1 in 0..16 {
      x0[i0, i1] = mul.f32(t0[16*i0 + i1], 2:f32)
    }
  }
  lanes i2 in 0..16 {
    x1[i2] = x0[1, i2]
  }
  lanes i3 in 0..16 {
    t1[4*i3] = x1[i3]
  }
  lanes i4 in 0..64 {
    t2[i4] = u16(t0[i4])
  }
}
)");
  const LanePlan plan = plan_lanes(loop, tiny_target(Isa::avx512));
  EXPECT_EQ(plan.vectors, (std::set<VarId>{1, 2}));
  EXPECT_EQ(plan.in_registers, std::set<LocalId>{0});  // x1 is read by a plain loop
  EXPECT_TRUE(plan_lanes(loop, Target()).vectors.empty());
  EXPECT_TRUE(plan_lanes(loop, Target()).in_registers.empty());
}

// J5: f16 is in lanes where it is converted, bf16 where it becomes f32: not where it is copied,
// which keeps all bits of NaN, nor in sums that are rounded to it term by term
TEST(LanePlanTest, HalvesAreConvertedInLanes) {
  const Loop loop = parsed(R"(buffer t0 input f16[64]
buffer t1 output f16[64]
buffer t2 output f32[64]
buffer t3 output bf16[64]
kernel {
  lanes i0 in 0..64 {
    let x0: f16 = f16(mul.f32(f32(t0[i0]), 3:f32))
    t1[i0] = x0
    t2[i0] = f32(x0)
  }
  lanes i1 in 0..64 {
    t1[i1] = t0[i1]
  }
  lanes i2 in 0..64 {
    let x1: f32 = f32(t0[i2])
    x1 = add.f32(x1, t2[i2])
    t2[i2] = x1
  }
  lanes i3 in 0..64 {
    t1[i3] = f16(t2[2])
  }
  lanes i4 in 0..16 {
    t2[i4] = f32(t0[2*i4])
  }
  lanes i5 in 0..64 {
    let x2: f16 = f16(f32(t0[i5]))
    x2 = f16(add.f32(f32(x2), t2[i5]))
    t2[i5] = f32(x2)
  }
  lanes i6 in 0..64 {
    t2[i6] = add.f32(f32(t3[i6]), 1:f32)
  }
  lanes i7 in 0..64 {
    t3[i7] = bf16(t2[i7])
  }
}
)");
  EXPECT_EQ(plan_lanes(loop, tiny_target(Isa::avx512)).vectors, (std::set<VarId>{0, 2, 6}));
  EXPECT_EQ(plan_lanes(loop, tiny_target(Isa::avx2)).vectors, (std::set<VarId>{0, 2, 6}));
  EXPECT_TRUE(plan_lanes(loop, tiny_target(Isa::portable)).vectors.empty());
}

// J3, J5: a rounding takes two instructions on vectors, also where a vector is not filled;
// elsewhere it is one function, not two conversions
TEST(LanePlanTest, RoundingsToHalfAreShort) {
  for (const std::int64_t extent : {2, 10, 100}) {
    const Tensor x("x", f16, {extent}), y("y", f16, {extent});
    const Index i;
    Program chain("chain");
    chain << (y(i) = cast(cast(x(i) * 3, f16) + 1, f16));
    const auto text = [&](Isa isa) {
      const Lowered made = schedule(optimize(lower(chain)), tiny_target(isa));
      return emit_c({"chain", {{"k", made.verified, {}, {}}}}, tiny_target(isa));
    };
    for (const Isa isa : {Isa::avx2, Isa::avx512})
      EXPECT_NE(text(isa).find("f32_round_to_half("), std::string::npos) << extent;
    const std::string portable = text(Isa::portable);
    EXPECT_NE(portable.find("f32_rounded_to_f16("), std::string::npos) << portable;
    EXPECT_EQ(portable.find("f32_from_f16(f16_from_f32("), std::string::npos) << portable;
  }
}

// J5: small matrices that are filled by rows and read by columns are turned in registers
TEST(LanePlanTest, FindsBlocksToTurn) {
  const std::string text = R"(buffer t0 input f32[40,40]
buffer t1 output f32[40,40]
kernel {
  let x0: f32[20,8] = 0:f32
  let x1: f32[8,20] = 0:f32
  unroll i0 in 0..20 {
    lanes i1 in 0..8 {
      x0[i0, i1] = t0[i0, i1]
    }
  }
  unroll i2 in 0..8 {
    lanes i3 in 0..20 {
      x1[i2, i3] = t0[i2, i3]
    }
  }
  unroll i4 in 0..8 {
    lanes i5 in 0..20 {
      t1[i4, i5] = neg.f32(x0[i5, i4])
    }
  }
  unroll i6 in 0..20 {
    lanes i7 in 0..8 {
      t1[i6 + 20, i7] = x1[i7, i6]
    }
  }
}
)";
  const LanePlan plan = plan_lanes(parsed(text), tiny_target(Isa::avx512));
  EXPECT_EQ(plan.turned, std::set<LocalId>{0});  // rows of x1 take two vectors
  EXPECT_EQ(plan.in_registers, std::set<LocalId>{0});
  EXPECT_EQ(plan.vectors, (std::set<VarId>{1, 3, 5}));
  EXPECT_TRUE(plan_lanes(parsed(text), tiny_target(Isa::portable)).turned.empty());
  // An element that scalar code touches: all of them are in memory.
  const std::string touched = text.substr(0, text.rfind('}')) + "  t1[0, 39] = x0[0, 0]\n}\n";
  const LanePlan other = plan_lanes(parsed(touched), tiny_target(Isa::avx512));
  EXPECT_TRUE(other.turned.empty());
  EXPECT_EQ(other.vectors, (std::set<VarId>{1, 3}));
}

// J9: made by schedules, streaming included, and taken by emitters as it is
TEST(LanePlanTest, IsMadeOnceAndHandedOn) {
  const Target target = tiny_target(Isa::avx512);
  std::size_t vectors = 0, streams = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    for (const auto make : {random_contraction, random_rows, random_transpose}) {
      const Lowered after = schedule(optimize(lower(make(seed))), target);
      EXPECT_EQ(*after.lanes, plan_lanes(after.loop, target)) << print(after.loop);
      vectors += after.lanes->vectors.size();
      streams += has_streams(after.loop, target) ? 1 : 0;
    }
  }
  EXPECT_GT(vectors, 0u);
  EXPECT_GT(streams, 0u);
  CompileUnit unit{"handed",
                   {{"k",
                     parse_loop(R"(heddle-loop 1
buffer t0 inout f32[64]
kernel {
  lanes i0 in 0..64 {
    t0[i0] = neg.f32(t0[i0])
  }
}
)"),
                     {},
                     {}}}};
  EXPECT_NE(emit_c(unit, target).find("v16f32_store("), std::string::npos);
  unit.kernels[0].lanes = std::make_shared<const LanePlan>();
  EXPECT_EQ(emit_c(unit, target).find("v16f32_store("), std::string::npos);
}

struct Illegal {
  const char* body;
  const char* rule;
};

Loop with_body(const char* body) {
  return parsed(std::string("buffer t0 inout f32[64]\nbuffer t1 input f32[64]\nstatic s0 range 4\n"
                            "kernel {\n") +
                body + "\n}\n");
}

void expect_refusal(const Illegal& each) {
  try {
    static_cast<void>(with_body(each.body));
    ADD_FAILURE() << each.body;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(each.rule), std::string::npos) << e.what();
  }
}

// J5: marks that do not hold are refused, naming loop and rule
TEST(VerifyMarksTest, RefusesWhatIsNoSetOfLanes) {
  for (const Illegal& each : {
           Illegal{"lanes i0 in 0..8 { for i1 in 0..2 { t0[i0 + 8*i1] = t1[0] } }", "another loop"},
           Illegal{"lanes i0 in 0..8 { zero t0 }", "zeroes"},
           Illegal{"lanes i0 in 0..8 { t0[0] = t1[i0] }", "other iterations touch"},
           Illegal{"lanes i0 in 0..8 { t0[i0] = t0[i0 + 4] }", "other iterations touch"},
           Illegal{"let x0: f32 = 0:f32 lanes i0 in 0..8 { x0 = t1[i0] }", "iterations share"},
           Illegal{"lanes i0 in 0..8 { let x0: f32[2] = 0:f32 }", "declares a block"},
           Illegal{"unroll i0 in 0..5000 { t0[0] = 1:f32 }", "copies"},
           Illegal{"lanes i0 in 0..5000 { let x0: f32 = 1:f32 }", "copies"},
           Illegal{"let x0: f32[4] = 0:f32 x0[4] = 1:f32", "axis 0 of x0"},
           Illegal{"let x0: f32[4] = 0:f32 x0 = 1:f32", "takes 1 subscripts"},
           Illegal{"let x0: f32[0] = 0:f32", "extent of 0"},
           Illegal{"let x0: f32[100000] = 0:f32", "beyond"},
           Illegal{"let x0: f32[4611686018427387904,8] = 0:f32", "beyond"},
           Illegal{"let x0: f32[4] = 0:f32 x0[s0] = 1:f32", "x0 is subscripted by a static index"},
           Illegal{"prefetchw t1[0]", "prefetchw to t1"},
           Illegal{"prefetchw t0[64]", "axis 0 of t0"},
           Illegal{"prefetch t0[128]", "axis 0 of t0"},
       }) {
    expect_refusal(each);
  }
  for (const char* legal :
       {"lanes i0 in 0..8 { t0[i0] = t0[i0 + 8] }", "lanes i0 in 0..8 { t0[2*i0] = t0[2*i0] }",
        "lanes i0 in 0..8 { let x0: f32 = t1[i0] x0 = neg.f32(x0) stream t0[i0] = x0 }",
        "let x0: f32[2,4] = t1[3] lanes i0 in 0..4 { x0[1, i0] = x0[0, i0] }"}) {
    EXPECT_NO_THROW(static_cast<void>(with_body(legal))) << legal;
  }
}

// J5: iterations of parallel loops share nothing that one of them writes
TEST(VerifyMarksTest, RefusesWhatIsNotParallel) {
  for (const Illegal& each : {
           Illegal{"parallel i0 in 0..8 { t0[0] = t1[i0] }", "t0 that other iterations touch"},
           Illegal{"parallel i0 in 0..8 { t0[i0] = t0[i0 + 1] }", "other iterations touch"},
           Illegal{"parallel i0 in 0..9 { t0[i0] = t0[i0 + 8] }", "other iterations touch"},
           Illegal{"parallel i0 in 0..8 { for i1 in 0..9 { t0[7*i0 + i1] = t1[0] } }", "parallel"},
           Illegal{"for i1 in 0..2 { parallel i0 in 0..8 { t0[i1] = 1:f32 } }", "loop i0"},
           Illegal{"parallel i0 in 0..8 { zero t0 }", "zeroes t0"},
           Illegal{"let x0: f32 = 0:f32 parallel i0 in 0..8 { x0 = t1[i0] }", "assigns x0"},
       }) {
    expect_refusal(each);
  }
  for (const char* legal :
       {"parallel i0 in 0..8 { t0[63 - 8*i0] = add.f32(t0[63 - 8*i0], t1[0]) }",
        "parallel i0 in 0..8 { for i1 in 0..8 { t0[8*i0 + i1] = t0[8*i0 - i1 + 7] } }",
        "for i1 in 0..2 { parallel i0 in 0..8 { t0[i0 + 8*i1] = t0[i0 + 8*i1] } }",
        "parallel i0 in 0..8 { t0[i0] = t0[i0 + 8] }", "parallel i0 in 0..1 { zero t0 }",
        "parallel i0 in 0..8 { for i1 in 0..0 { t0[0] = t1[i0] } }",
        "parallel i0 in 0..8 { let x0: f32 = t1[i0] x0 = neg.f32(x0) t0[i0] = x0 }"}) {
    EXPECT_NO_THROW(static_cast<void>(with_body(legal))) << legal;
  }
}

// J9: masks and small integers in memory are vectors beside f32
TEST(LanePlanTest, SmallElementsInMemoryAreVectors) {
  const Tensor x("x", f32, {1000}), mask("mask", bool_, {1000}), level("level", u8, {1000}),
      sum_of("sum_of", f32, {}), y("y", f32, {1000});
  const Index i, j;
  const auto is_vector = [](const Program& program) {
    expect_unchanged(program);
    return !schedule(optimize(lower(program)), tiny_target(Isa::avx2)).lanes->vectors.empty();
  };
  Program chosen("chosen"), counted("counted"), scaled("scaled"), copied("copied");
  chosen << (sum_of() = sum(where(mask(i), x(i), 0.0)));
  counted << (sum_of() = sum(cast(mask(i), f32)));
  scaled << (y(j) = cast(level(j), f32) * 0.5 + x(j));
  EXPECT_TRUE(is_vector(chosen));
  EXPECT_TRUE(is_vector(counted));
  EXPECT_TRUE(is_vector(scaled));
  const Tensor other("other", bool_, {1000});
  copied << (other(i) = mask(i) && x(i) < 0.5);
  EXPECT_FALSE(is_vector(copied));
  EXPECT_EQ(print(schedule(optimize(lower(copied)), tiny_target(Isa::avx2)).loop).find("ne.f32("),
            std::string::npos)
      << "bools are read as they are";
}

// J9: indices are vectors beside f32: as values, compared, and as positions of an extreme
TEST(LanePlanTest, IndicesAreVectors) {
  const Tensor x("x", f32, {1000}), y("y", f32, {1000}), places("places", i64, {1000}),
      at("at", i64, {}), wide("wide", f64, {1000}), wide_at("wide_at", i64, {});
  const Index i, j, k;
  const auto loops = [](const Program& program) {
    expect_unchanged(program);
    return schedule(optimize(lower(program)), tiny_target(Isa::avx512));
  };
  Program ramp("ramp"), masked("masked"), found("found"), in_f64("in_f64"), in_i64("in_i64");
  ramp << (y(i) = x(i) * cast(embed(3 * i + 1), f32));
  masked << (y(i) = where(embed(i) < 500, x(i), 0.0));
  found << (at() = minimum(where(x(j) < 0.25, embed(j), std::int64_t{1000})));
  in_f64 << (wide_at() = minimum(where(wide(k) < 0.5, embed(k), std::int64_t{1000})));
  in_i64 << (places(i) = where(embed(i) < 500, embed(2 * i), std::int64_t{7}));
  for (const Program* each : {&ramp, &masked, &found, &in_f64, &in_i64}) {
    const Lowered made = loops(*each);
    EXPECT_FALSE(made.lanes->vectors.empty()) << print(made.loop);
  }
  EXPECT_NE(print(loops(found).loop).find("min.i32("), std::string::npos);
  EXPECT_NE(print(loops(in_f64).loop).find("min.i64("), std::string::npos) << "as wide as f64";
  // A start that decides, and values beyond 32 bits, stay.
  Program far("far");
  far << (at() = minimum(where(x(j) < 0.5, embed(j), std::int64_t{1} << 40)));
  EXPECT_EQ(print(loops(far).loop).find("min.i32("), std::string::npos);
}

}  // namespace
}  // namespace heddle::jit::testing
