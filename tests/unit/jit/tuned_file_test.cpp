// The file of what tuning found: kept once, read strictly. The text of choices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "heddle/status.hpp"
#include "jit/schedule/choices.hpp"
#include "jit/tune/tuned_file.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle::jit {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

ScheduleChoices all_choices() {
  return {.tile = ScheduleChoices::Tile{6, 2},
          .terms = 128,
          .turned = true,
          .pack_a = false,
          .pack_b = true,
          .without = {ScheduleStep::fuse, ScheduleStep::prefetch},
          .terms_ahead = 32,
          .lines_fetched = 2,
          .lines_written = 16,
          .lines_ahead = 64,
          .rows_together = 2,
          .unrolled_steps = 64,
          .cached_bytes_max = 1 << 20,
          .part_bytes = 4096};
}

TunedSchedule some_schedule() {
  TunedSchedule tuned;
  tuned.candidates.push_back({.estimated_us = 10.25,
                              .verdict = TuneVerdict::measured,
                              .rounds = 7,
                              .median_us = 12.5,
                              .ratio = 1});
  tuned.candidates.push_back({all_choices(), false, 11, TuneVerdict::measured, 7, 10.1, 0.81});
  tuned.candidates.push_back({{.terms = 0}, true, 1e-7, TuneVerdict::failed, 0, 0, 0});
  tuned.best = 1;
  return tuned;
}

TunedFor someone(const std::string& program = "p", const std::string& machine = "m; 1 2; cc") {
  return {KeyHasher().add(program).finish(), machine};
}

/// What is wrong with a text; empty: nothing.
std::string wrong_with(const std::string& text, const TunedFor& whose = someone()) {
  const auto parsed = parse_tuned(text, whose);
  const auto* const problem = std::get_if<std::string>(&parsed);
  return problem != nullptr ? *problem : "";
}

/// A text of these lines, with the checksum that belongs to it.
std::string summed(std::string text) {
  char sum[32];
  snprintf(sum, sizeof sum, "sum %016llx\n",
           static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return text + sum;
}

// W3: choices have one text, which is read back
TEST(ChoicesTextTest, IsReadBack) {
  EXPECT_EQ(ScheduleChoices().to_string(), "as modelled");
  EXPECT_EQ(
      all_choices().to_string(),
      "tile 6x2; terms 128; turned; no pack a; pack b; without fuse prefetch; terms_ahead 32; "
      "lines_fetched 2; lines_written 16; lines_ahead 64; rows_together 2; unrolled_steps 64; "
      "cached_bytes_max 1048576; part_bytes 4096");
  EXPECT_EQ((ScheduleChoices{.terms = 0}.to_string()), "terms all");
  for (const ScheduleChoices& each :
       {ScheduleChoices(), all_choices(), ScheduleChoices{.terms = 0},
        ScheduleChoices{.pack_a = true}, ScheduleChoices{.turned = false},
        ScheduleChoices{.without = {ScheduleStep::parallel}}})
    EXPECT_EQ(ScheduleChoices::parse(each.to_string()), each) << each.to_string();
}

// W3, bad input: what is no choice is named, and what was expected
TEST(ChoicesTextTest, OthersAreRefused) {
  const auto refusal = [](const std::string& text) {
    const Status status = failure([&] { static_cast<void>(ScheduleChoices::parse(text)); });
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << text;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(""), HasSubstr("expected tile, terms, turned, pack"));
  EXPECT_THAT(refusal("tile 6"), AllOf(HasSubstr("'tile 6'"), HasSubstr("ROWSxVECTORS")));
  EXPECT_THAT(refusal("tile 0x2"), HasSubstr("a number from 1"));
  EXPECT_THAT(refusal("tile 6x2; tile 6x2"), HasSubstr("each choice once"));
  EXPECT_THAT(refusal("turned; not turned"), HasSubstr("each choice once"));
  EXPECT_THAT(refusal("turned round"), HasSubstr("'turned round'"));
  EXPECT_THAT(refusal("pack c"), HasSubstr("factor a or b"));
  EXPECT_THAT(refusal("pack a; no pack a"), HasSubstr("each choice once"));
  EXPECT_THAT(refusal("no fuse"), HasSubstr("'no fuse'"));
  EXPECT_THAT(refusal("without"), HasSubstr("steps"));
  EXPECT_THAT(refusal("without dreams"), HasSubstr("names of steps"));
  EXPECT_THAT(refusal("without hoist fuse"), HasSubstr("in the order"));
  EXPECT_THAT(refusal("without fuse fuse"), HasSubstr("each once"));
  EXPECT_THAT(refusal("terms 0"), HasSubstr("from 1"));
  EXPECT_THAT(refusal("part_bytes -1"), HasSubstr("from 1"));
  EXPECT_THAT(refusal("pack a;"), HasSubstr("factor"));
  EXPECT_THAT(refusal("pack a; "), HasSubstr("'' is no choice"));
}

// W3, bad input: choices that no schedule could use are refused by name
TEST(ChoicesTextTest, UselessOnesAreRefused) {
  const Target target = with_isa(Target{}, Isa::avx2);
  const auto refusal = [&](const ScheduleChoices& choices) {
    return std::string(failure([&] { check_choices(choices, target); }).message());
  };
  EXPECT_THAT(refusal({.tile = ScheduleChoices::Tile{14, 1}}), "");
  EXPECT_THAT(refusal({.tile = ScheduleChoices::Tile{15, 1}}), HasSubstr("15 registers"));
  EXPECT_THAT(refusal({.tile = ScheduleChoices::Tile{0, 1}}), HasSubstr("0 rows of 1 vectors"));
  EXPECT_THAT(refusal({.tile = ScheduleChoices::Tile{1, std::int64_t{1} << 62}}),
              HasSubstr("15 registers"));
  EXPECT_THAT(refusal({.terms = -1}), HasSubstr("ScheduleChoices::terms is -1"));
  EXPECT_THAT(refusal({.lines_fetched = 65}),
              HasSubstr("ScheduleChoices::lines_fetched is 65 (expected 1 to 64)"));
  EXPECT_THAT(refusal({.part_bytes = 0}), HasSubstr("part_bytes is 0"));
}

// W3: each constant that can be chosen takes the place of the profile's
TEST(ChoicesTextTest, ConstantsReplaceTheProfile) {
  const KernelProfile made = with_choices(Target{}, all_choices()).profile;
  EXPECT_EQ(made, (KernelProfile{32, 2, 16, 64, 2, 64, 1 << 20, 4096}));
  EXPECT_EQ(with_choices(Target{}, {}).profile, KernelProfile());
}

// W3: written and read, a report is the same
TEST(TunedFileTest, TextIsReadBack) {
  const std::string text = to_text(some_schedule(), someone());
  EXPECT_EQ(wrong_with(text), "");
  const auto read = std::get<TunedSchedule>(parse_tuned(text, someone()));
  EXPECT_EQ(read.candidates, some_schedule().candidates);
  EXPECT_EQ(read.best, 1u);
  EXPECT_FALSE(read.measured);
  EXPECT_EQ(summed(text.substr(0, text.rfind("sum "))), text);
}

// W3, bad input: what is damaged anywhere is not used
TEST(TunedFileTest, DamageIsFound) {
  const std::string text = to_text(some_schedule(), someone());
  for (std::size_t k = 0; k < text.size(); ++k) {
    std::string damaged = text;
    damaged[k] = static_cast<char>(damaged[k] ^ 1);
    EXPECT_NE(wrong_with(damaged), "") << damaged;
    EXPECT_NE(wrong_with(text.substr(0, k)), "") << k;
  }
  EXPECT_THAT(wrong_with(text + "\n"), HasSubstr("damaged"));
  EXPECT_THAT(wrong_with(""), HasSubstr("does not begin as a tuning file"));
}

// W3, bad input: and what is no report, though its checksum is right
TEST(TunedFileTest, OtherLinesAreRefused) {
  const std::string text = to_text(some_schedule(), someone());
  const std::string lines = text.substr(0, text.rfind("sum "));
  const auto with = [&lines](const std::string& from, const std::string& to) {
    std::string changed = lines;
    EXPECT_NE(changed.find(from), std::string::npos) << from;
    changed.replace(changed.find(from), from.size(), to);
    return wrong_with(summed(changed));
  };
  EXPECT_THAT(with("best 1", "best 3"), HasSubstr("lacks its best"));
  EXPECT_THAT(with("best 1", "best x"), HasSubstr("best: expected a number"));
  EXPECT_THAT(with("measured other 7", "measured other -7"), HasSubstr("candidate 1"));
  EXPECT_THAT(with("measured other 7", "measured both 7"), HasSubstr("candidate 1"));
  EXPECT_THAT(with("measured other 7", "loved other 7"), HasSubstr("candidate 1"));
  EXPECT_THAT(with("0.81", "inf"), HasSubstr("candidate 1"));
  EXPECT_THAT(with("0.81", "-0.81"), HasSubstr("candidate 1"));
  EXPECT_THAT(with("tile 6x2", "tile 6y2"), HasSubstr("candidate 1"));
  EXPECT_THAT(with("terms all\n", "terms all\nmore 1\n"), HasSubstr("too many lines"));
  EXPECT_THAT(with("heddle-tuned 1", "heddle-tuned 2"),
              HasSubstr("another version's (format 2, expected 1)"));
  EXPECT_THAT(with("\nheddle ", "\nheddle 9"), HasSubstr("another version's (heddle 9"));
  EXPECT_THAT(wrong_with(text, someone("q")), "it is another program's");
  EXPECT_THAT(wrong_with(text, someone("p", "n")), "it is another machine's");
}

// W3: kept in the folder of the cache, which is made; found again for the same program and machine
// alone
TEST(TunedFileTest, IsKeptPerProgramAndMachine) {
  const TempDirectory place;
  const fs::path folder = place.path() / "below" / "cache";
  const KnownTuned before = known_tuned(folder, someone());
  EXPECT_FALSE(before.report);
  EXPECT_EQ(before.problem, "");
  const fs::path file = keep_tuned(folder, some_schedule(), someone());
  EXPECT_EQ(file, before.file);
  const KnownTuned after = known_tuned(folder, someone());
  ASSERT_TRUE(after.report) << after.problem;
  EXPECT_EQ(after.report->candidates, some_schedule().candidates);
  EXPECT_EQ(after.report->file, file.string());
  for (const TunedFor& other : {someone("q"), someone("p", "n")}) {
    const KnownTuned none = known_tuned(folder, other);
    EXPECT_FALSE(none.report);
    EXPECT_NE(none.file, file);
    fs::copy_file(file, none.file);
    EXPECT_THAT(known_tuned(folder, other).problem, HasSubstr("it is another "));
  }
  TunedSchedule next = some_schedule();
  next.best = 0;
  EXPECT_EQ(keep_tuned(folder, next, someone()), file);
  EXPECT_EQ(known_tuned(folder, someone()).report->best, 0u);
}

// W3: a folder does not grow without end: those that were read or written last stay
TEST(TunedFileTest, TheLeastRecentlyUsedGo) {
  const TempDirectory place;
  const fs::path& folder = place.path();
  fs::permissions(folder, fs::perms::owner_all);
  const fs::path used = keep_tuned(folder, some_schedule(), someone("used"));
  const fs::path unused = keep_tuned(folder, some_schedule(), someone("unused"));
  const auto long_ago = fs::file_time_type::clock::now() - std::chrono::hours(1000);
  fs::last_write_time(used, long_ago - std::chrono::hours(1));
  fs::last_write_time(unused, long_ago);
  EXPECT_TRUE(known_tuned(folder, someone("used")).report);
  std::ofstream(folder / "machine-0") << "stays";
  for (std::size_t k = 2; k < tuned_files_max; ++k)
    std::ofstream(folder / ("tuned-" + std::to_string(k))) << k;
  static_cast<void>(keep_tuned(folder, some_schedule(), someone("new")));
  EXPECT_TRUE(fs::exists(used));
  EXPECT_FALSE(fs::exists(unused));
  EXPECT_EQ(forget_tuned(folder), tuned_files_max);
  EXPECT_TRUE(fs::exists(folder / "machine-0"));
  EXPECT_EQ(forget_tuned(folder), 0u);
  EXPECT_EQ(forget_tuned(folder / "missing"), 0u);
}

// W3, bad input: files that are not to be trusted, or hold too much, are not used; nor is there
// anything where the cache is off
TEST(TunedFileTest, WhatCannotBeUsedIsSaid) {
  const TempDirectory place;
  const fs::path folder = place.path() / "cache";
  const fs::path file = keep_tuned(folder, some_schedule(), someone());
  const auto problem = [&] {
    const KnownTuned known = known_tuned(folder, someone());
    EXPECT_FALSE(known.report);
    return known.problem;
  };
  chmod(file.c_str(), 0666);
  EXPECT_THAT(problem(), HasSubstr("others may write it"));
  chmod(file.c_str(), 0600);
  chmod(folder.c_str(), 0777);
  EXPECT_THAT(problem(), HasSubstr("others may write it"));
  const Status status =
      failure([&] { static_cast<void>(keep_tuned(folder, some_schedule(), someone())); });
  EXPECT_EQ(status.code(), ErrorCode::unavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("what was tuned cannot be kept in '" + folder.string()));
  chmod(folder.c_str(), 0700);
  std::ofstream(file, std::ios::app) << std::string((1 << 20) + 1, ' ');
  EXPECT_THAT(problem(), HasSubstr("damaged (more than 1048576 bytes)"));
  fs::resize_file(file, 0);
  EXPECT_THAT(problem(), HasSubstr("damaged"));
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_THAT(problem(), HasSubstr("no plain file"));
  EXPECT_TRUE(known_tuned({}, someone()).file.empty());
}

}  // namespace
}  // namespace heddle::jit
