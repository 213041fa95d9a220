// Which loops carry a dependence through memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "jit/loop/text.hpp"
#include "jit/vector/dependence.hpp"
#include "support/parsed.hpp"

namespace heddle::jit::testing {
namespace {

/// The variables of the loops that carry any.
std::set<VarId> carrying(const Loop& loop) {
  std::set<VarId> result;
  for (const auto& [var, places] : carried_dependences(loop, plan_lanes(loop, Target())))
    result.insert(var);
  return result;
}

/// `body` in loops over i0, 1 to 6, and i1, 1 to 4.
std::set<VarId> carrying(const std::string& body) {
  return carrying(parsed(fmt::format(R"(buffer t0 inout f32[20,20]
buffer t1 inout f32[32]
buffer t2 inout f32[]
static s0
kernel {{
  for i0 in 1..7 {{
    for i1 in 1..5 {{
      {}
    }}
  }}
}}
)",
                                     body)));
}

// J9: what is computed in place keeps its order, what is not is left to compilers
TEST(DependenceTest, FollowsDistances) {
  using Vars = std::set<VarId>;
  EXPECT_EQ(carrying("t0[i0, i1] = t0[i0, i1]"), Vars{});
  EXPECT_EQ(carrying("t0[i0, i1] = t0[i0 - 1, i1 - 1]"), Vars{0});
  EXPECT_EQ(carrying("t0[i0, i1] = t0[i0, i1 - 1]"), Vars{1});
  EXPECT_EQ(carrying("t0[i0, i1] = t0[i0, i1 + 1]"), Vars{1}) << "read before it is written";
  EXPECT_EQ(carrying("t0[i0, i1] = t0[i0 - 1, i1 + 9]"), Vars{}) << "beyond the inner loop";
  EXPECT_EQ(carrying("t0[i0, i1] = t0[i0 + 6, i1]"), Vars{}) << "beyond the outer loop";
  EXPECT_EQ(carrying("t0[i0, i1] = t0[i1, i0]"), Vars({0, 1})) << "not known";
  EXPECT_EQ(carrying("t0[2*i0, i1] = t0[2*i0 + 1, i1]"), Vars{}) << "odd and even";
  EXPECT_EQ(carrying("t0[-i0 + 7, i1] = t0[i0, i1]"), Vars{0}) << "reversed";
  EXPECT_EQ(carrying("t1[i0] = t0[i0, i1]"), Vars{1}) << "written again";
  EXPECT_EQ(carrying("t1[i1] = t0[i0, i1]"), Vars{0});
  EXPECT_EQ(carrying("t1[4*i0 + i1 - 4] = t1[4*i0 + i1 - 3]"), Vars({0, 1}));
  EXPECT_EQ(carrying("t2[] = t0[i0, i1]"), Vars({0, 1}));
  EXPECT_EQ(carrying("t0[i0, i0] = t0[i0 - 1, i0 + 1]"), Vars{1}) << "no distance fits both axes";
  EXPECT_EQ(carrying("t1[i0] = t1[s0]"), Vars({0, 1}));
  EXPECT_EQ(carrying("t0[i0, i1] = t0[s0, 0]"), Vars{}) << "the second axis tells them apart";
  EXPECT_EQ(carrying("zero t1\n t1[i0] = 1:f32"), Vars({0, 1}));
}

// J9: of statements in different loops, those around both carry it
TEST(DependenceTest, IsCarriedAroundBothStatements) {
  const Loop loop = parsed(R"(buffer t0 inout f32[9]
buffer t1 inout f32[9,9]
kernel {
  for i0 in 0..8 {
    for i1 in 0..8 {
      t0[i1] = t1[i0, i1]
    }
    for i2 in 0..8 {
      t1[i0 + 1, i2] = t0[i2]
    }
  }
}
)");
  EXPECT_EQ(carrying(loop), std::set<VarId>{0});
  const auto found = carried_dependences(loop, plan_lanes(loop, Target()));
  EXPECT_EQ(found.at(0), (std::set<Place>{{false, 0}, {false, 1}}));
}

// J9: local blocks carry what buffers do, but for those that are made in the loop's iterations
TEST(DependenceTest, FollowsLocalBlocks) {
  const Loop diagonal = parsed(R"(buffer t0 output f32[]
kernel {
  let x0: f32[9,9] = 1:f32
  for i0 in 0..8 {
    for i1 in 0..8 {
      x0[i0 + 1, i1 + 1] = x0[i0, i1]
    }
  }
  t0[] = x0[8,8]
}
)");
  const auto found = carried_dependences(diagonal, plan_lanes(diagonal, Target()));
  EXPECT_EQ(carrying(diagonal), std::set<VarId>{0});
  EXPECT_EQ(found.at(0), (std::set<Place>{{true, 0}}));
  EXPECT_EQ(carrying(parsed(R"(buffer t0 output f32[8]
kernel {
  for i0 in 0..8 {
    let x0: f32[9] = 1:f32
    for i1 in 0..8 {
      x0[i1 + 1] = x0[i1]
    }
    t0[i0] = x0[8]
  }
}
)")),
            std::set<VarId>{1});
}

// J9: what cannot be told, or takes long to, carries one
TEST(DependenceTest, GivesUpOnManyPairsAndWideNumbers) {
  const auto stores = [](int count) {
    std::string body;
    for (int k = 0; k < count; ++k) body += fmt::format("    t0[70*i0 + {}] = 1:f32\n", k);
    return carrying(
        parsed("buffer t0 output f32[560]\nkernel {\n  for i0 in 0..8 {\n" + body + "  }\n}\n"));
  };
  EXPECT_EQ(stores(64), std::set<VarId>{});
  EXPECT_EQ(stores(65), std::set<VarId>{0}) << "more than 4,096 pairs";
  // i0 is 0, so the accesses are nine apart; their coefficients are 2^64 - 2 apart.
  const auto wide = [](const std::string& written, const std::string& read) {
    return carrying(
        parsed("buffer t0 inout f32[20]\nkernel {\n  for i0 in 0..1 {\n"
               "    for i1 in 0..8 {\n      t0[" +
               written + "] = t0[" + read + "]\n    }\n  }\n}\n"));
  };
  EXPECT_EQ(wide("7*i0 + i1", "-7*i0 + i1 + 9"), std::set<VarId>{});
  EXPECT_EQ(wide("9223372036854775807*i0 + i1", "-9223372036854775807*i0 + i1 + 9"),
            std::set<VarId>{1});
}

/// Two accesses `row * i0 + column * i1 + constant` on each of two axes.
struct Pair {
  using Subscript = std::array<std::int64_t, 3>;
  std::array<std::array<Subscript, 2>, 2> at;  // [access][axis]
  std::array<std::int64_t, 2> extents;

  [[nodiscard]] Loop loop() const {
    const auto subscript = [](const Subscript& of) {
      Affine index{of[2] + 20, {}};
      for (const VarId var : {0u, 1u})
        if (of[var] != 0) index = affine_add(index, affine_var(var, of[var]));
      return index;
    };
    const auto subscripts = [&](std::size_t k) {
      return std::vector<Affine>{subscript(at[k][0]), subscript(at[k][1])};
    };
    const StmtPtr store = make_store(0, subscripts(0), make_load(0, f32, subscripts(1)));
    const StmtPtr inner = make_loop(1, 0, extents[1], {store});
    return {{{Role::inout, {f32, {64, 64}}}}, {}, {make_loop(0, 0, extents[0], {inner})}};
  }

  [[nodiscard]] bool meet(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) const {
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const auto& [a, b] = std::pair(at[0][axis], at[1][axis]);
      if (a[0] * i + a[1] * j + a[2] != b[0] * k + b[1] * l + b[2]) return false;
    }
    return true;
  }
  /// Whether loop `var` has two iterations in which the accesses meet.
  [[nodiscard]] bool carried(int var) const {
    for (std::int64_t i = 0; i < extents[0]; ++i)
      for (std::int64_t j = 0; j < extents[1]; ++j)
        for (std::int64_t k = 0; k < extents[0]; ++k)
          for (std::int64_t l = 0; l < extents[1]; ++l)
            if ((var == 0 ? i != k : i == k && j != l) && meet(i, j, k, l)) return true;
    return false;
  }
};

// J9: where iterations meet it is found; where all subscripts move alike, only there
TEST(DependenceTest, AgreesWithLookingAtAllIterations) {
  std::mt19937_64 random(1);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  int carried = 0, apart = 0;
  for (int round = 0; round < 4000; ++round) {
    Pair pair{};
    pair.extents = {1 + below(6), 1 + below(6)};
    for (auto& access : pair.at)
      for (auto& subscript : access) subscript = {below(5) - 2, below(5) - 2, below(9)};
    const bool uniform = below(2) == 0;
    if (uniform) {  // one variable an axis, and the accesses at a constant distance
      pair.at[0][0][1] = pair.at[0][1][0] = 0;
      for (std::size_t axis = 0; axis < 2; ++axis) {
        const std::int64_t moved = pair.at[1][axis][2];
        pair.at[1][axis] = pair.at[0][axis];
        pair.at[1][axis][2] = moved;
      }
    }
    const Loop loop = pair.loop();
    const std::set<VarId> found = carrying(loop);
    Pair stores = pair;  // a store meets itself, too
    stores.at[1] = stores.at[0];
    for (const int var : {0, 1}) {
      const bool expected = pair.carried(var) || stores.carried(var);
      ++(expected ? carried : apart);
      if (!expected && !uniform) continue;
      EXPECT_EQ(found.contains(static_cast<VarId>(var)), expected) << print(loop) << "i" << var;
    }
  }
  EXPECT_GT(carried, 500);
  EXPECT_GT(apart, 500);
}

}  // namespace
}  // namespace heddle::jit::testing
