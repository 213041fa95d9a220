// Reductions of functions that lanes cannot compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::int64_t height = 20, width = 32;

/// Arrays of functions in the schedule.
std::int64_t arrays_of_functions(const Lowered& plain) {
  const Lowered made = schedule(plain, with_isa(native_target(), Isa::avx512));
  EXPECT_TRUE(verify(made.loop).ok());
  return std::ranges::count(made.tensors, "functions", &Tensor::label);
}

std::int64_t arrays_of_functions(const Program& program) {
  return arrays_of_functions(optimize(lower(program)));
}

struct Wave {
  const Tensor x{"x", f32, {height, width}}, w{"w", f32, {height, width}},
      of_rows{"of_rows", f32, {height}}, of_columns{"of_columns", f32, {width}};
  const Index i, k;
};

// J9: the sine is computed in a nest of its own, once for both factors; sums and extremes then run
// in lanes, with the results of plain loops
TEST(FunctionsApartTest, ReductionsReadThem) {
  const Wave m;
  Program squares("squares"), product("product");
  const Lowered greatest = lowered_from(R"(
buffer t0 input f32[20,32]
buffer t1 output f32[32]
kernel {
  for i0 in 0..32 {
    let x0: f32 = -inf:f32
    for i1 in 0..20 {
      x0 = max.f32(x0, sin.f32(t0[i1, i0]))
    }
    t1[i0] = x0
  }
}
)");
  EXPECT_EQ(arrays_of_functions(greatest), 1);
  expect_unchanged(greatest);
  squares << (m.of_rows(m.i) += sin(m.x(m.i, m.k)) * sin(m.x(m.i, m.k)));
  EXPECT_EQ(arrays_of_functions(squares), 1);
  product << (m.of_columns(m.k) += sin(m.x(m.i, m.k)) * m.w(m.i, m.k));
  const Lowered made = schedule(optimize(lower(product)), with_isa(native_target(), Isa::avx512));
  EXPECT_NE(comments(made.loop).find("columns at once"), std::string::npos) << print(made.loop);
}

// J9: what is read across beside its own rows is turned first
TEST(FunctionsApartTest, ReadsAcrossAreTurned) {
  const Tensor x("x", f32, {40, 40}), sums("sums", f32, {40});
  const Index i, k;
  Program of_rows("rows");
  of_rows << (sums(i) += abs(x(i, k) - x(k, i)));
  EXPECT_EQ(arrays_of_functions(of_rows), 1);
  expect_unchanged(of_rows);
  Program weighted("weighted");
  const Tensor w("w", f32, {40});
  weighted << (sums(k) += abs(x(i, k) - w(i)));
  EXPECT_EQ(arrays_of_functions(weighted), 0) << "elements of rows beside one of a column";
}

// J9: what lanes compute, what the reduction itself changes, and a few terms stay
TEST(FunctionsApartTest, OthersStay) {
  const Wave m;
  Program lanes("lanes"), changed("changed"), few("few");
  lanes << (m.of_columns(m.k) += exp(m.x(m.i, m.k)));
  EXPECT_EQ(arrays_of_functions(lanes), 0);
  const Tensor y("y", f32, {7}), sum("sum", f32, {});
  few << (sum() += sin(y(m.i)));
  EXPECT_EQ(arrays_of_functions(few), 0);
  Program outer("outer");
  const Tensor a("a", f32, {90}), b("b", f32, {90});
  const Index j;
  outer << (sum() += sin(a(m.i) * b(j)));
  EXPECT_EQ(arrays_of_functions(outer), 0) << "many more than what is loaded";
  changed << (m.of_rows(m.i) += sin(m.of_rows(m.i) + m.x(m.i, m.k)));
  EXPECT_EQ(arrays_of_functions(changed), 0);
}

}  // namespace
}  // namespace heddle::jit::testing
