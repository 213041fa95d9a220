// Which outputs may lie in the memory of which inputs.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "heddle/status.hpp"
#include "jit/loop/donation.hpp"
#include "jit/schedule/schedule.hpp"
#include "support/loop_interpreter.hpp"
#include "support/parsed.hpp"
#include "support/random_contraction.hpp"
#include "support/random_program.hpp"
#include "support/seeds.hpp"

namespace heddle::jit {
namespace {

/// Whether t0 may lie in the memory of t1.
bool takes(const std::string& body, const std::string& type = "f32[8,8]") {
  Loop loop = parsed("buffer t0 output " + type + "\nbuffer t1 input " + type +
                     "\nbuffer t2 inout f32[8,8]\nstatic s0 range 4\nkernel {\n" + body + "}\n");
  std::vector<BufferAccess> buffers = read_interface(loop).buffers;
  buffers[0].overwrites_whole = true;  // which tests of signatures look at
  return Donations(loop, buffers).may_take(0, 1);
}
std::string nest(const std::string& body) {
  return "for i0 in 0..8 { for i1 in 0..8 {\n" + body + "\n} }\n";
}

// D17: element by element, and where all is read before anything is written
TEST(DonationsTest, WhatIsReadFirstMayBeTaken) {
  EXPECT_TRUE(takes(nest("t0[i0, i1] = neg.f32(t1[i0, i1])")));
  EXPECT_TRUE(takes("for i1 in 0..8 { for i0 in 0..8 { t0[i0, i1] = t1[i0, i1] } }\n"));
  EXPECT_TRUE(
      takes("for i0 in 0..4 { for i1 in 0..2 { for i2 in 0..8 {\n"
            "t0[2*i0 + i1, i2] = t1[2*i0 + i1, i2] } } }\n"))
      << "tiles";
  EXPECT_TRUE(takes("for i2 in 0..8 { for i3 in 0..8 { t2[i2, i3] = t1[i3, i2] } }\n" +
                    nest("t0[i0, i1] = t2[i0, i1]")));
  EXPECT_TRUE(
      takes("for i0 in 0..8 {\nfor i1 in 0..8 { t2[0, 0] = t1[i0, i1] }\n"
            "for i2 in 0..8 { t0[i0, i2] = t2[0, 0] }\n}\n"))
      << "row by row";
  EXPECT_TRUE(takes(nest("t0[i0, i1] = 1:f32"))) << "never read";
  EXPECT_TRUE(takes("for i0 in 0..7 { for i1 in 0..8 { t0[i0, i1] = t1[i0 + 1, i1] } }\n"))
      << "from behind";
  EXPECT_TRUE(
      takes("for i0 in 0..8 {\nfor i1 in 0..6 { t0[i0, i1] = t1[i0, i1] }\n"
            "for i2 in 0..2 { t0[i0, i2 + 6] = t1[i0, i2 + 6] }\n}\n"))
      << "what is left of a row";
  EXPECT_TRUE(takes("t0[] = t1[]\n", "f32[]"));
}

// D17: what is read later than it is written may not
TEST(DonationsTest, WhatIsReadLaterMayNot) {
  EXPECT_FALSE(takes(nest("t0[i0, i1] = t1[i1, i0]"))) << "a transpose";
  EXPECT_FALSE(takes("for i0 in 0..7 { for i1 in 0..8 { t0[i0 + 1, i1] = t1[i0, i1] } }\n"))
      << "from ahead";
  EXPECT_FALSE(
      takes("for i0 in 1..7 { for i1 in 0..8 {\n"
            "t0[i0, i1] = add.f32(t1[i0 + 1, i1], t1[i0 - 1, i1]) } }\n"))
      << "a stencil";
  EXPECT_FALSE(
      takes("for i0 in 0..8 { for i1 in 0..8 { for i2 in 0..8 {\n"
            "t0[i0, i1] = add.f32(t0[i0, i1], t1[i0, i2]) } } }\n"))
      << "a reduction";
  EXPECT_FALSE(takes("zero t0\n" + nest("t0[i0, i1] = t1[i0, i1]")));
  EXPECT_FALSE(takes("for i2 in 0..2 {\n" + nest("t0[i0, i1] = t1[i0, i1]") + "}\n")) << "again";
  EXPECT_FALSE(takes(nest("t0[i0, i1] = t1[i0, i1]\nt2[i0, i1] = t1[i0, i1]")));
  EXPECT_FALSE(takes("for i0 in 0..8 { for i1 in 0..8 { t0[i0, i1] = t1[s0, i1] } }\n"))
      << "a row that is chosen later";
  EXPECT_FALSE(takes(nest("t0[i0, i1] = 1:f32") +
                     "for i2 in 0..8 { for i3 in 0..8 { t2[i2, i3] = t1[i2, i3] } }\n"));
  EXPECT_FALSE(takes("parallel i0 in 0..7 { for i1 in 0..8 { t0[i0, i1] = t1[i0 + 1, i1] } }\n"))
      << "side by side";
  EXPECT_FALSE(
      takes("for i0 in 0..3 { for i1 in 0..2 { for i2 in 0..8 {\n"
            "t0[2*i0 + i1, i2] = t1[2*i0 - 2*i1 + 2, i2] } } }\n"))
      << "within tiles";
}

// D17: nor what is of another type, written in part, or written besides
TEST(DonationsTest, RolesAndTypesAreLookedAt) {
  const auto may = [](const std::string& declarations, const std::string& body) {
    const Loop loop = parsed(declarations + "kernel {\n" + body + "}\n");
    return Donations(loop, read_interface(loop).buffers).may_take(0, 1);
  };
  const std::string copies = "for i0 in 0..4 { t0[i0] = t1[i0] }\n";
  const std::string four = "buffer t0 output f32[4]\nbuffer t1 input f32[4]\n";
  EXPECT_TRUE(may(four, copies));
  EXPECT_FALSE(may("buffer t0 output f32[4]\nbuffer t1 input f32[5]\n", copies));
  EXPECT_FALSE(may("buffer t0 output f32[4]\nbuffer t1 merge f32[4]\n", copies));
  EXPECT_FALSE(may(four, "for i0 in 0..3 { t0[i0] = t1[i0] }\n")) << "the rest stays";
  EXPECT_FALSE(may("buffer t0 output f32[4]\nbuffer t1 inout f32[4]\n",
                   "for i0 in 0..4 { t0[i0] = t1[i0]\nt1[i0] = 1:f32 }\n"));
  EXPECT_FALSE(may(four, "for i0 in 0..4 { t0[i0] = add.f32(t0[i0], t1[i0]) }\n"));
}

/// Interpreted with the output in the input's place, it gives the same bits.
void expect_same_bits(const Loop& loop, const std::vector<BufferAccess>& buffers, BufferId to,
                      BufferId from, const std::vector<std::int64_t>& statics) {
  const auto arrays = [&] {
    std::vector<HostArray> made;
    for (const BufferDecl& buffer : loop.buffers) {
      const std::size_t id = made.size();
      // What is not written of the output is the same in both.
      made.push_back(testing::random_array(buffer.type, id == to ? from + 1 : id + 1));
    }
    return made;
  };
  const std::vector<HostArray> apart = arrays();
  std::vector<HostArray> together = arrays();
  together[to] = together[from];
  testing::interpret(loop, apart, statics);
  testing::interpret(loop, together, statics);
  for (BufferId id = 0; id < buffers.size(); ++id) {
    if (id == from || buffers[id].role == Role::scratch) continue;
    ASSERT_TRUE(testing::same_elements(apart[id], together[id]))
        << "t" << to << " in the place of t" << from << "\n"
        << print(loop);
  }
}

// D17: random nests, of which many may and many may not
TEST(DonationsTest, RandomNestsGiveTheSameBits) {
  std::mt19937 random(5);
  const auto below = [&](std::size_t end) { return random() % end; };
  std::uint64_t taken = 0, refused = 0;
  const std::uint64_t count = test::seeds(4000);
  for (std::uint64_t k = 0; k < count; ++k) {
    std::string body = "for i90 in 0..8 { for i91 in 0..8 { t0[i90, i91] = 0:f32 } }\n";
    if (below(2) == 0) body.clear();
    int next = 0;
    const std::size_t nests = 1 + below(2);
    for (std::size_t nest = 0; nest < nests; ++nest) {
      const std::string a = "i" + std::to_string(next++), b = "i" + std::to_string(next++),
                        c = "i" + std::to_string(next++);
      const std::string forms[] = {
          a, a, a, b, b, "-" + a + " + 7", "3", "s0", "2*" + c + " + 1", a + " - " + c + " + 3"};
      const bool tiles = below(3) == 0;
      const auto at = [&](bool plain) {
        if (plain) return "[" + a + ", " + b + "]";
        return "[" + forms[below(tiles ? 10 : 8)] + ", " + forms[below(8)] + "]";
      };
      body += "for " + a + " in 0..5 {\n";
      if (tiles) body += "for " + c + " in 0..4 {\n";
      body += "for " + b + " in 0..8 {\n";
      for (std::size_t stores = 1 + below(2); stores > 0; --stores) {
        const bool plain = below(3) != 0;
        body += (below(4) != 0 ? "t0" : "t2") + at(plain) + " = add.f32(t" +
                std::to_string(1 + below(2)) + at(plain && below(8) != 0) + ", 1:f32)\n";
      }
      body += tiles ? "} } }\n" : "} }\n";
    }
    const Loop loop = parsed(
        "buffer t0 output f32[8,8]\nbuffer t1 input f32[8,8]\nbuffer t2 inout f32[8,8]\n"
        "static s0 range 4\nkernel {\n" +
        body + "}\n");
    std::vector<BufferAccess> buffers = read_interface(loop).buffers;
    if (buffers[0].role != Role::output || buffers[1].role != Role::input) continue;
    buffers[0].overwrites_whole = true;  // as far as it goes
    if (!Donations(loop, buffers).may_take(0, 1)) {
      ++refused;
      continue;
    }
    ++taken;
    expect_same_bits(loop, buffers, 0, 1, {static_cast<std::int64_t>(k % 4)});
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(taken, count / 10);
  EXPECT_GT(refused, count / 10);
}

// D17: and random programs, as they are compiled, of which the signature says the same
TEST(DonationsTest, RandomProgramsGiveTheSameBits) {
  std::uint64_t taken = 0;
  const std::uint64_t count = test::seeds(3000);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const auto random = testing::random_program(seed, {.modes = false, .large = seed % 8 == 0});
    const Lowered lowered =
        seed % 2 == 0 ? optimize(lower(random.program))
                      : schedule(optimize(lower(random.program)), testing::tiny_target(Isa::avx2));
    const Signature signature = make_signature(lowered);
    const std::vector<BufferAccess> buffers(signature.entries.begin(), signature.entries.end());
    const Donations donations(lowered.loop, buffers);
    std::vector<std::int64_t> statics;
    for (const auto& index : lowered.statics) {
      for (const auto& [each, value] : random.statics) {
        if (each == index) statics.push_back(value);
      }
    }
    for (BufferId to = 0; to < buffers.size(); ++to) {
      for (BufferId from = 0; from < buffers.size(); ++from) {
        ASSERT_EQ(signature.may_take(to, from), donations.may_take(to, from))
            << "t" << to << " in the place of t" << from << "\n"
            << print(lowered.loop);
        if (to == from || !donations.may_take(to, from)) continue;
        ++taken;
        expect_same_bits(lowered.loop, buffers, to, from, statics);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(taken, 0U);
}

}  // namespace
}  // namespace heddle::jit
