// The heddle program as people and scripts meet it: output, exit codes, messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

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
using testing::run_heddle_in_terminal;
using ::testing::StartsWith;

/// One message on stderr, in words, and nothing on stdout.
void expect_message(const Outcome& outcome, int exit_code, const std::string& part) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(part), Not(HasSubstr("terminate"))));
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST(CommandTest, SaysItsVersion) {
  const Outcome outcome = run_heddle({"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, StartsWith("heddle 0."));
}

TEST(CommandTest, HelpIsNoFailure) {
  const Outcome outcome = run_heddle({"demo", "digits", "--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("--devices"), HasSubstr("--seed")));
}

TEST(CommandTest, MisuseExitsWithTwo) {
  expect_message(run_heddle({}), 2, "which command?");
  expect_message(run_heddle({"demo"}), 2, "digits");
  expect_message(run_heddle({"weave"}), 2, "weave");
  expect_message(run_heddle({"demo", "digits", "--devices", "0"}), 2, "devices");
  expect_message(run_heddle({"demo", "digits", "--epochs", "many"}), 2, "epochs");
}

// Numbers are neither wrapped nor cut: what cannot be taken is refused, with what could
TEST(CommandTest, NumbersOutOfRangeAreMisuse) {
  constexpr const char* range = "a whole number from 0 to 18446744073709551615";
  for (const char* number : {"-1", "18446744073709551616", "1.5", ""}) {
    for (const auto& arguments : {std::vector<std::string>{"stress", "--seed"},
                                  {"stress", "--replay"},
                                  {"demo", "digits", "--seed"},
                                  {"cache", "prune", "--bytes"}}) {
      std::vector<std::string> all = arguments;
      all.emplace_back(number);
      expect_message(run_heddle(all), 2, arguments.back());
      expect_message(run_heddle(all), 2, range);
    }
  }
}

// Output that never arrived is a failure, said on stderr
TEST(CommandTest, OutputThatCannotBeWrittenIsAFailure) {
  const TempDirectory folder;
  const std::string err = folder.path() / "err";
  for (const std::string command :
       {"env", "info", "--version", "--help", "stress --sim 1", "stress --replay 1"}) {
    for (const std::string to : {"> /dev/full", ">&-"}) {
      const std::string line =
          std::string(test::heddle_program) + " " + command + " 2> " + err + " " + to;
      const int status = std::system(line.c_str());
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << line << ": " << status;
      std::ifstream file(err);
      const std::string said((std::istreambuf_iterator<char>(file)), {});
      EXPECT_THAT(said, HasSubstr("output could not be written")) << line;
    }
  }
}

// B1: what exists, what is available, and why the rest is not.
TEST(InfoTest, JsonListsBackendsDevicesAndSettings) {
  const Outcome outcome = run_heddle({"info", "--json"}, {{"HEDDLE_QUEUE_SIZE", "77"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_GE(json["cpu"]["processors"].get<int>(), 1);
  std::set<std::string> names;
  for (const auto& backend : json["backends"]) {
    names.insert(backend["name"]);
    if (backend["available"].get<bool>()) {
      EXPECT_FALSE(backend["devices"].empty()) << backend;
      EXPECT_FALSE(backend["compiler"].get<std::string>().empty()) << backend;
    } else {
      EXPECT_FALSE(backend["reason"].get<std::string>().empty()) << backend;
    }
  }
  for (const std::string name :
       {"cc", "gccjit", "sync_cc", "sync_gccjit", "pooled_cc", "pooled_gccjit"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  bool found = false;
  for (const auto& setting : json["settings"]) {
    if (setting["name"] != "HEDDLE_QUEUE_SIZE") continue;
    found = true;
    EXPECT_EQ(setting["value"], "77");
    EXPECT_EQ(setting["source"], "environment");
  }
  EXPECT_TRUE(found);
}

// B1, B4: an unavailable backend says what is missing; bytes that are no text do not stop it.
TEST(InfoTest, SaysWhyABackendIsMissing) {
  const Outcome outcome = run_heddle(
      {"info", "--json"}, {{"HEDDLE_CC", "/dev/null/nowhere/c\xff"}, {"HEDDLE_BACKEND", "cc"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_TRUE(json["default_backend"].is_null());
  for (const auto& backend : json["backends"]) {
    if (backend["name"] != "cc") continue;
    EXPECT_FALSE(backend["available"].get<bool>());
    EXPECT_THAT(backend["reason"].get<std::string>(), HasSubstr("/dev/null/nowhere/c"));
  }
}

// B1: a compiler that is there but does not work is no backend either, and nothing says it is
TEST(InfoTest, CompilersThatDoNotAnswerAreMarked) {
  const std::vector<std::pair<std::string, std::string>> broken{
      {"HEDDLE_CC", "/bin/false"}, {"HEDDLE_COMPILE_HELPER", "/bin/false"}};
  const Outcome text = run_heddle({"info"}, broken);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  const Outcome outcome = run_heddle({"info", "--json"}, broken);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  int compiling = 0;
  for (const auto& backend : json["backends"]) {
    const auto name = backend["name"].get<std::string>();
    if (!name.ends_with("cc") && !name.ends_with("gccjit")) continue;
    ++compiling;
    EXPECT_FALSE(backend["available"].get<bool>()) << backend;
    EXPECT_THAT(backend["reason"].get<std::string>(),
                AllOf(HasSubstr("/bin/false"), HasSubstr("exit status 1")));
    EXPECT_THAT(text.out, HasSubstr("\u2717 " + name + " "));
    EXPECT_THAT(text.out, Not(HasSubstr("\u2713 " + name + " ")));
  }
  EXPECT_EQ(compiling, 6);
}

TEST(InfoTest, TextForPeople) {
  const Outcome outcome = run_heddle({"info"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Backends"), HasSubstr("sync_cc"),
                                 HasSubstr("HEDDLE_BACKEND"), Not(HasSubstr("\x1b["))));
}

TEST(InfoTest, ColoursInATerminalUnlessTold) {
  const Outcome colourful =
      run_heddle_in_terminal({"env"}, {{"TERM", "xterm"}, {"NO_COLOR", ""}, {"HEDDLE_CC", "gcc"}});
  EXPECT_EQ(colourful.exit_code, 0);
  EXPECT_THAT(colourful.out, AllOf(HasSubstr("HEDDLE_CC"), HasSubstr("\x1b[")));
  const Outcome plain =
      run_heddle_in_terminal({"env"}, {{"TERM", "xterm"}, {"NO_COLOR", "1"}, {"HEDDLE_CC", "gcc"}});
  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_THAT(plain.out, AllOf(HasSubstr("HEDDLE_CC"), Not(HasSubstr("\x1b["))));
}

TEST(EnvTest, ShowsValueAndSource) {
  const Outcome outcome = run_heddle({"env"}, {{"HEDDLE_CFLAGS", "-fno-plt"}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("HEDDLE_CFLAGS"), HasSubstr("-fno-plt"),
                                 HasSubstr("environment"), HasSubstr("default")));
}

TEST(EnvTest, MalformedValueIsMisuse) {
  for (const std::string command : {"env", "info"}) {
    const Outcome outcome = run_heddle({command}, {{"HEDDLE_QUEUE_SIZE", "lots"}});
    expect_message(outcome, 2, "HEDDLE_QUEUE_SIZE='lots'");
  }
}

// Bad input: a misspelt variable would be without effect: one warning, with the nearest name
TEST(EnvTest, MisspeltNameIsToldOnce) {
  const Outcome outcome = run_heddle({"info"}, {{"HEDDLE_BAKCEND", "cc"}});
  EXPECT_EQ(outcome.exit_code, 0);
  const auto at = outcome.err.find("HEDDLE_BAKCEND");
  EXPECT_NE(at, std::string::npos) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("did you mean HEDDLE_BACKEND?"));
  EXPECT_EQ(outcome.err.find("HEDDLE_BAKCEND", at + 1), std::string::npos);
}

// Bad input: what is like no name has all of them told
TEST(EnvTest, StrangeNamesHaveTheNamesTold) {
  const Outcome outcome = run_heddle({"info"}, {{"HEDDLE_NONSENSE", "1"}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("HEDDLE_NONSENSE"), HasSubstr("HEDDLE_SPIN_NS"),
                                 Not(HasSubstr("did you mean"))));
}

// Variables of heddle's tests, which open backends too, are no misspelt ones
// J11, J10: whoever starts a process that has more rights names none of its programs and files
TEST(EnvTest, WithMoreRightsNoFileIsNamedFromOutside) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a process with more rights";
  const TempDirectory folder;
  const std::string ran = folder.path() / "ran", compiler = folder.path() / "cc";
  std::ofstream(compiler) << "#!/bin/sh\n: > " << ran << "\nexec /usr/bin/cc \"$@\"\n";
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  const testing::Environment asked = {{"PATH", folder.path().string() + ":/usr/bin:/bin"},
                                      {"HEDDLE_DUMP_DIR", folder.path()},
                                      {"HOME", folder.path()},
                                      {"HEDDLE_WIDTH", "1"}};
  EXPECT_THAT(run_heddle({"info"}, asked).out, HasSubstr(folder.path().string()));
  EXPECT_TRUE(std::filesystem::remove(ran)) << "the compiler on PATH was not asked";
  ASSERT_EQ(setreuid(65534, 0), 0);
  const Outcome outcome = run_heddle({"info"}, asked);
  ASSERT_EQ(setreuid(0, 0), 0);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, Not(HasSubstr(folder.path().string())));
  EXPECT_THAT(outcome.out, ::testing::ContainsRegex("HEDDLE_WIDTH +1 +environment"));
  EXPECT_FALSE(std::filesystem::exists(ran));
  const std::size_t told = outcome.err.find("not heeded: HEDDLE_DUMP_DIR: ");
  EXPECT_NE(told, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("not heeded", told + 1), std::string::npos) << outcome.err;
}

// J11: what root made in a user's home, that user could neither use nor remove
TEST(EnvTest, AnothersHomeIsNoPlaceForACache) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may write anybody's home";
  const TempDirectory folder;
  ASSERT_EQ(chown(folder.path().c_str(), 65534, 65534), 0);
  for (const char* const name : {"HOME", "XDG_CACHE_HOME"}) {
    const std::string place = folder.path() / "below";
    const Outcome outcome = run_heddle({"info"}, {{"HEDDLE_CACHE", "on"}, {name, place}});
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("the kernel cache is off"), HasSubstr(name),
                                   HasSubstr("belongs to user 65534")));
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
  const Outcome named = run_heddle({"info"}, {{"HEDDLE_CACHE", "on"},
                                              {"HOME", folder.path()},
                                              {"HEDDLE_CACHE_DIR", folder.path() / "asked-for"}});
  EXPECT_THAT(named.err, Not(HasSubstr("the kernel cache is off")));
}

TEST(EnvTest, NamesOfTestsAreNotToldOf) {
  EXPECT_EQ(run_heddle({"info"}, {{"HEDDLE_TEST_SEED", "1"}}).err, "");
}

// B1: unknown and unavailable backends have an exit code of their own.
TEST(DemoTest, BackendThatCannotBeHadExitsWithThree) {
  expect_message(run_heddle({"demo", "digits", "--backend", "loom"}), 3, "loom");
  expect_message(run_heddle({"demo", "digits"}, {{"HEDDLE_BACKEND", "cdua"}}), 3, "cdua");
  expect_message(
      run_heddle({"demo", "digits", "--backend", "cc"}, {{"HEDDLE_CC", "/dev/null/nowhere/cc"}}), 3,
      "/dev/null/nowhere/cc");
}

TEST(DemoTest, BadCurvePathIsRefusedBeforeTraining) {
  expect_message(
      run_heddle({"demo", "digits", "--backend", "null", "--out", "/dev/null/nowhere/curve.svg"}),
      1, "/dev/null/nowhere/curve.svg");
}

TEST(DemoTest, ReportsAndDraws) {
  const std::string curve = ::testing::TempDir() + "/heddle-curve.svg";
  std::filesystem::remove(curve);
  const Outcome outcome = run_heddle(
      {"demo", "digits", "--backend", "cc", "--epochs", "2", "--devices", "2", "--out", curve});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("test accuracy"), HasSubstr("samples/s"), HasSubstr("compile time"),
                    HasSubstr("cc:0.0"), HasSubstr("final loss"), HasSubstr("(0x1.")));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("epoch   2/2"), Not(HasSubstr("\x1b["))));
  std::ifstream file(curve);
  std::string first_line;
  std::getline(file, first_line);
  EXPECT_THAT(first_line, StartsWith("<svg"));
  std::filesystem::remove(curve);
}

TEST(DemoTest, QuietSaysTheResultOnly) {
  const Outcome outcome =
      run_heddle({"demo", "digits", "--backend", "sync_cc", "--epochs", "1", "--quiet"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, HasSubstr("test accuracy"));
}

TEST(DemoTest, DrawsAProgressBarInATerminal) {
  const Outcome outcome =
      run_heddle_in_terminal({"demo", "digits", "--backend", "sync_cc", "--epochs", "2"},
                             {{"TERM", "xterm"}, {"NO_COLOR", "1"}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("\r\u2501"), HasSubstr("epoch   2/2"), HasSubstr("final loss")));
}

}  // namespace
}  // namespace heddle::tools
