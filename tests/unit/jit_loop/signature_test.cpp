// Signatures: what a kernel's loops say about its interface, and the serialised form.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "heddle/status.hpp"
#include "jit/loop/text.hpp"
#include "jit/schedule/schedule.hpp"
#include "support/parsed.hpp"
#include "support/random_contraction.hpp"

namespace heddle::jit {
namespace {

using ::testing::HasSubstr;

Signature signature_of(const std::string& declarations, const std::string& body) {
  Lowered lowered;
  lowered.loop = parsed(declarations + "kernel {\n" + body + "}\n");
  lowered.interface = read_interface(lowered.loop);
  for (const BufferDecl& decl : lowered.loop.buffers)
    lowered.tensors.emplace_back("t", decl.type.dtype, decl.type.dims);
  return make_signature(lowered);
}

SignatureEntry entry_of(const std::string& body) {
  return signature_of("buffer t0 inout f32[4,3]\nbuffer t1 inout f32[4,3]\nstatic s0 range 4\n",
                      body)
      .entries[0];
}

// J8: reads, writes, and which comes first
TEST(SignatureTest, ReadsAndWrites) {
  SignatureEntry entry = entry_of("t1[0, 0] = t0[0, 0]\n");
  EXPECT_TRUE(entry.reads && entry.reads_before_writing && !entry.writes);
  EXPECT_EQ(entry.role, Role::input);
  entry = entry_of("t0[0, 0] = 1:f32\n");
  EXPECT_TRUE(!entry.reads && entry.writes && !entry.overwrites_whole);
  EXPECT_EQ(entry.role, Role::output);
  entry = entry_of("t0[0, 0] = add.f32(t0[0, 0], 1:f32)\n");
  EXPECT_TRUE(entry.reads && entry.writes && entry.reads_before_writing);
  EXPECT_EQ(entry.role, Role::inout);
  entry = entry_of("");
  EXPECT_FALSE(entry.reads || entry.writes || entry.reads_before_writing);
}

// J8, D2: affine subscripts that leave no element out overwrite the whole, several indices on one
// axis too
TEST(SignatureTest, AffineStoresCover) {
  const auto whole = [](const std::string& body) {
    return signature_of("buffer t0 inout f32[12]\nbuffer t1 inout f32[6,2]\nstatic s0 range 1\n",
                        body)
        .entries[0]
        .overwrites_whole;
  };
  const auto nest = [](std::string_view extents, std::string_view at) {
    return fmt::format("for i0 in 0..{} {{ for i1 in 0..{} {{ t0[{}] = 1:f32 }} }}\n", extents[0],
                       extents[1], at);
  };
  EXPECT_TRUE(whole(nest("34", "4*i0 + i1")));
  EXPECT_TRUE(whole(nest("43", "i0 + 4*i1")));
  EXPECT_TRUE(whole(nest("34", "-4*i0 - i1 + 11")));
  EXPECT_TRUE(whole("for i2 in 0..2 { " + nest("33", "4*i0 + i1 + i2") + "}\n"))
      << "some elements twice";
  EXPECT_FALSE(whole(nest("33", "4*i0 + i1"))) << "every fourth is left out";
  EXPECT_FALSE(whole(nest("25", "2*i0 + 2*i1"))) << "those of odd numbers are";
  EXPECT_FALSE(whole(nest("34", "3*i0 + i1"))) << "the last ones are";
  EXPECT_FALSE(whole(nest("33", "4*i0 + i1 + s0"))) << "depends on a static index";
  EXPECT_FALSE(whole("for i0 in 0..6 { t1[i0, 0] = 1:f32\nt0[2*i0] = 1:f32 }\n"));
  EXPECT_FALSE(whole("for i0 in 0..3 { nearest i1 in 0..4 = 1:i32 { t0[4*i0 + i1] = 1:f32 } }\n"))
      << "a position is one place";
}

// J8, D2: several stores into boxes beside one another overwrite the whole; what is read of it
// meanwhile must have been written
TEST(SignatureTest, BoxesAddUp) {
  const auto entry = [](const std::string& body) { return entry_of(body); };
  const auto rows = [](int from, int to, int first, int last, int number) {
    return fmt::format(
        "for i{4} in {0}..{1} {{ for i{5} in {2}..{3} {{ t0[i{4}, i{5}] = 1:f32 }} }}\n", from, to,
        first, last, number, number + 1);
  };
  const std::string upper = rows(0, 1, 0, 3, 0), lower = rows(1, 4, 0, 3, 2);
  EXPECT_TRUE(entry(upper + lower).overwrites_whole);
  EXPECT_TRUE(entry(lower + upper).overwrites_whole);
  EXPECT_FALSE(entry(upper + rows(2, 4, 0, 3, 2)).overwrites_whole);
  EXPECT_FALSE(entry(upper + rows(0, 1, 0, 3, 2) + rows(1, 3, 0, 3, 4)).overwrites_whole)
      << "one box twice";
  EXPECT_TRUE(entry(rows(1, 3, 1, 2, 0) + rows(0, 1, 0, 3, 2) + rows(3, 4, 0, 3, 4) +
                    rows(1, 3, 0, 1, 6) + rows(1, 3, 2, 3, 8))
                  .overwrites_whole)
      << "a middle and its four borders";
  EXPECT_TRUE(entry("t0[0, 0] = 1:f32\n" + upper + lower).overwrites_whole) << "a part of a part";
  EXPECT_FALSE(entry(rows(0, 3, 0, 3, 0) + rows(2, 4, 0, 2, 2)).overwrites_whole)
      << "they meet, and leave one out";
  const std::string read = "for i9 in 0..3 { t1[0, i9] = t0[0, i9] }\n";
  const SignatureEntry later = entry(upper + read + lower);
  EXPECT_TRUE(later.overwrites_whole && !later.reads_before_writing);
  const SignatureEntry early = entry(lower + read + upper);
  EXPECT_TRUE(!early.overwrites_whole && early.reads_before_writing);
  EXPECT_EQ(entry(upper + "nearest i9 in 0..1 = 5:i32 { t1[0, 0] = t0[i9, 0] }\n" + lower).role,
            Role::output);
  EXPECT_EQ(entry(upper + "nearest i9 in 0..2 = 5:i32 { t1[0, 0] = t0[i9, 0] }\n" + lower).role,
            Role::inout);
}

// J8, D2: whole overwrites are found in ordinary nests, and never claimed wrongly
TEST(SignatureTest, WholeOverwrites) {
  const auto whole = [](const std::string& body) { return entry_of(body).overwrites_whole; };
  EXPECT_TRUE(whole("zero t0\n"));
  EXPECT_TRUE(whole("for i0 in 0..4 { for i1 in 0..3 { t0[i0, i1] = 1:f32 } }\n"));
  EXPECT_TRUE(whole("for i1 in 0..3 { for i0 in 0..4 { t0[i0, i1] = 1:f32 } }\n"));
  EXPECT_TRUE(
      whole("for i0 in 0..4 { for i1 in 0..3 { t0[i0, i1] = 1:f32\n"
            "t0[i0, i1] = neg.f32(t0[i0, i1]) } }\n"))
      << "read after it was written in the same iteration";
  EXPECT_TRUE(whole("for i2 in 0..2 { zero t0\n }\nt1[0, 0] = t0[s0, 0]\n"));
  EXPECT_FALSE(whole("for i0 in 0..4 { for i1 in 0..2 { t0[i0, i1] = 1:f32 } }\n"));
  EXPECT_FALSE(whole("for i0 in 0..3 { t0[i0, i0] = 1:f32 }\n"));
  EXPECT_FALSE(whole("for i1 in 0..3 { t0[s0, i1] = 1:f32 }\n")) << "depends on a static index";
  EXPECT_FALSE(whole("for i2 in 0..0 { zero t0\n }\n")) << "never runs";
  EXPECT_FALSE(
      whole("for i2 in 0..0 { for i0 in 0..4 { for i1 in 0..3 { t0[i0, i1] = 1:f32 } } }\n"));
  EXPECT_FALSE(whole("t1[0, 0] = t0[0, 0]\nzero t0\n")) << "read first";
  EXPECT_FALSE(whole("for i0 in 0..4 { for i1 in 0..3 { t0[i0, i1] = t0[0, 0] } }\n"));
}

// J8: axes of one element, scalars and empty arrays are whole too
TEST(SignatureTest, SmallArraysAreWhole) {
  const auto whole = [](const std::string& type, const std::string& body) {
    return signature_of("buffer t0 inout f32" + type + "\n", body).entries[0].overwrites_whole;
  };
  EXPECT_TRUE(whole("[]", "t0[] = 1:f32\n"));
  EXPECT_TRUE(whole("[1,2]", "for i0 in 0..2 { t0[0, i0] = 1:f32 }\n"));
  EXPECT_TRUE(whole("[0,2]", ""));
  EXPECT_FALSE(whole("[]", ""));
}

// J6: bounds are the declared range, narrowed by every subscript
TEST(SignatureTest, StaticBounds) {
  const auto bounds = [](const std::string& decl, const std::string& body) {
    const auto s =
        signature_of("buffer t0 inout f32[10]\nstatic s0" + decl + "\n", body).statics[0];
    return std::pair(s.lowest, s.highest);
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto highest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(bounds(" range 7", ""), Pair(0, 6));
  EXPECT_EQ(bounds("", ""), Pair(lowest, highest));
  EXPECT_EQ(bounds("", "t0[s0] = 1:f32\n"), Pair(0, 9));
  EXPECT_EQ(bounds("", "t0[s0 - 3] = 1:f32\n"), Pair(3, 12));
  EXPECT_EQ(bounds(" range 7", "t0[s0 - 3] = 1:f32\n"), Pair(3, 6));
  EXPECT_EQ(bounds("", "t0[3*s0 + 1] = 1:f32\n"), Pair(0, 2));
  EXPECT_EQ(bounds("", "t0[-2*s0] = 1:f32\n"), Pair(-4, 0));
  EXPECT_EQ(bounds("", "for i0 in 0..4 { t0[i0 + s0] = t0[i0 - s0 + 6] }\n"), Pair(0, 6));
  EXPECT_EQ(bounds("", "for i0 in 0..4 { t0[2*i0 - s0] = 1:f32 }\n"), Pair(-3, 0));
  EXPECT_EQ(bounds("", "for i0 in 0..0 { t0[s0] = 1:f32 }\n"), Pair(lowest, highest));
  EXPECT_EQ(bounds("", "t0[9223372036854775807*s0] = 1:f32\n"), Pair(0, 0));
  const auto none = bounds("", "t0[5*s0 - 13] = 1:f32\nt0[5*s0 - 27] = 1:f32\n");
  EXPECT_GT(none.first, none.second) << "no value fits";
}

// O30, D7: the merge buffer is the one entry of that role
TEST(SignatureTest, MergeEntry) {
  const Signature s =
      signature_of("buffer t0 inout f32[2]\nbuffer t1 merge f32[2]\n", "t0[0] = t1[0]\n");
  EXPECT_EQ(s.merge, 1u);
  EXPECT_EQ(s.entries[1].role, Role::merge);
}

// J8, D2: what the program says is kept where a schedule's loops no longer show it
TEST(SignatureTest, SchedulesKeepWhatIsOverwrittenWhole) {
  const Tensor a("a", f32, {40, 40}), b("b", f32, {40, 40}), c("c", f32, {40, 40});
  const Index i, j, k;
  Program program("product");
  program << (c(i, j) = sum(a(i, k) * b(k, j)));
  const Lowered scheduled = schedule(optimize(lower(program)), testing::tiny_target(Isa::avx2));
  const Signature s = make_signature(scheduled);
  std::size_t outputs = 0;
  for (std::size_t at = 0; at < s.entries.size(); ++at) {
    const SignatureEntry& entry = s.entries[at];
    EXPECT_EQ(entry.type, scheduled.loop.buffers[at].type);
    EXPECT_EQ(entry.mode, entry.role == Role::scratch ? MemoryMode::local : MemoryMode::on_device);
    if (entry.role != Role::output) continue;
    ++outputs;
    EXPECT_TRUE(entry.overwrites_whole);
  }
  EXPECT_EQ(outputs, 1u);
  EXPECT_THAT(print(scheduled.loop), HasSubstr("lanes")) << "not tiled";
}

std::optional<Slice> slice_of(const std::string& body) { return entry_of(body).slice; }

// J6, J8, D9: the part that static indices choose, wherever the loops go in it
TEST(SignatureTest, SlicesAreWhatStaticsChoose) {
  const std::string row = "for i1 in 0..3 { t0[s0, i1] = 1:f32 }\n";
  std::optional<Slice> slice = slice_of(row);
  ASSERT_TRUE(slice);
  EXPECT_EQ(*slice, (Slice{0, 12, {12}, true}));
  const std::int64_t at[] = {2};
  EXPECT_EQ(slice->at(at), std::pair(std::size_t{24}, std::size_t{36}));
  EXPECT_EQ(entry_of("for i0 in 0..4 { t1[i0, 0] = t0[-s0 + 3, 1] }\n").slice,
            (Slice{40, 44, {-12}, false}));
  EXPECT_EQ(slice_of("for i0 in 0..4 { t0[i0, 0] = 1:f32 }\n"), (Slice{0, 40, {0}, false}))
      << "a column has other elements in between";
  EXPECT_EQ(slice_of("for i0 in 0..2 { for i1 in 0..3 { t0[2*s0 + i0, i1] = 1:f32 } }\n"),
            (Slice{0, 24, {24}, true}));
  EXPECT_EQ(slice_of("for i0 in 0..2 { for i1 in 0..3 { t0[i0 + 1, i1] = 1:f32 } }\n"),
            (Slice{12, 36, {0}, true}))
      << "no static index";
  EXPECT_EQ(slice_of(row + "t1[0, 0] = t0[s0, 1]\n"), (Slice{0, 12, {12}, true}))
      << "read after all of it was written";
  EXPECT_EQ(slice_of("t1[0, 0] = t0[s0, 1]\n" + row), (Slice{0, 12, {12}, false})) << "before";
  EXPECT_EQ(slice_of("nearest i9 in 0..3 = 5:i32 { t0[s0, i9] = 1:f32 }\n"),
            (Slice{0, 12, {12}, false}));
}

// J8, D9: what may touch any of it has no slice
TEST(SignatureTest, NoSliceWhereAnyPartMayBeTouched) {
  const std::string row = "for i1 in 0..3 { t0[s0, i1] = 1:f32 }\n";
  EXPECT_EQ(slice_of(row + "t1[0, 0] = t0[0, 0]\n"), std::nullopt) << "a fixed element beside";
  EXPECT_EQ(slice_of(row + "t1[0, 0] = t0[-s0 + 3, 0]\n"), std::nullopt) << "moved otherwise";
  EXPECT_EQ(slice_of(row + "zero t0\n"), std::nullopt);
  EXPECT_EQ(slice_of("nearest i9 in 0..4 = 5:i32 { t1[0, 0] = t0[i9, 2]\nt0[i9, 0] = 1:f32 }\n"),
            std::nullopt);
  EXPECT_EQ(slice_of("for i0 in 0..4 { for i1 in 0..3 { t0[i0, i1] = 1:f32 } }\n"), std::nullopt);
  EXPECT_EQ(slice_of("for i2 in 0..0 { t0[s0, 0] = 1:f32 }\n"), std::nullopt) << "never runs";
  EXPECT_EQ(slice_of("for i2 in 0..0 { t0[s0, 4611686018427387904] = 1:f32 }\n" + row),
            (Slice{0, 12, {12}, true}))
      << "what never runs says nothing";
}

/// Whether t0 may take the memory of t1, of t2.
std::pair<bool, bool> taken(const std::string& body) {
  const Signature s = signature_of(
      "buffer t0 output f32[4]\nbuffer t1 input f32[4]\nbuffer t2 input f32[4]\n"
      "buffer t3 output f32[4,1]\n",
      body);
  EXPECT_FALSE(s.may_take(3, 1)) << "another type";
  EXPECT_FALSE(s.may_take(1, 0)) << "an input takes nothing";
  return {s.may_take(0, 1), s.may_take(0, 2)};
}

// D17, design "one signature": an output may take the memory of some inputs and not of others
TEST(SignatureTest, WhichMemoryAnOutputMayTake) {
  using Pair = std::pair<bool, bool>;
  const std::string t3 = "for i9 in 0..4 { t3[i9, 0] = t1[i9] }\n";
  EXPECT_EQ(taken(t3 + "for i0 in 0..4 { t0[i0] = add.f32(t1[i0], t2[-i0 + 3]) }\n"),
            Pair(true, false));
  EXPECT_EQ(taken("for i0 in 0..4 { t0[i0] = add.f32(t1[-i0 + 3], t2[i0]) }\n"), Pair(false, true));
  EXPECT_EQ(taken("for i0 in 0..4 { t0[i0] = t2[i0] }\n" + t3), Pair(false, true)) << "read later";
  EXPECT_EQ(taken("let x0: f32 = t1[0]\nfor i0 in 0..4 { t0[i0] = add.f32(x0, t2[0]) }\n"),
            Pair(true, false))
      << "read before";
  const Signature s =
      signature_of("buffer t0 inout f32[4]\nbuffer t1 inout f32[4]\n",
                   "let x0: f32 = t0[0]\nt1[0] = x0\nt1[1] = t0[1]\nt0[1] = x0\nt0[2] = x0\n");
  EXPECT_EQ(s.entries[0].last_read, 3u);
  EXPECT_EQ(s.entries[0].first_write, 4u);
  EXPECT_EQ(s.entries[1].last_read, 0u);
  EXPECT_EQ(s.entries[1].first_write, 2u);
}

// design "one signature": a serialisable value
TEST(SignatureTest, SerialisesAndParses) {
  Signature s = signature_of(
      "buffer t0 inout f32[4,3]\nbuffer t1 merge bf16[]\nbuffer t2 scratch u64[0]\n"
      "static s0\nstatic s1 range 3\n",
      "t0[s0, 0] = f32(t1[])\n");
  s.effects = 5;
  s.entries[0].alias_of = 2;
  s.entries[0].last_read = 7;
  s.entries[0].first_write = 3;
  s.entries[0].takes = {1, 2};
  EXPECT_EQ(s.entries[0].slice, (Slice{0, 4, {12, 0}, true}));
  s.entries[1].mode = MemoryMode::hosted_changed_on_devices;
  EXPECT_EQ(Signature::parse(s.serialize()), s);
  EXPECT_EQ(Signature::parse(Signature{}.serialize()), Signature{});
}

// J8
TEST(SignatureTest, MalformedTextIsRefused) {
  const auto refusal = [](const std::string& text) {
    try {
      static_cast<void>(Signature::parse(text));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      return std::string(e.what());
    }
    return std::string();
  };
  const std::string head = "heddle-signature 4 effects 0\n";
  EXPECT_THAT(refusal(""), HasSubstr("line 1"));
  EXPECT_THAT(refusal("heddle-signature 3 effects 0\n"), HasSubstr("expected version 4"));
  EXPECT_THAT(refusal(head + "entry central f32[] 1 0 1 0 0 0 -1\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal(head + "entry input f99[] 1 0 1 0 0 0 -1\n"), HasSubstr("a type"));
  EXPECT_THAT(refusal(head + "entry input f32[-1] 1 0 1 0 0 0 -1\n"), HasSubstr("an extent"));
  EXPECT_THAT(refusal(head + "entry input f32[999999999999,999999999999] 1 0 1 0 0 0 -1\n"),
              HasSubstr("2^63"));
  EXPECT_THAT(refusal(head + "entry input f32[] 2 0 1 0 0 0 -1\n"), HasSubstr("0 or 1"));
  EXPECT_THAT(refusal(head + "entry input f32[] 1 0 1 0 0 0 7 unset\n"), HasSubstr("aliases"));
  EXPECT_THAT(refusal(head + "entry input f32[] 1 0 1 0 0 0 -1 unset takes 0 more\n"),
              HasSubstr("an entry"));
  EXPECT_THAT(refusal(head + "static 4 5 more\n"), HasSubstr("'more'"));
  EXPECT_THAT(refusal(head + "entry input f32[] 1 0 1 0 0 0 -1 far\n"),
              HasSubstr("a memory mode, found 'far'"));
  EXPECT_THAT(refusal(head + "entry input f32[] 1\n"), HasSubstr("0 or 1"));
  EXPECT_THAT(refusal(head + "entry input f32[] 1 0 1 0 -1 0 -1 unset\n"),
              HasSubstr("a statement or 0, found '-1'"));
  const std::string output = "entry output f32[] 0 1 0 1 0 1 -1 unset ";
  EXPECT_THAT(refusal(head + output + "gives 0\n"), HasSubstr("'slice', 'takes' or the end"));
  EXPECT_THAT(refusal(head + output + "slice 0\n"), HasSubstr("where the slice ends"));
  EXPECT_THAT(refusal(head + output + "slice 4 4 1 0\n"), HasSubstr("a slice of bytes"));
  EXPECT_THAT(refusal(head + output + "slice 0 5 1 0\n"), HasSubstr("a slice of bytes"));
  EXPECT_THAT(refusal(head + output + "slice 0 4 2 0\n"), HasSubstr("0 or 1"));
  EXPECT_THAT(refusal(head + output + "slice 0 4 1 2 7\n"), HasSubstr("a step"));
  EXPECT_THAT(refusal(head + output + "slice 0 4 1 1 7\n"), HasSubstr("0 steps of each slice"));
  EXPECT_THAT(refusal(head + output + "slice 0 4 1 0 gives\n"), HasSubstr("'takes' or the end"));
  EXPECT_THAT(refusal(head + output + "takes\n"), HasSubstr("an entry"));
  EXPECT_THAT(refusal(head + output + "takes 0 x\n"), HasSubstr("an entry"));
  EXPECT_THAT(refusal(head + output + "takes 0 0\n"), HasSubstr("entries in order"));
  EXPECT_THAT(refusal(head + output + "takes 1\n"), HasSubstr("entries that exist, found '1'"));
  EXPECT_THAT(refusal(head + "static 4\n"), HasSubstr("a highest value"));
  EXPECT_THAT(refusal(head + "colour 4\n"), HasSubstr("'entry' or 'static'"));
  const std::string merge = "entry merge f32[] 1 0 1 0 0 0 -1 unset\n";
  EXPECT_THAT(refusal(head + merge + merge), HasSubstr("one merge entry"));
}

}  // namespace
}  // namespace heddle::jit
