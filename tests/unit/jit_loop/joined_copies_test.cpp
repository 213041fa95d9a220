// Buffers that begin as copies of scratch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "jit/schedule/joined_copies.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

/// A nest of two loops, i0 and i1 in the statement, over `rows` rows of three elements.
std::string rows_of_three(std::string statement, int first, int rows = 8) {
  for (const int k : {1, 0}) {
    const std::string from = fmt::format("i{}", k), to = fmt::format("i{}", first + k);
    for (std::size_t at = 0; (at = statement.find(from, at)) != std::string::npos; at += to.size())
      statement.replace(at, from.size(), to);
  }
  return fmt::format("for i{} in 0..{} {{ for i{} in 0..3 {{\n{}\n}} }}\n", first, rows, first + 1,
                     statement);
}
const std::string filled_rows = rows_of_three("t0[i0, i1] = t4[i0]", 0),
                  copied_rows = rows_of_three("t1[i0, i1] = t0[i0, i1]", 8);

/// Whether the scratch t0 is joined with what begins as its copy; numbers stay in any case.
bool joins(const std::string& body) {
  const Lowered plain = lowered_from(
      "buffer t0 scratch f32[8,3]\nbuffer t1 output f32[8,3]\nbuffer t2 input f32[8,3]\n"
      "buffer t3 output f32[8,3]\nbuffer t4 input f32[8]\nkernel {\n" +
      body + "}\n");
  expect_unchanged(plain);
  Lowered made = plain;
  join_copies(made);
  bool stores = false;
  walk(made.loop.body, [&](const Stmt& stmt) {
    stores = stores || (stmt.kind == StmtKind::store && stmt.buffer == 0);
  });
  EXPECT_EQ(stores, made.loop.body.size() == plain.loop.body.size()) << print(made.loop);
  return !stores;
}

// J9: the copy goes, and the other buffer takes the place of the scratch
TEST(JoinedCopiesTest, TakeThePlaceOfScratch) {
  EXPECT_TRUE(
      joins(filled_rows + copied_rows + rows_of_three("t1[i0, i1] = neg.f32(t1[i0, i1])", 12, 2)));
}

// J9: scratch that is read later, copies that are not whole, and buffers that are in use before
TEST(JoinedCopiesTest, OthersStay) {
  EXPECT_FALSE(joins(filled_rows + copied_rows + rows_of_three("t3[i0, i1] = t0[i0, i1]", 12)));
  EXPECT_FALSE(joins(filled_rows + rows_of_three("t1[i0, i1] = 1:f32", 4) +
                     rows_of_three("t3[i0, i1] = t1[i0, i1]", 6) + copied_rows));
  EXPECT_FALSE(joins(filled_rows + rows_of_three("t1[i0, i1] = t0[i0, i1]", 4, 7)));
  EXPECT_FALSE(joins(filled_rows + rows_of_three("t1[i0, i1] = t0[i0 + 1, i1]", 4, 7)));
  EXPECT_FALSE(joins(filled_rows + rows_of_three("t1[i0, i1] = neg.f32(t0[i0, i1])", 4)));
}

// D17: an output may take the memory of the same inputs as before
TEST(JoinedCopiesTest, DonationsStay) {
  EXPECT_FALSE(joins(filled_rows + rows_of_three("t0[i0, i1] = add.f32(t0[i0, i1], t2[7, 2])", 4) +
                     copied_rows));
  EXPECT_FALSE(joins(rows_of_three("t0[i0, i1] = t2[7, i1]", 0) + copied_rows));
  EXPECT_TRUE(joins(rows_of_three("t3[i0, i1] = t2[7, i1]", 0) +
                    rows_of_three("t0[i0, i1] = t4[i0]", 4) + copied_rows))
      << "read before";
  EXPECT_TRUE(joins(rows_of_three("t0[i0, i1] = t2[i0, i1]", 0) +
                    rows_of_three("t0[i0, i1] = neg.f32(t0[i0, i1])", 4, 2) + copied_rows))
      << "a copy of an input, whose memory the output takes all the same";
}

// J9: two scatters, the second to the result of the first, add in one buffer
TEST(JoinedCopiesTest, ChainsOfScattersLieInOneBuffer) {
  const Tensor terms("terms", f32, {100, 3}), from("from", i64, {100}), to("to", i64, {100}),
      second("second", f32, {40, 3});
  Tensor first("first", f32, {40, 3});
  first.set_mode(MemoryMode::local);
  const Index e, c, p;
  Program program("chain");
  program << (first(p, c) = 0.0F) << (first(at(from(e)), c) += terms(e, c))
          << (second(p, c) = first(p, c)) << (second(at(to(e)), c) -= terms(e, c));
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx2));
  for (const BufferDecl& buffer : made.loop.buffers) {
    if (buffer.role != Role::scratch) continue;
    EXPECT_EQ(buffer.type.num_elements(), 1);
  }
}

}  // namespace
}  // namespace heddle::jit::testing
