// Schedules against the loops they come from, both interpreted: whatever is cut, packed and
// reordered, every element is computed from the same terms. HEDDLE_TEST_SEEDS=n looks at n
// programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "heddle/status.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/vector/lanes.hpp"
#include "support/loop_interpreter.hpp"
#include "support/parsed.hpp"
#include "support/random_contraction.hpp"
#include "support/seeds.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

using test::seeds;
using ::testing::ElementsAre;

std::vector<HostArray> inputs(const Loop& loop, std::uint64_t seed) {
  std::vector<HostArray> arrays;
  for (std::size_t k = 0; k < loop.buffers.size(); ++k)
    arrays.push_back(small_numbers(loop.buffers[k].type, seed + k));
  return arrays;
}

bool is_scheduled(const Loop& loop) {
  bool found = false;
  walk(loop.body, [&](const Stmt& stmt) {
    found = found || stmt.mark == LoopMark::lanes || stmt.text.starts_with("transpose: ");
  });
  return found;
}

void expect_equal_to_plain_loops(Program (*make)(std::uint64_t seed), std::uint64_t count) {
  std::uint64_t scheduled = 0;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const Lowered before = optimize(lower(make(seed)));
    std::vector<HostArray> expected = inputs(before.loop, seed);
    interpret(before.loop, expected);
    for (const Isa isa :
         {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_vnni, Isa::avx512_bf16}) {
      const Lowered after = schedule(before, tiny_target(isa));
      ASSERT_TRUE(parse_loop(print(after.loop)) == after.loop) << print(after.loop);
      ASSERT_EQ(after.tensors.size(), after.loop.buffers.size());
      scheduled += is_scheduled(after.loop) ? 1 : 0;
      const std::vector<HostArray> found = inputs(after.loop, seed);
      interpret(after.loop, found);
      for (std::size_t k = 0; k < expected.size(); ++k) {
        if (before.loop.buffers[k].role == Role::scratch) continue;
        ASSERT_TRUE(same_elements(expected[k], found[k]))
            << "seed " << seed << " " << name(isa) << " t" << k << "\n"
            << print(before.loop) << print(after.loop);
      }
    }
  }
  EXPECT_GT(2 * scheduled, count);  // three per seed
}

// J5, J9: every schedule computes what the plain loops compute
TEST(ScheduleTest, RandomContractionsEqualTheirPlainLoops) {
  expect_equal_to_plain_loops(random_contraction, seeds(150));
}

// J5, J9
TEST(ScheduleTest, RandomRowsEqualTheirPlainLoops) {
  expect_equal_to_plain_loops(random_rows, seeds(200));
}

// J5, J9: ranks, orders of axes, strides, offsets, types, tails
TEST(ScheduleTest, RandomTransposesEqualTheirPlainLoops) {
  expect_equal_to_plain_loops(random_transpose, seeds(200));
}

// J9: where the sums along the result's contiguous axis would leave lanes idle, and those across it
// would not, sums are turned before they are stored: here rows of 5, with 8 lanes
TEST(ScheduleTest, SumsAreTurnedWhereLanesWouldIdle) {
  const Tensor x("x", f32, {4, 7, 7}), w("w", f32, {16, 4, 3, 3}), bias("bias", f32, {16}),
      y("y", f32, {16, 5, 5});
  const Index o, c, i, j, k, l;
  Program program("convolution");
  program << (y(o, i, j) = sum(w(o, c, k, l) * x(c, i + k, j + l)))
          << (y(o, i, j) = relu(y(o, i, j) + bias(o)));
  const Lowered before = optimize(lower(program));
  std::vector<HostArray> expected = inputs(before.loop, 1);
  interpret(before.loop, expected);
  for (const Isa isa : {Isa::portable, Isa::avx2}) {
    const Lowered after = schedule(before, tiny_target(isa));
    const bool turned = comments(after.loop).find("turned to be stored") != std::string::npos;
    EXPECT_EQ(turned, isa == Isa::avx2) << print(after.loop);  // it takes instructions
    std::vector<HostArray> found = inputs(after.loop, 1);
    interpret(after.loop, found);
    for (std::size_t n = 0; n < expected.size(); ++n)
      EXPECT_TRUE(same_elements(expected[n], found[n])) << print(after.loop);
  }
}

/// How many loops of `extent` are left, or are unrolled, of a convolution with such windows.
std::array<int, 2> loops_over_windows(std::int64_t extent) {
  const Tensor x("x", f32, {32, 40, 48}), w("w", f32, {36, 32, extent, extent}),
      y("y", f32, {36, 24, 32});
  const Index o, c, i, j, k, l;
  Program program("windows");
  program << (y(o, i, j) = sum(w(o, c, k, l) * x(c, i + k, j + l)));
  std::array<int, 2> found{};
  walk(schedule(optimize(lower(program)), tiny_target(Isa::avx2)).loop.body, [&](const Stmt& stmt) {
    if (stmt.kind != StmtKind::loop || stmt.to != extent) return;
    if (stmt.mark == LoopMark::serial) ++found[0];
    if (stmt.mark == LoopMark::unroll) ++found[1];
  });
  return found;
}

// J9: the end of a loop of three terms costs as much as a term; so windows are unrolled, as long as
// the code stays small
TEST(ScheduleTest, SmallWindowsAreUnrolled) {
  EXPECT_THAT(loops_over_windows(3), ElementsAre(0, 2));
  EXPECT_THAT(loops_over_windows(9), ElementsAre(1, 1));
  EXPECT_THAT(loops_over_windows(17), ElementsAre(2, 0));
}

// J9: a factor that several products share is copied once for all of them
TEST(ScheduleTest, SharedFactorsAreCopiedOnce) {
  const Tensor x("x", f32, {3, 20, 30}), w("w", f32, {40, 30}), y("y", f32, {3, 20, 40});
  const Index n, i, j, k;
  Program program("batch");
  program << (y(n, i, j) = sum(x(n, i, k) * w(j, k)));
  const Lowered after = schedule(optimize(lower(program)), tiny_target(Isa::avx2));
  const Loop& loop = after.loop;
  int copies = 0;
  std::function<void(const Block&, std::int64_t)> look = [&](const Block& body, std::int64_t runs) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::loop) look(stmt->body, runs * (stmt->to - stmt->from));
      const bool copy = stmt->value && stmt->value->kind == ValueKind::load &&
                        loop.buffers[stmt->value->buffer].type.dims == Dims{40, 30};
      if (copy) copies += static_cast<int>(runs);
    }
  };
  look(loop.body, 1);
  EXPECT_EQ(copies, 40 * 30) << print(loop);
}

/// What the schedule says of y(i, j) = x(j, i).
std::string transposed(DType type, std::int64_t rows, std::int64_t columns, Isa isa) {
  const Tensor x("x", type, {columns, rows}), y("y", type, {rows, columns});
  const Index i, j;
  Program program("transposed");
  program << (y(i, j) = x(j, i));
  return comments(schedule(optimize(lower(program)), tiny_target(isa)).loop);
}

// J9: blocks are turned in registers where there are instructions for it, else in the cache, where
// they are too large to stay there anyway
TEST(ScheduleTest, TransposesAreCutIntoBlocks) {
  EXPECT_EQ(transposed(f32, 70, 50, Isa::avx512),
            "transpose: blocks of 16 x 16 turned in registers");
  EXPECT_EQ(transposed(u32, 70, 50, Isa::avx2), "transpose: blocks of 16 x 8 turned in registers");
  EXPECT_EQ(transposed(f64, 8, 8, Isa::avx512), "transpose: blocks of 8 x 8 turned in registers");
  EXPECT_EQ(transposed(i64, 50, 70, Isa::avx2), "transpose: blocks of 8 x 4 turned in registers");
  EXPECT_EQ(transposed(f32, 70, 50, Isa::portable), "transpose: blocks of 16 x 16 turned in cache");
  EXPECT_EQ(transposed(u8, 70, 50, Isa::avx512), "transpose: blocks of 64 x 64 turned in cache");
  EXPECT_EQ(transposed(u8, 30, 30, Isa::avx512), "");
  EXPECT_EQ(transposed(f32, 7, 500, Isa::avx512), "");
  EXPECT_EQ(transposed(f32, 500, 7, Isa::avx512), "");
}

// J9: iterations that use what others of them write run in their order
TEST(ScheduleTest, TransposesKeepTheOrderThatMatters) {
  for (const char* body : {
           "t0[i1, i0] = t0[i0, i1]",                  // in place
           "t0[0, i1] = t1[i1, i0]",                   // the last one stays
           "t0[i0, i1] = t1[i1, i0] x0 = t1[i0, i1]",  // a local of all
       }) {
    const Loop loop = parsed(
        "buffer t0 inout f32[40,40]\nbuffer t1 input f32[40,40]\nkernel {\nlet x0: f32 = 0:f32\n"
        "for i0 in 0..40 { for i1 in 0..40 {" +
        std::string(body) + "} }\nt0[0, 0] = x0\n}\n");
    Lowered before;
    before.loop = loop;
    before.tensors.assign(2, Tensor("t", f32, {40, 40}));
    const Lowered after = schedule(before, tiny_target(Isa::avx512));
    EXPECT_EQ(print(after.loop).find("transpose"), std::string::npos) << body;
  }
}

// J9: an element that depends on another one of its statement finds it as the plain loop would
TEST(ScheduleTest, ShiftsInPlaceKeepTheirMeaning) {
  for (std::int64_t distance = 1; distance <= 70; ++distance) {
    const Tensor x("x", f32, {200});
    Index i(200 - distance);
    Program up("up"), down("down");
    up << (x(i + Subscript(distance)) = x(i) + 1);
    down << (x(i) = x(i + Subscript(distance)) + 1);
    expect_unchanged(up);
    expect_unchanged(down);
  }
}

// J9: a transpose is not joined to the rows that use it: single rows could not be read in blocks
TEST(ScheduleTest, TransposesRunBeforeRowsThatUseThem) {
  const Tensor x("x", f32, {40, 50}), y("y", f32, {50, 40}), sums("sums", f32, {50});
  y.set_mode(MemoryMode::materialized);
  const Index i, j;
  Program program("sums");
  program << (y(i, j) = x(j, i)) << (sums(i) = sum(y(i, j)));
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), tiny_target(Isa::avx512));
  EXPECT_NE(print(made.loop).find("# transpose: "), std::string::npos) << print(made.loop);
}

// J9: what fits each nest may be too much for the kernel
TEST(ScheduleTest, ManyWideSumsAreLegal) {
  Program program("sums");
  for (int k = 0; k < 40; ++k) {
    const Tensor x("x" + std::to_string(k), f32, {5, 6144 + 33 * k}),
        sums("sums" + std::to_string(k), f32, {6144 + 33 * k});
    Index i, j;
    program << (sums(j) = sum(x(i, j)));
  }
  expect_unchanged(program);
}

// J5: the same kernel has the same schedule, whatever was made before
TEST(ScheduleTest, IsDeterministic) {
  const Lowered before = optimize(lower(random_contraction(5)));
  const std::string first = print(schedule(before, tiny_target(Isa::avx512)).loop);
  static_cast<void>(schedule(optimize(lower(random_contraction(6))), tiny_target(Isa::avx2)));
  EXPECT_EQ(print(schedule(before, tiny_target(Isa::avx512)).loop), first);
  EXPECT_TRUE(schedule(before, Target()).loop == before.loop);  // no vectors: left alone
}

// Issue 4.1: each step can be left out, by itself and with others; what is computed stays
TEST(ScheduleTest, StepsCanBeLeftOut) {
  const Tensor a("a", f32, {20, 36}), b("b", f32, {36, 40}), c("c", f32, {20, 40});
  const Tensor rows("rows", f32, {20}), columns("columns", f32, {40}), out("out", f32, {20, 40}),
      turned("turned", f32, {36, 20});
  const Index i, j, k;
  Program program("steps");
  program << (c(i, j) = sum(a(i, k) * b(k, j))) << (columns(j) = sum(c(i, j)))
          << (rows(i) = sum(c(i, j))) << (out(i, j) = c(i, j) * rows(i) * exp(columns(j)))
          << (turned(k, i) = a(i, k));
  const Lowered plain = optimize(lower(program));
  const Target target = with_isa(native_target(), Isa::avx512);
  const auto text = [&](std::vector<ScheduleStep> without) {
    const Lowered made = schedule(plain, target, without);
    EXPECT_TRUE(verify(made.loop).ok());
    std::vector<HostArray> expected = inputs(plain.loop, 3), found = inputs(made.loop, 3);
    interpret(plain.loop, expected);
    interpret(made.loop, found);
    for (std::size_t n = 0; n < expected.size(); ++n) {
      if (plain.loop.buffers[n].role == Role::scratch) continue;
      EXPECT_TRUE(same_elements(expected[n], found[n])) << print(made.loop);
    }
    return print(made.loop);
  };
  constexpr ScheduleStep steps[] = {ScheduleStep::fuse,        ScheduleStep::contraction,
                                    ScheduleStep::reduction,   ScheduleStep::transpose,
                                    ScheduleStep::elementwise, ScheduleStep::hoist};
  const std::string all = text({});
  EXPECT_NE(all.find("contraction"), std::string::npos);
  for (const ScheduleStep step : steps) EXPECT_NE(text({step}), all);
  EXPECT_EQ(text({ScheduleStep::contraction}).find("contraction"), std::string::npos);
  std::vector<ScheduleStep> every(std::begin(steps), std::end(steps));
  every.push_back(ScheduleStep::parallel);
  EXPECT_EQ(text(every), print(plain.loop));
  EXPECT_EQ(text({ScheduleStep::stream}), all) << "nothing here is large";
  EXPECT_EQ(text({ScheduleStep::prefetch}), all) << "nor is it read twice";
}

// J9: neighbours that read the same become one loop; sums, which have schedules of their own, do
// not
TEST(ScheduleTest, LoopsThatReadTheSameAreJoined) {
  const Tensor x("x", f32, {40, 50}), y("y", f32, {40, 50}), z("z", f32, {40, 50}),
      rows("rows", f32, {40}), columns("columns", f32, {50});
  const Index i, j;
  const auto nests = [](const Program& program) {
    const std::vector<ScheduleStep> others{ScheduleStep::contraction, ScheduleStep::reduction,
                                           ScheduleStep::transpose, ScheduleStep::elementwise};
    const Loop loop = schedule(optimize(lower(program)), tiny_target(Isa::avx2), others).loop;
    return std::ranges::count(loop.body, StmtKind::loop, &Stmt::kind);
  };
  Program joined("joined"), apart("apart"), others("others");
  joined << (y(i, j) = x(i, j) + 1) << (z(i, j) = x(i, j) * 2);
  EXPECT_EQ(nests(joined), 1);
  apart << (y(i, j) = x(i, j) + 1) << (rows(i) = sum(x(i, j))) << (columns(j) = sum(x(i, j)));
  EXPECT_EQ(nests(apart), 3);
  // A transpose is for itself, z needs whole rows of y, and bytes would take f32 its lanes.
  const Tensor square("square", f32, {40, 40}), turned("turned", f32, {40, 40}),
      sum_of("sum_of", f32, {40, 40}), bytes("bytes", i8, {40, 50});
  others << (sum_of(i, j) = square(i, j) + 1) << (turned(i, j) = square(j, i))
         << (y(i, j) = x(i, j) + 1) << (z(i, j) = y(i, 0) + x(i, j))
         << (bytes(i, j) = cast(x(i, j), i8));
  EXPECT_EQ(nests(others), 4);
}

// J9: a loop passes loops without common data to join the loop whose results it uses, and no others
TEST(ScheduleTest, LoopsPassOthersToJoin) {
  Tensor y("y", f32, {40, 50});
  const Tensor x("x", f32, {40, 50}), z("z", f32, {40, 50}), w("w", f32, {30, 20}),
      sums("sums", f32, {30}), columns("columns", f32, {50});
  y.set_mode(MemoryMode::on_device);
  const Index i, j, m, n;
  const auto nests = [](const Program& program) {
    expect_unchanged(program);
    const std::vector<ScheduleStep> others{ScheduleStep::reduction, ScheduleStep::elementwise};
    const Loop loop = schedule(optimize(lower(program)), tiny_target(Isa::avx2), others).loop;
    return std::ranges::count(loop.body, StmtKind::loop, &Stmt::kind);
  };
  Program passes("passes"), waits("waits"), reads("reads"), stays("stays");
  passes << (y(i, j) = x(i, j) + 1) << (sums(m) = sum(w(m, n))) << (z(i, j) = y(i, j) * 2);
  EXPECT_EQ(nests(passes), 2);
  waits << (y(i, j) = x(i, j) + 1) << (columns(j) = sum(x(i, j)))
        << (z(i, j) = y(i, j) * columns(j));
  EXPECT_EQ(nests(waits), 3);
  // z would be overwritten before the sums of its columns are taken.
  reads << (y(i, j) = x(i, j) + 1) << (columns(j) = sum(z(i, j))) << (z(i, j) = y(i, j) * 2);
  EXPECT_EQ(nests(reads), 3);
  // Fused, rows that are apart would run in order.
  Program shifted("shifted");
  const Index p(38);
  shifted << (y(0, j) = 0) << (y(1, j) = 0) << (y(p + 2, j) = x(p, j) + 1)
          << (z(p, j) = y(p, j) + y(p + 1, j) + y(p + 2, j));
  EXPECT_EQ(nests(shifted), 3) << "the first rows, the others, and what reads them";
  // Loops that only read the same are joined as neighbours alone.
  stays << (y(i, j) = x(i, j) + 1) << (sums(m) = sum(w(m, n))) << (z(i, j) = x(i, j) * 2);
  EXPECT_EQ(nests(stays), 3);
}

// J9, J13: sums at the same positions are one loop, unless the positions change or order matters
TEST(ScheduleTest, SumsAtTheSamePositionsAreJoined) {
  const Tensor rows("rows", i32, {100}), x("x", f32, {100}), count("count", f32, {7}),
      total("total", f32, {7}), greatest("greatest", f32, {7}), other("other", i32, {100});
  const Index i, k;
  const auto loops_of = [](const Program& program) {
    expect_unchanged(program);
    return print(schedule(optimize(lower(program)), tiny_target(Isa::avx2)).loop);
  };
  const auto occurrences = [](const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  Program joined("joined"), apart("apart"), chained("chained");
  joined << (count(k) = 0) << (count(at(rows(i))) += 1) << (total(k) = 0)
         << (total(at(rows(i))) += x(i)) << (greatest(k) = -1000)
         << (greatest(at(rows(i))) = max(greatest(at(rows(i))), x(i)));
  const std::string one = loops_of(joined);
  EXPECT_EQ(occurrences(one, "in 0..100 {"), 1u) << one;
  EXPECT_EQ(occurrences(one, " at i"), 1u) << one;
  apart << (count(k) = 0) << (count(at(rows(i))) += 1) << (total(k) = 0)
        << (total(at(other(i))) += x(i));
  EXPECT_EQ(occurrences(loops_of(apart), " at i"), 2u);
  chained << (count(k) = 0) << (count(at(rows(i))) += 1) << (total(k) = 0)
          << (total(at(rows(i))) += count(at(rows(i))));
  EXPECT_EQ(occurrences(loops_of(chained), "in 0..100 {"), 2u);
  Program again("again"), gather("gather");  // a start does not pass sums of its buffer
  again << (count(k) = 0) << (count(at(rows(i))) += 1) << (count(k) = 0)
        << (count(at(rows(i))) += x(i));
  EXPECT_EQ(occurrences(loops_of(again), "in 0..100 {"), 2u);
  const Tensor from("from", f32, {7}), y("y", f32, {100});
  gather << (y(i) = from(at(rows(i)))) << (count(k) = 0) << (count(at(rows(i))) += 1);
  EXPECT_EQ(occurrences(loops_of(gather), "in 0..100 {"), 2u);
}

/// How many exp a nest with a scatter of rows, or of single elements where `count` is 1, has;
/// `value` gives what the scatter adds.
std::int64_t exps_beside_scatter(std::int64_t count,
                                 const std::function<Expr(const Expr&)>& value) {
  const Tensor x("x", f32, {100, count}), to("to", i64, {100}), sums("sums", f32, {7, count}),
      terms("terms", f32, {100, count});
  const Index i, k, g, j;
  Program program("scatter");
  program << (sums(g, j) = 0) << (terms(i, k) = value(x(i, k)))
          << (sums(at(to(i)), k) += terms(i, k));
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
  std::int64_t exps = 0;
  for (const StmtPtr& nest : made.loop.body) {
    bool scatters = false;
    walk(Block{nest}, [&](const Stmt& stmt) { scatters = scatters || stmt.kind == StmtKind::at; });
    walk_values(Block{nest}, [&](const Value& v) {
      exps += scatters && v.kind == ValueKind::op && v.op == Op::exp ? 1 : 0;
    });
  }
  return exps;
}

// J9: costly terms of scatters whose rows hold no vector are computed before, in vectors
TEST(ScheduleTest, ScattersReadCostlyTerms) {
  const auto costly = [](const Expr& x) { return exp(x) + exp(-x); };
  EXPECT_EQ(exps_beside_scatter(1, costly), 0);
  EXPECT_EQ(exps_beside_scatter(3, costly), 0);
  EXPECT_EQ(exps_beside_scatter(16, costly), 2);
}

// J9: a row of a single vector is reduced as a vector where other rows are not beside it
TEST(ScheduleTest, RowsOfOneVectorAreVectors) {
  const Tensor x("x", f32, {100, 9}), c("c", f32, {16, 9}), near("near", f32, {100, 16}),
      least("least", f32, {100});
  const Index i, j, k;
  Program program("nearest");
  program << (near(i, j) = sum((x(i, k) - c(j, k)) * (x(i, k) - c(j, k))))
          << (least(i) = minimum(near(i, j)));
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
  EXPECT_THAT(comments(made.loop), ::testing::HasSubstr("reduction: 1 x 16 at once"));
}

// J9: elements that several scatters at a position add are read once
TEST(ScheduleTest, ScattersShareWhatTheyRead) {
  const Tensor x("x", f32, {100}), to("to", i64, {100}), sums("sums", f32, {7}),
      squares("squares", f32, {7});
  const Index i, g;
  Program program("moments");
  program << (sums(g) = 0) << (sums(at(to(i))) += x(i)) << (squares(g) = 0)
          << (squares(at(to(i))) += x(i) * x(i));
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), tiny_target(Isa::avx2));
  std::int64_t reads = 0;
  walk_values(made.loop.body, [&](const Value& v) {
    reads += v.kind == ValueKind::load && made.tensors[v.buffer].label() == "x" ? 1 : 0;
  });
  EXPECT_EQ(reads, 1) << print(made.loop);
}

// J9: an iteration of few statements has four vectors, one of many fewer: its code, for which
// compilers take long, stays bounded
TEST(ScheduleTest, LongBodiesHaveFewerVectors) {
  const Tensor a("a", i32, {64});
  const Index i;
  const Target target = tiny_target(Isa::avx2);
  const auto vectors = [&](int statements) {
    Program chain("chain");
    for (int k = 0; k < statements; ++k) chain << (a(i) = a(i) * 3 + k);
    const Lowered scheduled = schedule(optimize(lower(chain)), target);
    std::int64_t most = 0;
    walk(scheduled.loop.body, [&](const Stmt& stmt) {
      if (stmt.mark == LoopMark::lanes) most = std::max(most, stmt.to / target.lanes(i32));
    });
    return most;
  };
  EXPECT_EQ(vectors(2), 4);
  EXPECT_EQ(vectors(16), 4);
  EXPECT_EQ(vectors(30), 2);
  EXPECT_EQ(vectors(192), 1) << "in three loops";
}

// J9: outputs that no cache would hold are stored past it, unless that is left out
TEST(ScheduleTest, LargeOutputsAreStreamed) {
  for (const std::int64_t size : {100, 20'000'000}) {
    const Tensor x("x", f32, {size}), y("y", f32, {size});
    const Index i;
    Program program("copy");
    program << (y(i) = x(i));
    const Lowered plain = optimize(lower(program));
    const Target target = tiny_target(Isa::avx2);
    const auto streams = [&](std::span<const ScheduleStep> without) {
      return print(schedule(plain, target, without).loop).find("stream t") != std::string::npos;
    };
    EXPECT_EQ(streams({}), size > 100);
    EXPECT_FALSE(streams(std::array{ScheduleStep::stream}));
  }
}

// J9: the user's tile takes the place of the model's, where the registers hold it
TEST(ScheduleTest, TilesCanBeChosen) {
  const Tensor a("a", f32, {50, 60}), b("b", f32, {70, 60}), c("c", f32, {50, 70});
  const Index i, j, k;
  Program program("product");
  program << (c(i, j) += a(i, k) * b(j, k));
  const Lowered plain = optimize(lower(program));
  std::vector<HostArray> expected = inputs(plain.loop, 1);
  interpret(plain.loop, expected);
  const Target target = tiny_target(Isa::avx2);
  for (const ContractionTile tile : {ContractionTile{3, 2, 20}, {1, 1, 60}, {7, 1, 7}, {2, 5}}) {
    const Lowered made = schedule(plain, target, {}, tile);
    EXPECT_TRUE(comments(made.loop).starts_with("contraction: tiles of " +
                                                std::to_string(tile.rows) + " x " +
                                                std::to_string(8 * tile.vectors)))
        << print(made.loop);
    std::vector<HostArray> found = inputs(made.loop, 1);
    interpret(made.loop, found);
    EXPECT_TRUE(same_elements(expected[0], found[0])) << print(made.loop);
  }
  const auto refusal = [&](const ContractionTile& tile) -> std::string {
    try {
      static_cast<void>(schedule(plain, target, {}, tile));
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_NE(refusal({4, 4}).find("4 rows of 4 vectors"), std::string::npos);
  EXPECT_NE(refusal({4, 4}).find("15 registers"), std::string::npos);
  EXPECT_NE(refusal({std::int64_t{1} << 62, 4}).find("choose fewer"), std::string::npos);
  EXPECT_NE(refusal({0, 4}).find("begin at 1"), std::string::npos);
  EXPECT_NE(refusal({1, 1, -1}).find("terms at 0"), std::string::npos);
}

}  // namespace
}  // namespace heddle::jit::testing
