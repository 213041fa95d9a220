// Where the log level comes from, whoever comes first (S21). Each case is a process of its own: the
// level is the process's, and what comes first decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "heddle/heddle.hpp"
#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class LoggingTest : public testing::Test {
 protected:
  LoggingTest() { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
  /// In a fresh process with HEDDLE_LOG=`value`; what it says on stderr has to match.
  static void expect_said(const char* value, const std::function<void()>& body,
                          const testing::Matcher<const std::string&>& said) {
    EXPECT_EXIT(
        {
          ::setenv("HEDDLE_LOG", value, 1);
          try {
            body();
          } catch (const Error& e) {
            std::fprintf(stderr, "threw %s\n", e.status().to_string().c_str());
          }
          std::exit(0);
        },
        testing::ExitedWithCode(0), said);
  }
  static void log_at_each_level() {
    log(LogLevel::error, "at error");
    log(LogLevel::warn, "at warn");
    log(LogLevel::info, "at info");
    log(LogLevel::debug, "at debug");
  }
  /// Refused tasks are told at debug.
  static void have_a_task_refused() {
    Scheduler scheduler;
    const sched::TaskDevice device = scheduler.new_device("work");
    static_cast<void>(device.shutdown(std::chrono::seconds(10)));
    device.submit("late", [] {});
  }
  static testing::Matcher<const std::string&> malformed() {
    return AllOf(HasSubstr("threw invalid_argument"), HasSubstr("HEDDLE_LOG='loud'"),
                 HasSubstr("expected off, error, warn, info, debug or trace"));
  }
};

// S21: a host of the scheduler alone
TEST_F(LoggingTest, VariableReachesTheSchedulerAlone) {
  expect_said("debug", have_a_task_refused, HasSubstr("heddle: debug: task 'late' refused"));
  expect_said("warn", have_a_task_refused, Not(HasSubstr("refused")));
  expect_said("", have_a_task_refused, Not(HasSubstr("refused")));
}

// S21: the very first message, before anything was opened
TEST_F(LoggingTest, VariableReachesTheFirstMessage) {
  expect_said("info", log_at_each_level, AllOf(HasSubstr("at info"), Not(HasSubstr("at debug"))));
  expect_said("error", log_at_each_level, AllOf(HasSubstr("at error"), Not(HasSubstr("at warn"))));
  expect_said("off", log_at_each_level, Not(HasSubstr("at error")));
  expect_said("", log_at_each_level, AllOf(HasSubstr("at warn"), Not(HasSubstr("at info"))));
  expect_said(
      "trace", [] { std::fprintf(stderr, "level %d\n", static_cast<int>(log_level())); },
      HasSubstr("level 5"));
}

// S21: what the program sets wins, whichever comes first
TEST_F(LoggingTest, TheProgramWinsBeforeAndAfter) {
  const auto open_all = [] {
    const Scheduler scheduler;
    static_cast<void>(Backend::open("sync_cc"));
    static_cast<void>(Backend::list());
  };
  const auto errors_alone = AllOf(HasSubstr("at error"), Not(HasSubstr("at warn")));
  expect_said(
      "debug",
      [&] {
        set_log_level(LogLevel::error);
        open_all();
        log_at_each_level();
      },
      errors_alone);
  expect_said(
      "debug",
      [&] {
        open_all();
        set_log_level(LogLevel::error);
        open_all();
        log_at_each_level();
      },
      errors_alone);
  expect_said(
      "error",
      [&] {
        set_log_level(LogLevel::debug);
        open_all();
        log_at_each_level();
      },
      HasSubstr("at debug"));
  // The default too, when it is the program that wants it.
  expect_said(
      "debug",
      [&] {
        set_log_level(LogLevel::warn);
        open_all();
        log_at_each_level();
      },
      Not(HasSubstr("at info")));
  // Then nobody looks at the variable.
  expect_said(
      "loud",
      [&] {
        set_log_level(LogLevel::error);
        open_all();
        log_at_each_level();
      },
      AllOf(errors_alone, Not(HasSubstr("HEDDLE_LOG"))));
}

// S21, bad input: a malformed value is an error for the call that opens something
TEST_F(LoggingTest, MalformedValuesAreRefusedByWhoeverOpens) {
  expect_said("loud", [] { const Scheduler scheduler; }, malformed());
  expect_said("loud", [] { static_cast<void>(Backend::open("sync_cc")); }, malformed());
  expect_said("loud", [] { static_cast<void>(Backend::list()); }, malformed());
  expect_said(
      "loud",
      [] {
        log_at_each_level();
        const Scheduler scheduler;
      },
      malformed());
}

// S21, bad input: where there is nobody to throw to, it is logged, once
TEST_F(LoggingTest, MalformedValuesAreLoggedByTheFirstMessage) {
  expect_said("loud", log_at_each_level,
              AllOf(HasSubstr("heddle: error: invalid_argument: environment variable "
                              "HEDDLE_LOG='loud' (expected off,"),
                    HasSubstr("at warn"), Not(HasSubstr("at info")),
                    Not(testing::ContainsRegex("HEDDLE_LOG.*\n.*\n*HEDDLE_LOG"))));
}

}  // namespace
}  // namespace heddle
