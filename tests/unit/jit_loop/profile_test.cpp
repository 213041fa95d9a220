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

Program transpose_of(std::int64_t rows, std::int64_t columns) {
  const Tensor x("x", f32, {columns, rows}), y("y", f32, {rows, columns});
  const Index i, j;
  Program program("transpose");
  program << (y(i, j) = x(j, i));
  return program;
}

// J9: copies of products' operands
TEST(ProfileTest, DecidesTermsAhead) {
  const Tensor a("a", f32, {60, 70}), b("b", f32, {70, 80}), c("c", f32, {60, 80});
  const Index i, j, k;
  Program product("product");
  product << (c(i, j) += a(i, k) * b(k, j));
  EXPECT_TRUE(decides(product, Isa::avx2, [](KernelProfile& of) { of.terms_ahead = 3; }));
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

// J9: rows that sums of columns take together
TEST(ProfileTest, DecidesRowsTogether) {
  const Tensor x("x", f32, {40, 256}), sums("sums", f32, {256});
  const Index i, j;
  Program columns("columns");
  columns << (sums(j) = sum(x(i, j)));
  for (const std::int64_t rows : {1, 3, 64}) {
    EXPECT_TRUE(decides(columns, Isa::avx2, [rows](KernelProfile& of) { of.rows_together = rows; }))
        << rows;
  }
}

// J9: windows of convolutions, unrolled
TEST(ProfileTest, DecidesUnrolledSteps) {
  const Tensor image("image", f32, {8, 10, 34}), weights("weights", f32, {16, 8, 3, 3}),
      out("out", f32, {16, 8, 32});
  const Index o, y, x, c, v, u;
  Program conv("conv");
  conv << (out(o, y, x) = sum(image(c, y + v, x + u) * weights(o, c, v, u)));
  EXPECT_TRUE(decides(conv, Isa::avx2, [](KernelProfile& of) { of.unrolled_steps = 1; }));
}

// J5: what decides a schedule is in the target's text
TEST(ProfileTest, IsInTheText) {
  Target target = tiny_target(Isa::avx2);
  target.profile.lines_ahead = 7;
  EXPECT_EQ(target.to_string(), "avx2 1024 4096 16384 131072 16 4 8 7 4 128 33554432 131072");
  EXPECT_EQ(Target::parse(target.to_string()), target);
  Target blocks = tiny_target(Isa::avx2);
  blocks.sum_bytes = 1;
  EXPECT_EQ(Target::parse(blocks.to_string()), blocks);
  EXPECT_EQ(Target::parse("avx2 1024 4096 16384 131072 16"), std::nullopt);
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
