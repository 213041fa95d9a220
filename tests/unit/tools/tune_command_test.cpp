// `heddle tune --machine`, and what `heddle info` says of the machine, as people and scripts meet
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "jit/machine/profile_file.hpp"
#include "tests/support/temp_directory.hpp"
#include "tests/unit/tools/run_program.hpp"
#include "tools/tune.hpp"

namespace heddle::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::run_heddle;

/// A cache directory of the test's own.
class TuneCommandTest : public ::testing::Test {
 protected:
  [[nodiscard]] Outcome heddle(const std::vector<std::string>& arguments,
                               const std::string& cache = "on") const {
    return run_heddle(arguments, {{"HEDDLE_CACHE", cache}, {"HEDDLE_CACHE_DIR", folder_.string()}});
  }
  [[nodiscard]] nlohmann::json machine(const std::string& cache = "on") const {
    const Outcome outcome = heddle({"info", "--json"}, cache);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out)["machine"];
  }
  /// Each value measured as 40, but one that is so far from it in one repetition.
  static jit::MeasuredMachine measured(double other) {
    jit::MeasuredMachine machine;
    for (const jit::MachineValue& each : jit::machine_values)
      machine.values.push_back(
          {&each, {40, 40, each.value == &MachineProfile::part_ns ? other : 40}});
    return machine;
  }

  const TempDirectory directory_;
  const fs::path folder_ = directory_.path() / "cache";
};

// W2: what agrees is kept, and said; what does not leaves nothing, and is named
TEST_F(TuneCommandTest, KeepsWhatAgreesAlone) {
  const TuneReport apart = keep_if_it_agrees(measured(50), folder_, false, false);
  EXPECT_FALSE(apart.ok);
  EXPECT_THAT(apart.text, HasSubstr("not kept: repetitions of part_ns are more than 20 % apart"));
  EXPECT_FALSE(fs::exists(folder_));
  const auto told =
      nlohmann::json::parse(keep_if_it_agrees(measured(50), folder_, true, false).text);
  EXPECT_EQ(told["kept"], false);
  EXPECT_EQ(told["values"]["part_ns"]["agrees"], false);
  EXPECT_EQ(told["values"]["l3_copy_mb_s"]["agrees"], true);
  const TuneReport kept = keep_if_it_agrees(measured(44), folder_, false, false);
  EXPECT_TRUE(kept.ok);
  EXPECT_THAT(kept.text, AllOf(HasSubstr("kept in " + folder_.string()), HasSubstr("part_ns")));
  EXPECT_EQ(machine()["values"]["part_ns"], 40);
  const auto json =
      nlohmann::json::parse(keep_if_it_agrees(measured(41), folder_, true, false).text);
  EXPECT_EQ(json["file"], machine()["file"]);
}

// W2: it takes less than 5 s, and its exit code says whether the profile was kept
TEST_F(TuneCommandTest, MeasuresThisMachine) {
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = heddle({"tune", "--machine", "--json"});
  const auto took = std::chrono::steady_clock::now() - begin;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(outcome.exit_code, json["kept"] == true ? 0 : 1) << outcome.err;
  EXPECT_EQ(machine()["measured"], json["kept"]);
  for (const jit::MachineValue& each : jit::machine_values)
    EXPECT_TRUE(json["values"].contains(each.name)) << each.name;
  EXPECT_LT(took, std::chrono::seconds(20)) << "others may run beside it, instrumented";
}

// W2: info says what is in use, where it is from, and what follows from it
TEST_F(TuneCommandTest, InfoTellsTheProfileInUse) {
  EXPECT_EQ(machine()["measured"], false);
  EXPECT_THAT(heddle({"info"}).out, HasSubstr("usual      heddle tune --machine measures"));
  EXPECT_EQ(machine()["kernels"]["part_bytes"], 128 << 10);
  MachineProfile slow;
  slow.part_ns = 1'920;
  const fs::path file = jit::keep_machine(folder_, slow);
  EXPECT_EQ(machine()["measured"], true);
  EXPECT_EQ(machine()["file"], file.string());
  EXPECT_EQ(machine()["values"]["part_ns"], 1'920);
  EXPECT_EQ(machine()["kernels"]["part_bytes"], 1 << 20);
  EXPECT_THAT(heddle({"info"}).out,
              AllOf(HasSubstr("measured   " + file.string()), HasSubstr("parts of 1024 KiB")));
  EXPECT_EQ(machine("off")["measured"], false);
  EXPECT_THAT(heddle({"info"}, "off").out, HasSubstr("there is no kernel cache"));
  std::ofstream(file, std::ios::app) << "more";
  EXPECT_THAT(heddle({"info"}).out, HasSubstr("is not used: it is damaged"));
  EXPECT_THAT(machine()["problem"].get<std::string>(), HasSubstr("damaged"));
}

// W2, bad input: nothing is measured that could not be kept
TEST_F(TuneCommandTest, MisuseIsTold) {
  EXPECT_EQ(heddle({"tune"}).exit_code, 2);
  EXPECT_THAT(heddle({"tune"}).err, AllOf(HasSubstr("FILE"), HasSubstr("--machine")));
  const Outcome off = heddle({"tune", "--machine"}, "off");
  EXPECT_EQ(off.exit_code, 1);
  EXPECT_THAT(off.err, AllOf(HasSubstr("HEDDLE_CACHE"), Not(HasSubstr("terminate"))));
}

}  // namespace
}  // namespace heddle::tools
