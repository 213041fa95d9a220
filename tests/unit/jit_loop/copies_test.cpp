// Buffers that begin as copies of scratch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "jit/lower/passes.hpp"
#include "support/parsed.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

/// A nest over t0, whose loops are i0 and i1, or i{first} and the next.
std::string nest(std::string statement, int first = 0, int rows = 8) {
  for (const int k : {1, 0}) {
    const std::string from = "i" + std::to_string(k), to = "i" + std::to_string(first + k);
    for (std::size_t at = 0; (at = statement.find(from, at)) != std::string::npos; at += to.size())
      statement.replace(at, from.size(), to);
  }
  return fmt::format("for i{} in 0..{} {{ for i{} in 0..3 {{\n{}\n}} }}\n", first, rows, first + 1,
                     statement);
}
const std::string copied = nest("t1[i0, i1] = t0[i0, i1]", 8);

/// Whether the scratch t0 is joined with what begins as its copy.
bool joins(const std::string& body) {
  Lowered lowered;
  lowered.loop = parsed(
      "buffer t0 scratch f32[8,3]\nbuffer t1 output f32[8,3]\nbuffer t2 input f32[8,3]\n"
      "buffer t3 output f32[8,3]\nbuffer t4 input f32[8]\nkernel {\n" +
      body + "}\n");
  const Loop made = join_copies(lowered).loop;
  bool found = false;
  walk(made.body, [&](const Stmt& stmt) {
    found = found || (stmt.kind == StmtKind::store && stmt.buffer == 0);
  });
  EXPECT_EQ(found, made.body.size() == lowered.loop.body.size()) << print(made);
  return !found;
}

// J9: the copy goes, and the other buffer takes the place of the scratch
TEST(CopiesTest, TakeThePlaceOfScratch) {
  EXPECT_TRUE(joins(nest("t0[i0, i1] = t4[i0]") + copied +
                    nest("t1[i0, i1] = add.f32(t1[i0, i1], t4[i0])", 2)));
  EXPECT_TRUE(
      joins(nest("t0[i0, i1] = t2[i0, i1]") + nest("t0[i0, i1] = neg.f32(t0[i0, i1])", 2) + copied))
      << "a copy of an input, which may be donated all the same";
}

// J9: scratch that is read later, copies that are not whole, and buffers that are in use before
TEST(CopiesTest, OthersStay) {
  const std::string first = nest("t0[i0, i1] = t4[i0]");
  EXPECT_FALSE(joins(first + copied + nest("t3[i0, i1] = t0[i0, i1]", 2)));
  EXPECT_FALSE(
      joins(first + nest("t1[i0, i1] = 1:f32", 2) + nest("t3[i0, i1] = t1[i0, i1]", 4) + copied));
  EXPECT_FALSE(joins(first + nest("t1[i0, i1] = t0[i0, i1]", 2, 7)));
  EXPECT_FALSE(joins(first + nest("t1[i0, i1] = t0[i0 + 1, i1]", 2, 7)));
  EXPECT_FALSE(joins(first + nest("t1[i0, i1] = neg.f32(t0[i0, i1])", 2)));
}

// D17: an input stays donatable to the output
TEST(CopiesTest, DonationsStay) {
  EXPECT_FALSE(joins(nest("t0[i0, i1] = t4[i0]") +
                     nest("t0[i0, i1] = add.f32(t0[i0, i1], t2[7, 2])", 2) + copied));
  EXPECT_FALSE(joins(nest("t0[i0, i1] = t2[7, i1]") + copied));
}

// J9: two scatters, the second to the result of the first, add in one buffer
TEST(CopiesTest, ChainsOfScattersLieInOneBuffer) {
  const Tensor terms("terms", f32, {100, 3}), from("from", i64, {100}), to("to", i64, {100}),
      second("second", f32, {40, 3});
  Tensor first("first", f32, {40, 3});
  first.set_mode(MemoryMode::local);
  const Index e, c, p;
  Program program("chain");
  program << (first(p, c) = 0.0F) << (first(at(from(e)), c) += terms(e, c))
          << (second(p, c) = first(p, c)) << (second(at(to(e)), c) -= terms(e, c));
  expect_unchanged(program);
  const Lowered made = optimize(lower(program));
  for (const BufferDecl& buffer : made.loop.buffers) EXPECT_NE(buffer.role, Role::scratch);
}

}  // namespace
}  // namespace heddle::jit::testing
