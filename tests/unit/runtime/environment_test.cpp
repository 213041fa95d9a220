// The environment and the choice of a backend. Each test sets what it needs and restores it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// B1, O1: the environment selects, in any case
TEST(BackendChoiceTest, EnvironmentSelectsCaseInsensitively) {
  const Variable set("HEDDLE_BACKEND", "Sync_CC");
  EXPECT_EQ(Backend::open().name(), "sync_cc");
  EXPECT_EQ(Backend::open("CC").name(), "cc");  // the API wins
}

// B1, bad input: a name from the environment says so
TEST(BackendChoiceTest, UnknownNameInTheEnvironmentNamesTheVariable) {
  const Variable set("HEDDLE_BACKEND", "opencl");
  const Status status = failure([] { static_cast<void>(Backend::open()); });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(status.to_string(),
              AllOf(HasSubstr("'opencl'"), HasSubstr("HEDDLE_BACKEND"), HasSubstr("sync_cc")));
  EXPECT_EQ(Backend::open("sync_cc").name(), "sync_cc");
}

// B1: unset, the best one that is available
TEST(BackendChoiceTest, UnsetTakesGccjitOrCc) {
  const Variable set("HEDDLE_BACKEND", "");
  std::string best = "cc";
  for (const BackendInfo& info : Backend::list()) {
    if (info.name == "gccjit" && info.status.ok()) best = "gccjit";
  }
  EXPECT_EQ(Backend::open().name(), best);
}

// B1, bad input: unknown backend, listing what exists and why others are not available
TEST(BackendChoiceTest, UnknownNameListsWhatExistsAndWhyNot) {
  const Variable helper("HEDDLE_COMPILE_HELPER", "/dev/null/nowhere/heddle-compile");
  const Status status = failure([] { static_cast<void>(Backend::open("opencl")); });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'opencl'"), HasSubstr("sync_cc"), HasSubstr("gccjit (unavailable")));
}

// Bad input: heddle-compile not found
TEST(BackendChoiceTest, MissingHelperMakesGccjitUnavailableByName) {
  const Variable helper("HEDDLE_COMPILE_HELPER", "/dev/null/nowhere/heddle-compile");
  const Status status = failure([] { static_cast<void>(Backend::open("gccjit")); });
  EXPECT_EQ(status.code(), ErrorCode::unavailable);
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("/dev/null/nowhere/heddle-compile"),
                                        HasSubstr("HEDDLE_COMPILE_HELPER")));
}

// Bad input: malformed HEDDLE_ values name variable, value and what was expected
TEST(EnvironmentTest, MalformedValuesAreRefusedByName) {
  const std::pair<const char*, const char*> bad[] = {
      {"HEDDLE_QUEUE_SIZE", "many"},   {"HEDDLE_QUEUE_SIZE", "0"},
      {"HEDDLE_SPIN_NS", "-5"},        {"HEDDLE_SPIN_NS", "10us"},
      {"HEDDLE_VIRTUAL_DEVICES", "0"}, {"HEDDLE_COMPILE_TIMEOUT", "1e3"},
      {"HEDDLE_LOG", "loud"},          {"HEDDLE_QUEUE_SIZE", "9999999999999999999999"}};
  for (const auto& [name, value] : bad) {
    const Variable set(name, value);
    const Status status = failure([] { static_cast<void>(Backend::open("sync_cc")); });
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << name << "=" << value;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(name), HasSubstr(value), HasSubstr("expected")));
  }
  EXPECT_EQ(Backend::open("sync_cc").name(), "sync_cc");  // nothing of it stays
}

// The values reach what they are for
TEST(EnvironmentTest, ValuesReachTheDevices) {
  const Variable queue("HEDDLE_QUEUE_SIZE", "2");
  const Variable devices("HEDDLE_VIRTUAL_DEVICES", "5");
  const Backend backend = Backend::open("cc");
  EXPECT_EQ(backend.suggested_num_virtual_devices(), 5);
  const Device device = backend.physical_device(0).new_virtual_device();
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  sched::SubmitOptions fail;
  fail.full = sched::FullPolicy::fail;
  device.submit("second", [] {}, fail);
  EXPECT_EQ(device.submit("third", [] {}, fail).status().code(), ErrorCode::exhausted);
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
}

// Settings are shown with their source
TEST(EnvironmentTest, SettingsNameTheirSource) {
  const Variable set("HEDDLE_CC", "gcc");
  bool found = false;
  for (const Setting& setting : settings()) {
    if (setting.name != "HEDDLE_CC") continue;
    found = setting.value == "gcc" && setting.source == "environment";
  }
  EXPECT_TRUE(found);
}

// O26: dumps on request
TEST(EnvironmentTest, DumpDirectoryKeepsLoopTextAndSource) {
  const std::string directory = testing::TempDir() + "heddle_dump_test";
  std::filesystem::create_directories(directory);
  const Variable set("HEDDLE_DUMP_DIR", directory.c_str());
  const Tensor x("x", f32, {2}), unused("unused", f32, {2});
  unused.set_mode(MemoryMode::virtual_);
  Index i;
  Program p("dumped");
  p << (unused(i) = x(i) * 2) << (x(i) += 1.0);
  static_cast<void>(Backend::open("sync_cc").compile(p));
  // O26: before and after it was optimised and scheduled
  const auto text_of = [&](const char* name) {
    std::ifstream file(std::filesystem::path(directory) / name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_THAT(text_of("dumped.unoptimized.loop"),
              AllOf(HasSubstr("# kernel dumped\n"), HasSubstr("# unused"), HasSubstr("# x")));
  EXPECT_THAT(text_of("dumped.loop"), AllOf(Not(HasSubstr("# unused")), HasSubstr("# x")));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    EXPECT_THAT(entry.path().filename().string(), HasSubstr("dumped"));
    ++files;
  }
  EXPECT_GE(files, 2u);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace heddle
