// `heddle stress` as people and scripts meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/support/paths.hpp"
#include "tests/support/temp_directory.hpp"
#include "tests/unit/tools/run_program.hpp"

namespace heddle::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Outcome;
using testing::run_heddle;
using ::testing::StartsWith;
using Track = std::pair<int, std::uint64_t>;

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

// S17: the trace of a stress run opens in a trace viewer: named tracks, spans that nest, arrows
// that arrive where they were sent
TEST(StressCommandTest, PrintsItsSeedAndASummaryAndTraces) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("heddle-stress-" + std::to_string(::getpid()) + ".json");
  const Outcome outcome =
      run_heddle({"stress", "--seconds", "1", "--seed", "3", "--trace", path.string()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(StartsWith("seed 3\n"), HasSubstr("tasks/s"), HasSubstr("rounds"),
                                 HasSubstr("skipped")));
  const nlohmann::json json = read_json(path);
  std::filesystem::remove(path);
  std::set<Track> named;
  std::map<Track, std::vector<std::pair<double, double>>> spans;  // begin, minus the duration
  std::set<std::uint64_t> sent, arrived;
  for (const auto& item : json["traceEvents"]) {
    const std::string phase = item["ph"];
    if (item.contains("name") && item["name"] == "thread_name")
      named.emplace(item["pid"], item["tid"]);
    if (phase == "X")
      spans[{item["pid"], item["tid"]}].emplace_back(item["ts"], -item["dur"].get<double>());
    if (phase == "s") sent.insert(item["id"].get<std::uint64_t>());
    if (phase == "f") arrived.insert(item["id"].get<std::uint64_t>());
  }
  EXPECT_FALSE(spans.empty());
  constexpr double rounding = 0.0015;  // microseconds; the file has three digits
  for (auto& [track, all] : spans) {
    EXPECT_TRUE(named.contains(track));
    std::ranges::sort(all);
    std::vector<double> open;
    for (const auto& [begin, minus_duration] : all) {
      while (!open.empty() && open.back() <= begin + rounding) open.pop_back();
      const double end = begin - minus_duration;
      if (!open.empty()) {
        EXPECT_LE(end, open.back() + rounding);
      }
      open.push_back(end);
    }
  }
  EXPECT_FALSE(arrived.empty());
  EXPECT_TRUE(std::ranges::includes(sent, arrived));
}

// S18
TEST(StressCommandTest, SimulatesAndReplays) {
  const Outcome sims = run_heddle({"stress", "--sim", "200", "--seed", "40"});
  EXPECT_EQ(sims.exit_code, 0) << sims.err;
  EXPECT_THAT(sims.out, AllOf(StartsWith("seed 40\n"), HasSubstr("200 seeds (10 of them twice)"),
                              HasSubstr("task_throws")));
  const Outcome once = run_heddle({"stress", "--replay", "41"});
  EXPECT_EQ(once.exit_code, 0) << once.err;
  EXPECT_THAT(once.out, AllOf(HasSubstr("step 1, "), HasSubstr("seed 41: "), HasSubstr("hash ")));
  EXPECT_EQ(run_heddle({"stress", "--replay", "41"}).out, once.out);
}

// S18: the tensor runtime, and what brings one seed of it again
TEST(StressCommandTest, SimulatesAndReplaysTheRuntime) {
  const Outcome sims = run_heddle({"stress", "--sim", "100", "--seed", "40", "--runtime"});
  EXPECT_EQ(sims.exit_code, 0) << sims.err;
  EXPECT_THAT(sims.out, AllOf(StartsWith("seed 40\n"), HasSubstr("100 seeds (5 of them twice)"),
                              HasSubstr("values compared"), HasSubstr("donations")));
  const Outcome once = run_heddle({"stress", "--replay", "42", "--runtime"});
  EXPECT_EQ(once.exit_code, 0) << once.err;
  EXPECT_THAT(once.out, AllOf(HasSubstr("step 1, "), HasSubstr(" on played:"),
                              HasSubstr("seed 42: "), HasSubstr("hash ")));
  EXPECT_EQ(run_heddle({"stress", "--replay", "42", "--runtime"}).out, once.out);
}

// D10: 10,000 schedules and transfers of threads, what they came to, and how memory grew
TEST(StressCommandTest, RunsTheRuntimeOnThreads) {
  const Outcome outcome = run_heddle({"stress", "--runtime", "--backend", "cc", "--seed", "6",
                                      "--hosts", "3", "--seconds", "0", "--works", "10000"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(StartsWith("seed 6, backend cc\n"), HasSubstr("works accepted"),
                                 HasSubstr("replays"), HasSubstr("resident: ")));
  const auto at = outcome.out.find(" works accepted");
  const auto line = outcome.out.rfind('\n', at) + 1;
  EXPECT_GE(std::stoull(outcome.out.substr(line, at - line)), 10000u);
  EXPECT_EQ(run_heddle({"stress", "--runtime", "--backend", "loom"}).exit_code, 3);
}

// S19, D1: kernels in parts, with the bits of width 1, while devices are opened on the processors
// that help, and processors leave the masks of the threads and come back
TEST(StressCommandTest, RunsWideDevicesWhileProcessorsComeAndGo) {
  const Outcome outcome = run_heddle({"stress", "--runtime", "--wide", "--backend", "cc", "--seed",
                                      "7", "--seconds", "0", "--works", "300"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith("seed 7, backend cc\n"), HasSubstr(" parts"),
                    Not(HasSubstr(" 0 parts")), HasSubstr(" devices opened"),
                    Not(HasSubstr(" 0 devices opened")), HasSubstr(" masks made smaller")));
  const auto at = outcome.out.find(" results compared");
  const auto line = outcome.out.rfind('\n', at) + 1;
  EXPECT_GE(std::stoull(outcome.out.substr(line, at - line)), 300u);
  EXPECT_EQ(run_heddle({"stress", "--wide"}).exit_code, 2) << "it is --runtime's";
}

TEST(StressCommandTest, MisuseExitsWithTwo) {
  const auto expect_misuse = [](const std::vector<std::string>& arguments, const char* word) {
    const Outcome outcome = run_heddle(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(word));
    EXPECT_THAT(outcome.out, IsEmpty());
  };
  expect_misuse({"stress", "--seconds", "-1"}, "seconds");
  expect_misuse({"stress", "--seed", "soon"}, "seed");
  expect_misuse({"stress", "--sim", "0"}, "sim");
  expect_misuse({"stress", "--sim", "5", "--trace", "x.json"}, "trace");
  expect_misuse({"stress", "--replay", "5", "--seed", "1"}, "seed");
  expect_misuse({"stress", "--runtime", "--trace", "x.json"}, "trace");
  expect_misuse({"stress", "--hosts", "2"}, "runtime");
  expect_misuse({"stress", "--runtime", "--sim", "5", "--devices", "2"}, "devices");
  expect_misuse({"stress", "--runtime", "--devices", "0"}, "devices");
  expect_misuse({"stress", "--trace", ""}, "trace");
  expect_misuse({"stress", "--seconds", "1", "--trace", "/dev/null/nowhere/trace.json"},
                "/dev/null/nowhere");
}

// Too few descriptors or too little memory end it with a message, threads joined
TEST(StressCommandTest, SmallLimitsEndItWithAnError) {
  std::vector<std::string> limits;
  for (const int descriptors : {3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 64})
    limits.push_back("-n " + std::to_string(descriptors));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve terabytes
  for (int mib = 8; mib <= 2048; mib += mib / 2)
    limits.push_back("-v " + std::to_string(mib << 10));
#endif
  const TempDirectory folder;
  const std::string err = (folder.path() / "err").string();
  for (const std::string& limit : limits) {
    // A shell that redirects one command alone needs descriptors itself.
    const std::string command = "exec > /dev/null 2> " + err + "; ulimit " + limit + "; exec " +
                                test::heddle_program + " stress --seconds 1 --seed 5";
    const int status = std::system(command.c_str());
    ASSERT_TRUE(WIFEXITED(status)) << limit;
    std::ifstream file(err);
    const std::string said((std::istreambuf_iterator<char>(file)), {});
    const int code = WEXITSTATUS(status);  // 127: the loader itself had too little
    EXPECT_TRUE(code == 0 || code == 1 || code == 127) << limit << ": " << code << "\n" << said;
    EXPECT_EQ(said.empty(), code == 0) << limit << "\n" << said;
    EXPECT_THAT(said, Not(HasSubstr("terminate"))) << limit;
  }
}

TEST(StressCommandTest, GoesOnUntilInterrupted) {
  const std::string command = std::string("timeout --preserve-status --signal=INT 1 ") +
                              test::heddle_program + " stress --seconds 0 > /dev/null";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace heddle::tools
