// What schedules know of the machine: each value decides something, and none changes what is
// computed.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heddle/status.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/schedule.hpp"
#include "support/loop_interpreter.hpp"
#include "support/random_contraction.hpp"

namespace heddle::jit::testing {
namespace {

std::vector<HostArray> computed(const Loop& loop) {
  std::vector<HostArray> arrays;
  for (std::size_t k = 0; k < loop.buffers.size(); ++k)
    arrays.push_back(small_numbers(loop.buffers[k].type, k));
  interpret(loop, arrays);
  return arrays;
}

/// Whether the schedule of a program is another one with that profile.
bool decides(const Program& program, Isa isa, const std::function<void(KernelProfile&)>& change) {
  const Lowered plain = optimize(lower(program));
  Target target = tiny_target(isa);
  const std::string usual = print(schedule(plain, target).loop);
  change(target.profile);
  const Loop made = schedule(plain, target).loop;
  EXPECT_TRUE(verify(made).ok());
  const std::vector<HostArray> expected = computed(plain.loop), found = computed(made);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    if (plain.loop.buffers[k].role == Role::scratch) continue;
    EXPECT_TRUE(same_elements(expected[k], found[k])) << print(made);
  }
  return print(made) != usual;
}

Program product_of_matrices(std::int64_t rows, std::int64_t terms, std::int64_t columns) {
  const Tensor a("a", f32, {rows, terms}), b("b", f32, {terms, columns}),
      c("c", f32, {rows, columns});
  const Index i, j, k;
  Program program("product");
  program << (c(i, j) += a(i, k) * b(k, j));
  return program;
}

Program transpose_of(std::int64_t rows, std::int64_t columns) {
  const Tensor x("x", f32, {columns, rows}), y("y", f32, {rows, columns});
  const Index i, j;
  Program program("transpose");
  program << (y(i, j) = x(j, i));
  return program;
}

// J9: products
TEST(ProfileTest, DecidesTiles) {
  const auto decide = [](const std::function<void(KernelProfile&)>& change) {
    for (std::int64_t rows = 5; rows < 40; ++rows) {
      if (decides(product_of_matrices(rows, 3, rows + 13), Isa::avx2, change)) return true;
    }
    return false;
  };
  EXPECT_TRUE(decide([](KernelProfile& of) { of.tile_start = 1; }));
  EXPECT_TRUE(decide([](KernelProfile& of) { of.tile_sum = 10'000; }));
  const Program large = product_of_matrices(60, 70, 80);
  EXPECT_TRUE(decides(large, Isa::avx2, [](KernelProfile& of) { of.terms_ahead = 3; }));
}

// J9: sums that are turned before they are stored
TEST(ProfileTest, DecidesTurning) {
  const Tensor x("x", f32, {40, 60}), w("w", f32, {5, 60}), y("y", f32, {40, 5});
  const Index i, j, k;
  Program program("narrow");
  program << (y(i, j) = sum(x(i, k) * w(j, k)));
  EXPECT_TRUE(decides(program, Isa::avx2, [](KernelProfile& of) { of.tile_turn = 1 << 20; }));
}

// J9: lines of memory
TEST(ProfileTest, DecidesLines) {
  const Program turn = transpose_of(320, 320);
  EXPECT_TRUE(decides(turn, Isa::avx512, [](KernelProfile& of) { of.lines_fetched = 2; }));
  EXPECT_TRUE(decides(turn, Isa::avx512, [](KernelProfile& of) { of.lines_written = 3; }));
  const Tensor x("x", f32, {8, 200}), top("top", f32, {8}), y("y", f32, {8, 200});
  const Index i, j;
  Program rows("rows");
  rows << (top(i) = maximum(x(i, j))) << (y(i, j) = x(i, j) - top(i));
  EXPECT_TRUE(decides(rows, Isa::avx2, [](KernelProfile& of) { of.lines_ahead = 1; }));
  EXPECT_TRUE(decides(rows, Isa::avx2, [](KernelProfile& of) { of.cached_bytes_max = 64; }));
}

// J5: what decides a schedule is in the target's text
TEST(ProfileTest, IsInTheText) {
  Target target = tiny_target(Isa::avx2);
  target.profile.tile_sum = 7;
  EXPECT_EQ(target.to_string(), "avx2 1024 4096 16384 120 7 8 16 4 8 16 33554432");
  EXPECT_EQ(Target::parse(target.to_string()), target);
  EXPECT_EQ(Target::parse("avx2 1024 4096 16384 120 7"), std::nullopt);
}

// What is no value is refused by name.
TEST(ProfileTest, NonsenseIsRefused) {
  check(KernelProfile());
  KernelProfile odd;
  odd.lines_fetched = 0;
  try {
    check(odd);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.status().code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("kernels.lines_fetched is 0 (expected 1 to 64)"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace heddle::jit::testing
