// Signatures: what a kernel's loops say about its interface, and the serialised form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/status.hpp"
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
    EXPECT_FALSE(read_interface(scheduled.loop).buffers[at].overwrites_whole) << "not tiled";
  }
  EXPECT_EQ(outputs, 1u);
}

// design "one signature": a serialisable value
TEST(SignatureTest, SerialisesAndParses) {
  Signature s = signature_of(
      "buffer t0 inout f32[4,3]\nbuffer t1 merge bf16[]\nbuffer t2 scratch u64[0]\n"
      "static s0\nstatic s1 range 3\n",
      "t0[s0, 0] = f32(t1[])\n");
  s.effects = 5;
  s.entries[0].alias_of = 2;
  s.entries[0].may_donate = true;
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
  const std::string head = "heddle-signature 2 effects 0\n";
  EXPECT_THAT(refusal(""), HasSubstr("line 1"));
  EXPECT_THAT(refusal("heddle-signature 1 effects 0\n"), HasSubstr("expected version 2"));
  EXPECT_THAT(refusal(head + "entry central f32[] 1 0 1 0 0 -1\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal(head + "entry input f99[] 1 0 1 0 0 -1\n"), HasSubstr("a type"));
  EXPECT_THAT(refusal(head + "entry input f32[-1] 1 0 1 0 0 -1\n"), HasSubstr("an extent"));
  EXPECT_THAT(refusal(head + "entry input f32[999999999999,999999999999] 1 0 1 0 0 -1\n"),
              HasSubstr("2^63"));
  EXPECT_THAT(refusal(head + "entry input f32[] 2 0 1 0 0 -1\n"), HasSubstr("0 or 1"));
  EXPECT_THAT(refusal(head + "entry input f32[] 1 0 1 0 0 7 unset\n"), HasSubstr("aliases"));
  EXPECT_THAT(refusal(head + "entry input f32[] 1 0 1 0 0 -1 unset more\n"), HasSubstr("'more'"));
  EXPECT_THAT(refusal(head + "entry input f32[] 1 0 1 0 0 -1 far\n"),
              HasSubstr("a memory mode, found 'far'"));
  EXPECT_THAT(refusal(head + "entry input f32[] 1\n"), HasSubstr("0 or 1"));
  EXPECT_THAT(refusal(head + "static 4\n"), HasSubstr("a highest value"));
  EXPECT_THAT(refusal(head + "colour 4\n"), HasSubstr("'entry' or 'static'"));
  const std::string merge = "entry merge f32[] 1 0 1 0 0 -1 unset\n";
  EXPECT_THAT(refusal(head + merge + merge), HasSubstr("one merge entry"));
}

}  // namespace
}  // namespace heddle::jit
