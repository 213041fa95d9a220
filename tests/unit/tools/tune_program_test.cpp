// `heddle tune FILE`, and what `heddle explain` says of what was tuned, as people and scripts meet
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "jit/lower/lower.hpp"
#include "jit/tune/candidates.hpp"
#include "jit/vector/target.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/temp_directory.hpp"
#include "tests/unit/tools/run_program.hpp"
#include "tools/explain/program_file.hpp"
#include "tools/tune_program.hpp"

namespace heddle::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::Environment;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::run_heddle;

/// A cache directory of the test's own, and a program of few candidates.
class TuneProgramTest : public ::testing::Test {
 protected:
  TuneProgramTest() {
    std::ofstream(file_) << "tensor x f32[64, 96]\ntensor y f32[96, 64]\n"
                            "y(i, j) = x(j, i) * 2\n";
  }
  [[nodiscard]] Outcome heddle(const std::vector<std::string>& arguments,
                               const Environment& more = {}) const {
    Environment environment{{"HEDDLE_CACHE", "on"}, {"HEDDLE_CACHE_DIR", folder_.string()}};
    environment.insert(environment.end(), more.begin(), more.end());
    return run_heddle(arguments, environment);
  }
  [[nodiscard]] Outcome tune(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"tune", file_.string()});
    return heddle(more);
  }

  const TempDirectory directory_;
  const fs::path folder_ = directory_.path() / "cache";
  const fs::path file_ = directory_.path() / "turned.heddle";
};

// W3: the table of candidates is told, and kept; explain shows it, in a process of its own
TEST_F(TuneProgramTest, TellsAndKeepsTheTable) {
  EXPECT_THAT(heddle({"explain", file_.string()}).out, Not(HasSubstr("== tuned")));
  const Outcome outcome = tune({"--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["kept"], true);
  ASSERT_GE(json["candidates"].size(), 1u);
  EXPECT_EQ(json["candidates"][0]["choices"], "as modelled");
  EXPECT_EQ(json["candidates"][0]["same_order"], true);
  const auto& best = json["candidates"][json["best"].get<std::size_t>()];
  EXPECT_EQ(best["choices"], json["choices"]);
  EXPECT_TRUE(fs::exists(json["file"].get<std::string>()));
  const Outcome explained = heddle({"explain", file_.string()});
  EXPECT_THAT(explained.out,
              AllOf(HasSubstr("== tuned, as kept in " + json["file"].get<std::string>()),
                    HasSubstr("* " + json["choices"].get<std::string>()), HasSubstr("taken")));
  EXPECT_THAT(tune().out, HasSubstr("kept in " + folder_.string()));
}

// W3: a process that asks to measure takes what another one kept, and measures nothing
TEST_F(TuneProgramTest, ASecondProcessMeasuresNothing) {
  const Environment measure{{"HEDDLE_TUNE", "measure"}};
  EXPECT_THAT(heddle({"explain", file_.string()}, measure).out, HasSubstr("== tuned"));
  std::vector<fs::path> files;
  for (const auto& each : fs::directory_iterator(folder_)) {
    if (each.path().filename().string().starts_with("tuned-")) files.push_back(each.path());
  }
  ASSERT_EQ(files.size(), 1u);
  std::ifstream in(files[0]);
  const std::string before(std::istreambuf_iterator<char>(in), {});
  // Reading it marks it as used; writing would put another file in its place.
  const fs::path same = folder_ / "same";
  fs::create_hard_link(files[0], same);
  EXPECT_EQ(heddle({"explain", file_.string()}, measure).exit_code, 0);
  EXPECT_TRUE(fs::equivalent(files[0], same));
  std::ifstream again(files[0]);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(again), {}), before);
}

// W3: all candidates are measured as often as the best, where that is asked for
TEST_F(TuneProgramTest, ExhaustiveMeasuresAll) {
  std::ofstream(file_) << "tensor x i32[64, 96]\ntensor y i32[64]\ntensor z i32[64, 96]\n"
                          "y(i) += x(i, k)\nz(i, k) = x(i, k) * y(i)\n";
  const auto json = nlohmann::json::parse(tune({"--exhaustive", "--json", "--budget", "60"}).out);
  ASSERT_GE(json["candidates"].size(), 2u);
  for (const auto& each : json["candidates"]) EXPECT_EQ(each["verdict"], "measured") << each;
}

// W3, bad input: misuse is told as such; what cannot be kept, or measured in time, exits with 1
TEST_F(TuneProgramTest, BadInputIsTold) {
  EXPECT_EQ(heddle({"tune", "--budget", "3"}).exit_code, 2);
  for (const char* const budget : {"0", "-1", "1e7", "inf", "nan", "x", "3s"}) {
    const Outcome wrong = tune({"--budget", budget});
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_THAT(wrong.err, HasSubstr(std::string("--budget: '") + budget +
                                     "' (expected a number of seconds from 1e-9 to 1e6)"));
  }
  EXPECT_EQ(tune({"--machine"}).exit_code, 2);
  const Outcome nothing = heddle({"tune", (directory_.path() / "none").string()});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_THAT(nothing.err, HasSubstr("cannot be read"));
  EXPECT_EQ(heddle({"tune", "--backend", "cuda", file_.string()},
                   {{"HEDDLE_CUDA_DRIVER", "/nowhere/libcuda.so"}})
                .exit_code,
            3);
  const Outcome hasty = tune({"--budget", "1e-9"});
  EXPECT_EQ(hasty.exit_code, 1);
  EXPECT_THAT(hasty.out,
              AllOf(HasSubstr("too short to measure a candidate"), HasSubstr("--budget")));
  const Outcome off = heddle({"tune", file_.string()}, {{"HEDDLE_CACHE", "off"}});
  EXPECT_EQ(off.exit_code, 1);
  EXPECT_THAT(off.out, HasSubstr("not kept: there is no folder to keep it in"));
  const Outcome word = heddle({"info"}, {{"HEDDLE_TUNE", "sometimes"}});
  EXPECT_EQ(word.exit_code, 2);
  EXPECT_THAT(word.err, AllOf(HasSubstr("HEDDLE_TUNE='sometimes'"), HasSubstr("kept or measure")));
}

// W3: programs that show what tuning gains are read, and have other schedules near the model's
TEST(TunedProgramsTest, HaveCandidates) {
  std::size_t programs = 0;
  for (const auto& each : fs::directory_iterator(fs::path(test::source_root) / "tests/tuned")) {
    if (each.path().extension() != ".heddle") continue;
    ++programs;
    std::ifstream in(each.path());
    const std::string text(std::istreambuf_iterator<char>(in), {});
    const Program program = parse_program(each.path().string(), text);
    if (test::slower > 1) continue;  // their candidates take long there, and others' are looked at
    const auto found = jit::list_candidates(jit::optimize(jit::lower(program)),
                                            jit::with_isa(jit::Target{}, jit::Isa::avx512), {}, {});
    EXPECT_GE(found.size(), 2u) << each.path();
  }
  EXPECT_EQ(programs, 5u);
}

// W3: lines say what became of each candidate
TEST(TunedTableTest, SaysWhatBecameOfEach) {
  TunedSchedule tuned;
  tuned.candidates = {{.estimated_us = 10,
                       .verdict = TuneVerdict::measured,
                       .rounds = 9,
                       .median_us = 12,
                       .ratio = 1},
                      {.choices = {.pack_a = true},
                       .same_order = false,
                       .estimated_us = 11,
                       .verdict = TuneVerdict::measured,
                       .rounds = 9,
                       .median_us = 6,
                       .ratio = 0.5},
                      {.choices = {.pack_b = true}, .verdict = TuneVerdict::different}};
  tuned.best = 1;
  const std::string table = tuned_table(tuned, false);
  EXPECT_THAT(table, HasSubstr("\n  as modelled       10.0 us       12.0 us   1.000       9  "
                               "measured\n"));
  EXPECT_THAT(table, HasSubstr("\n* pack a            11.0 us        6.0 us   0.500       9  "
                               "taken, sums in another order\n"));
  EXPECT_THAT(table, HasSubstr("  different\n"));
}

}  // namespace
}  // namespace heddle::tools
