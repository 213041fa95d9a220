// Sums of products with a one-hot factor, taken at places.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::int64_t groups = 40, term_count = 200, wide = 9;

/// Places on both sides of the groups, too; small numbers, among them `rare` at three places.
HostArray filled(const BufferDecl& buffer, std::uint64_t seed, double rare) {
  std::mt19937_64 random(seed);
  HostArray array(buffer.type);
  const bool places = is_integer(buffer.type.dtype) && buffer.role == Role::input;
  for (std::int64_t k = 0; k < array.num_elements(); ++k) {
    const auto number = static_cast<double>(random() % (places ? groups + 4 : 4));
    array.set(k, places ? number - 2 : number);
  }
  if (!places && buffer.role == Role::input) {
    for (const std::int64_t k : {3, 77, 101}) {
      if (k < array.num_elements()) array.set(k, rare);
    }
  }
  return array;
}

/// Whether the schedule takes a sum at places. The results are those without a schedule, for
/// numbers, infinite values and NaN.
bool is_at_places(const Program& program) {
  const Lowered plain = optimize(lower(program));
  const Lowered made = schedule(plain, with_isa(native_target(), Isa::avx512));
  EXPECT_TRUE(verify(made.loop).ok());
  for (const double rare : {2.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    std::vector<HostArray> expected, found;
    for (std::size_t k = 0; k < made.loop.buffers.size(); ++k) {
      found.push_back(filled(made.loop.buffers[k], k, rare));
      if (k < plain.loop.buffers.size()) expected.push_back(filled(plain.loop.buffers[k], k, rare));
    }
    interpret(plain.loop, expected);
    interpret(made.loop, found);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      if (plain.loop.buffers[k].role == Role::scratch) continue;
      EXPECT_TRUE(same_elements(expected[k], found[k])) << rare << "\n" << print(made.loop);
    }
  }
  return comments(made.loop).find("sums at places") != std::string::npos;
}

/// 1 where the element of `at` is column g, else 0.
Expr one_hot(const Expr& at, const Index& g) { return cast(at == cast(embed(g), i32), f32); }

class OneHotSumsTest : public ::testing::Test {
 protected:
  const Tensor of{"of", i32, {term_count}}, x{"x", f32, {term_count}}, sums{"sums", f32, {groups}};
  const Index g, i, j, b;
};

// J9: a term is added to its group alone; places without a group add nothing
TEST_F(OneHotSumsTest, TermsAreAddedAtTheirPlaces) {
  Program product("product"), chosen("chosen"), count("count"), costly("costly");
  product << (sums(g) += x(i) * one_hot(of(i), g));
  chosen << (sums(g) = sum(where(of(i) == cast(embed(g), i32), x(i), 0.0f)));
  count << (sums(g) = sum(one_hot(of(i), g)));
  costly << (sums(g) = sum(one_hot(of(i), g) * abs(x(i) - 1)));
  for (const Program& program : {product, chosen, count, costly})
    EXPECT_TRUE(is_at_places(program));
  const Tensor n("n", i64, {groups});
  Program whole("whole");
  whole << (n(g) = sum(cast(of(i) == cast(embed(g), i32), i64)));
  EXPECT_TRUE(is_at_places(whole));
}

// J9: rows of a place are added as rows, and rows across memory one by one
TEST_F(OneHotSumsTest, RowsAreAddedAtTheirPlaces) {
  const Tensor rows("rows", f32, {term_count, wide}), columns("columns", f32, {wide, term_count}),
      by_rows("by_rows", f32, {groups, wide}), by_columns("by_columns", f32, {wide, groups});
  Program along("along"), across("across");
  along << (by_rows(g, j) = sum(one_hot(of(i), g) * rows(i, j)));
  across << (by_columns(j, g) = sum(columns(j, i) * one_hot(of(i), g)));
  EXPECT_TRUE(is_at_places(along));
  EXPECT_TRUE(is_at_places(across));
  const Tensor batches("batches", i32, {3, 70}), many("many", f32, {3, 70, wide}),
      each("each", f32, {3, groups, wide});
  Program batched("batched");
  batched << (each(b, g, j) = sum(one_hot(batches(b, i), g) * many(b, i, j)));
  EXPECT_TRUE(is_at_places(batched));
}

// J9: a one-hot matrix that is stored for several readers is not read, nor are clamped places
TEST_F(OneHotSumsTest, StoredMatricesAreSeenThrough) {
  Tensor hot("hot", f32, {term_count, groups}), near("near", i32, {term_count});
  const Tensor counts("counts", f32, {groups});
  Program shared("shared");
  shared << (near(i) = min(max(of(i), -1), groups)) << (hot(i, g) = one_hot(near(i), g))
         << (sums(g) = sum(x(i) * hot(i, g))) << (counts(g) = sum(hot(i, g)));
  for (Tensor* tensor : {&hot, &near}) tensor->set_mode(MemoryMode::local);
  EXPECT_TRUE(is_at_places(shared));
  const Lowered made = schedule(optimize(lower(shared)), native_target());
  walk(made.loop.body, [](const Stmt& stmt) {
    EXPECT_FALSE(stmt.kind == StmtKind::store && stmt.value->dtype == i32) << "clamped places";
  });
}

// J9: few groups are products; a place, or a term, that depends on the group has none
TEST_F(OneHotSumsTest, OthersStay) {
  const Tensor few("few", f32, {8}), table("table", f32, {term_count, groups}),
      moving("moving", i32, {term_count, groups});
  Program small("small"), own("own"), moved("moved"), largest("largest");
  small << (few(g) = sum(x(i) * one_hot(of(i), g)));
  own << (sums(g) = sum(table(i, g) * one_hot(of(i), g)));
  moved << (sums(g) = sum(x(i) * one_hot(moving(i, g), g)));
  largest << (sums(g) = maximum(x(i) * one_hot(of(i), g)));
  for (const Program& program : {small, own, moved, largest}) EXPECT_FALSE(is_at_places(program));
  const Tensor x64("x64", f64, {term_count}), few64("few64", f64, {8});
  Program mixed("mixed");
  mixed << (few64(g) = sum(where(of(i) == cast(embed(g), i32), x64(i), 0.0)));
  EXPECT_TRUE(is_at_places(mixed)) << "no vectors multiply f64 by what i32 gives";
}

// J9: a column that its type does not have, and bounds beyond a type, wrap; fewer terms are
// products
TEST_F(OneHotSumsTest, NarrowTypesWrap) {
  const Tensor bytes("bytes", u8, {term_count}), many("many", f32, {300}),
      wide_of("wide_of", i64, {term_count}), few_of("few_of", i32, {20}), few("few", f32, {20});
  const Index h(300), k(20);
  Program wraps("wraps"), fits("fits"), bounded("bounded"), rare("rare");
  wraps << (many(h) = sum(x(i) * cast(bytes(i) == cast(embed(h), u8), f32)));
  EXPECT_FALSE(is_at_places(wraps));
  fits << (sums(g) = sum(x(i) * cast(bytes(i) == cast(embed(g), u8), f32)));
  EXPECT_TRUE(is_at_places(fits));
  bounded << (sums(g) = sum(
                  cast(cast(max(min(wide_of(i) * 64, 1000), -1), i8) == cast(embed(g), i8), f32)));
  EXPECT_TRUE(is_at_places(bounded));
  rare << (sums(g) = sum(few(k) * one_hot(few_of(k), g)));
  EXPECT_FALSE(is_at_places(rare));
}

// J9: an infinite factor gives NaN in each column without the term
TEST_F(OneHotSumsTest, InfiniteFactorsAreCounted) {
  Program program("program");
  program << (sums(g) = sum(one_hot(of(i), g) * std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(is_at_places(program));
}

// W4: a group of all terms is summed as exactly as a product
TEST_F(OneHotSumsTest, LongSumsAreTakenInBlocks) {
  constexpr std::int64_t many = 100'000;
  const Tensor places("places", i32, {many}), ones("ones", f32, {many});
  Program program("program");
  program << (sums(g) = sum(ones(i) * one_hot(places(i), g)));
  const Lowered made = schedule(optimize(lower(program)), native_target());
  std::vector<HostArray> arrays;
  for (const BufferDecl& buffer : made.loop.buffers) {
    arrays.emplace_back(buffer.type);
    const bool is_float = buffer.type.dtype == f32;
    for (std::int64_t k = 0; k < arrays.back().num_elements(); ++k)
      arrays.back().set(k, is_float ? 0.1 : 0.0);
  }
  interpret(made.loop, arrays);
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    if (made.loop.buffers[k].role != Role::output) continue;
    EXPECT_NEAR(arrays[k].at(0), 0.1f * many, 0.1);
  }
  EXPECT_FALSE(sum_orders(made.loop).empty());
}

}  // namespace
}  // namespace heddle::jit::testing
