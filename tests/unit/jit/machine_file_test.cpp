// The file of a machine profile: kept once, read strictly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>

#include "heddle/status.hpp"
#include "jit/machine/profile.hpp"
#include "jit/machine/profile_file.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle::jit {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

MachineProfile odd_profile() {
  MachineProfile profile;
  std::int64_t value = 11;
  for (const MachineValue& each : machine_values) profile.*each.value = value++;
  return profile;
}

/// What is wrong with a text; empty: nothing.
std::string problem_of(const std::string& text, std::string_view processor = "some") {
  const auto parsed = parse_machine(text, processor);
  const auto* const problem = std::get_if<std::string>(&parsed);
  return problem != nullptr ? *problem : "";
}

/// A text of these lines, with the checksum that belongs to it.
std::string with_sum(std::string text) {
  char sum[32];
  snprintf(sum, sizeof sum, "sum %016llx\n",
           static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return text + sum;
}

/// The lines before the checksum.
std::string lines_of(const MachineProfile& profile) {
  const std::string text = to_text(profile, "some");
  return text.substr(0, text.rfind("sum "));
}

// W2: written and read, a profile is the same
TEST(MachineFileTest, TextIsReadBack) {
  const std::string text = to_text(odd_profile(), "some");
  EXPECT_EQ(problem_of(text), "");
  EXPECT_EQ(std::get<MachineProfile>(parse_machine(text, "some")), odd_profile());
  EXPECT_EQ(with_sum(lines_of(odd_profile())), text);
}

// W2, bad input: what is damaged anywhere is not used
TEST(MachineFileTest, DamageIsFound) {
  const std::string text = to_text(odd_profile(), "some");
  for (std::size_t k = 0; k < text.size(); ++k) {
    std::string damaged = text;
    damaged[k] = static_cast<char>(damaged[k] ^ 1);
    EXPECT_NE(problem_of(damaged), "") << damaged;
    EXPECT_NE(problem_of(text.substr(0, k)), "") << k;
  }
  EXPECT_THAT(problem_of(text + "\n"), HasSubstr("damaged"));
  EXPECT_THAT(problem_of(""), HasSubstr("does not begin as a machine profile"));
}

// W2, bad input: and what is no profile, though its checksum is right
TEST(MachineFileTest, OtherLinesAreRefused) {
  const std::string lines = lines_of(odd_profile());
  const auto with = [&lines](const std::string& from, const std::string& to) {
    std::string changed = lines;
    changed.replace(changed.find(from), from.size(), to);
    return problem_of(with_sum(changed));
  };
  EXPECT_THAT(with("part_ns 18", "part_ns 0"), HasSubstr("part_ns: expected a number from 1"));
  EXPECT_THAT(with("part_ns 18", "part_ns 1000000001"), HasSubstr("part_ns"));
  EXPECT_THAT(with("part_ns 18", "part_ns 18 "), HasSubstr("part_ns"));
  EXPECT_THAT(with("part_ns 18\n", ""), HasSubstr("part_ns"));
  EXPECT_THAT(with("part_ns 18\n", "part_ns 18\nmore 1\n"), HasSubstr("too many lines"));
  EXPECT_THAT(with("part_ns 18\n", "part_ns 18\nsum 1\n"), HasSubstr("too many lines"));
  EXPECT_THAT(with("heddle-machine 1", "heddle-machine 2"),
              HasSubstr("another version's (format 2, expected 1)"));
}

// W2: kept in the folder of the cache, which is made; found again, by the same processor alone
TEST(MachineFileTest, IsKeptPerProcessor) {
  const TempDirectory place;
  const fs::path folder = place.path() / "below" / "cache";
  const KnownMachine before = known_machine(folder, "some");
  EXPECT_FALSE(before.measured);
  EXPECT_EQ(before.problem, "");
  EXPECT_EQ(before.profile, usual_profile(native_target().isa));
  const fs::path file = keep_machine(folder, odd_profile(), "some");
  EXPECT_EQ(file, before.file);
  const KnownMachine after = known_machine(folder, "some");
  EXPECT_TRUE(after.measured);
  EXPECT_EQ(after.profile, odd_profile());
  const KnownMachine other = known_machine(folder, "other");
  EXPECT_FALSE(other.measured);
  EXPECT_NE(other.file, file);
  fs::copy_file(file, other.file);
  EXPECT_THAT(known_machine(folder, "other").problem, HasSubstr("another processor's"));
  MachineProfile next = odd_profile();
  next.part_ns = 99;
  EXPECT_EQ(keep_machine(folder, next, "some"), file);
  EXPECT_EQ(known_machine(folder, "some").profile, next);
}

// W2, bad input: files that are not to be trusted, or hold too much, are not used; nor is there
// anything where the cache is off
TEST(MachineFileTest, WhatCannotBeUsedIsSaid) {
  const TempDirectory place;
  const fs::path folder = place.path() / "cache";
  const fs::path file = keep_machine(folder, odd_profile(), "some");
  const auto problem = [&] {
    const KnownMachine known = known_machine(folder, "some");
    EXPECT_FALSE(known.measured);
    EXPECT_EQ(known.profile, usual_profile(native_target().isa));
    return known.problem;
  };
  chmod(file.c_str(), 0666);
  EXPECT_THAT(problem(), HasSubstr("others may write it"));
  chmod(file.c_str(), 0600);
  chmod(folder.c_str(), 0777);
  EXPECT_THAT(problem(), HasSubstr("others may write it"));
  EXPECT_THROW(keep_machine(folder, odd_profile(), "some"), Error);
  chmod(folder.c_str(), 0700);
  std::ofstream(file, std::ios::app) << std::string(5000, ' ');
  EXPECT_THAT(problem(), HasSubstr("damaged (more than 4096 bytes)"));
  fs::resize_file(file, 0);
  EXPECT_THAT(problem(), HasSubstr("damaged"));
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_THAT(problem(), HasSubstr("no plain file"));
  const KnownMachine none = known_machine({}, "some");
  EXPECT_FALSE(none.measured);
  EXPECT_TRUE(none.file.empty());
}

// W2, bad input: where nothing can be kept, the folder and the reason are named
TEST(MachineFileTest, FoldersThatTakeNothingAreNamed) {
  const TempDirectory place;
  std::ofstream(place.path() / "file") << "no folder";
  const fs::path folder = place.path() / "file" / "cache";
  try {
    static_cast<void>(keep_machine(folder, odd_profile(), "some"));
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.status().code(), ErrorCode::unavailable);
    EXPECT_THAT(e.what(), HasSubstr("machine profile cannot be kept in '" + folder.string()));
  }
}

}  // namespace
}  // namespace heddle::jit
