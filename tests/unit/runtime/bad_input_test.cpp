// Tools and folders that fail a user in the middle of work: each time an Error that names the
// culprit and the cure, while what was compiled before runs on and the next compile works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// A folder with a C compiler in it that does as `script` says while broken, and compiles
/// otherwise.
class Workshop {
 public:
  explicit Workshop(const std::string& script) {
    std::ofstream(compiler()) << "#!/bin/sh\nif [ -e '" << flag().string() << "' ]; then\n"
                              << script << "\nfi\nexec cc \"$@\"\n";
    ::chmod(compiler().c_str(), 0755);
  }

  [[nodiscard]] fs::path compiler() const { return folder() / "cc"; }
  [[nodiscard]] fs::path flag() const { return folder() / "broken"; }
  [[nodiscard]] const fs::path& folder() const { return directory_.path(); }

 private:
  TempDirectory directory_;
};

/// With another amount it is another kernel.
Program increment(const Tensor& x, const char* name, int amount = 1) {
  Index i;
  Program p(name);
  p << (x(i) += amount);
  return p;
}

struct Fault {
  const char* name;
  const char* script;
  ErrorCode code;
  const char* words;
};

class BrokenCompilerTest : public testing::TestWithParam<Fault> {
 protected:
  static Backend open(const Workshop& shop) {
    BackendOptions options;
    options.name = "cc";
    options.cc = shop.compiler().string();
    options.temp_dir = shop.folder().string();
    if (GetParam().code == ErrorCode::deadline) options.compile_timeout = std::chrono::seconds(1);
    return Backend::open(options);
  }
};
INSTANTIATE_TEST_SUITE_P(
    All, BrokenCompilerTest,
    testing::Values(Fault{"Fails", "echo 'no licence' >&2; exit 1", ErrorCode::compile_failed,
                          "no licence"},
                    Fault{"Killed", "kill -9 $$", ErrorCode::compile_failed, "signal 9"},
                    Fault{"Hangs", "exec sleep 1000", ErrorCode::deadline, "did not end within"},
                    Fault{"PrintsTenMegabytes", "head -c 10000000 /dev/zero | tr '\\0' x; exit 1",
                          ErrorCode::compile_failed, "bytes left out"}),
    [](const auto& fault) { return std::string(fault.param.name); });

// J10, bad input: what is linked already runs on, and the next compile works
TEST_P(BrokenCompilerTest, LeavesTheBackendUsable) {
  const Workshop shop(GetParam().script);
  const Backend backend = open(shop);
  const Tensor x("x", i32, {2});
  const Routine before = Context(backend.physical_device(0).new_virtual_device())
                             .link(backend.compile(increment(x, "before", 1)));
  std::ofstream(shop.flag()) << "yes";
  const Status refused =
      failure([&] { static_cast<void>(backend.compile(increment(x, "during", 2))); });
  EXPECT_EQ(refused.code(), GetParam().code);
  EXPECT_THAT(refused.to_string(),
              AllOf(HasSubstr("'during'"), HasSubstr(GetParam().words),
                    HasSubstr(shop.compiler().string()), HasSubstr("the source is kept in ")));
  before.schedule();
  fs::remove(shop.flag());
  const Routine after = before.context().link(backend.compile(increment(x, "after", 3)));
  after.schedule();
  EXPECT_THAT(after.context().read<std::int32_t>(x), ElementsAre(4, 4));
}

// F5: all calls that wait for one compile are told; the next one works
TEST_P(BrokenCompilerTest, FailsAllCallsThatWaitForIt) {
  const Workshop shop(GetParam().script);
  const Backend backend = open(shop);
  const Device device = backend.physical_device(0).new_virtual_device();
  std::atomic<int> called = 0;
  const Executor during(device, "during", [&](Node x) {
    while (called < 4) std::this_thread::yield();  // all are there
    return x * 3 + 7;
  });
  std::ofstream(shop.flag()) << "yes";
  std::vector<Status> told(4);
  {
    std::vector<std::jthread> threads;
    for (Status& each : told) {
      threads.emplace_back([&] {
        ++called;
        each = during.try_call(std::vector<std::int32_t>{1, 2}).status;
      });
    }
  }
  for (const Status& each : told) {
    EXPECT_EQ(each.code(), GetParam().code);
    EXPECT_THAT(each.to_string(), AllOf(HasSubstr("'during#"), HasSubstr(GetParam().words)));
  }
  fs::remove(shop.flag());
  EXPECT_THAT(during(std::vector<std::int32_t>{1, 2}).values<std::int32_t>(), ElementsAre(10, 13));
}

// B1, bad input: no compiler is told when the backend is opened, others open
TEST(MissingToolsTest, MissingCompilerIsToldAtOpenByName) {
  BackendOptions options;
  options.name = "cc";
  options.cc = "/dev/null/nowhere/cc";
  const Status status = failure([&] { static_cast<void>(Backend::open(options)); });
  EXPECT_EQ(status.code(), ErrorCode::unavailable);
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("backend 'cc'"),
                                        HasSubstr("/dev/null/nowhere/cc"), HasSubstr("HEDDLE_CC")));
  EXPECT_EQ(Backend::open("cc").name(), "cc");
}

/// Compiles as a user who may start `more` processes, who is not root: root may start any number.
/// Prints the refusal and exits.
[[noreturn]] void compile_with_room(const char* backend, int more) {
  constexpr int nobody = 54321;
  rlimit before{};
  getrlimit(RLIMIT_NPROC, &before);
  const rlimit limit{static_cast<rlim_t>(1 + more), before.rlim_max};
  if (geteuid() == 0 && (setgid(nobody) != 0 || setuid(nobody) != 0)) std::abort();
  const Tensor x("x", i32, {2});
  BackendOptions options;
  options.name = backend;
  options.cache = false;
  const Status status = failure([&] {
    const Backend opened = Backend::open(options);
    setrlimit(RLIMIT_NPROC, &limit);
    static_cast<void>(opened.compile(increment(x, "p")));
  });
  setrlimit(RLIMIT_NPROC, &before);  // leaks are looked for by a process
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(static_cast<int>(status.code()));
}

// J10, bad input: where a compiler has its process and not those that it starts, it would try for
// 15 s each; both are refused before
TEST(MissingToolsTest, CompilesWithoutProcessesLeftFailAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const testing::ExitedWithCode unavailable(static_cast<int>(ErrorCode::unavailable));
  EXPECT_EXIT(compile_with_room("sync_cc", 2), unavailable, "needs 3 more.*ulimit -u. is 3");
  EXPECT_EXIT(compile_with_room("sync_cc", 0), unavailable, "needs 3 more.*ulimit -u. is 1");
  EXPECT_EXIT(compile_with_room("sync_gccjit", 2), unavailable,
              "(needs 2 more|cannot start).*ulimit -u. is 3");
  EXPECT_EXIT(compile_with_room("sync_gccjit", 0), unavailable, "cannot start.*ulimit -u. is 1");
}

// J10, bad input: folders that cannot be written name the folder and the setting
TEST(MissingToolsTest, UnwritableFoldersNameTheirSetting) {
  const Tensor x("x", i32, {2});
  for (const char* name : {"sync_cc", "sync_gccjit"}) {
    BackendOptions temp, dump;
    temp.name = dump.name = name;
    temp.temp_dir = "/dev/null/nowhere/temp";
    dump.dump_dir = "/proc/self/dumps";
    const auto refusal = [&](const BackendOptions& options) {
      return failure([&] { static_cast<void>(Backend::open(options).compile(increment(x, "p"))); });
    };
    EXPECT_EQ(refusal(temp).code(), ErrorCode::unavailable) << name;
    EXPECT_THAT(refusal(temp).to_string(),
                AllOf(HasSubstr("/dev/null/nowhere/temp"), HasSubstr("HEDDLE_TEMP_DIR")));
    EXPECT_EQ(refusal(dump).code(), ErrorCode::unavailable) << name;
    EXPECT_THAT(refusal(dump).to_string(),
                AllOf(HasSubstr("/proc/self/dumps"), HasSubstr("HEDDLE_DUMP_DIR")));
    EXPECT_NO_THROW(static_cast<void>(Backend::open(name).compile(increment(x, "p"))));
  }
}

// J6, bad input: values that nothing can be bound to, by index and value
TEST(BadBindingTest, NamesTheIndexAndWhatItIsBoundTo) {
  const Backend backend = Backend::open("sync_cc");
  const Tensor x("x", i32, {4});
  const StaticIndex row("row");
  Program p("set");
  p << (x(row) = 1);
  const Routine run =
      Context(backend.physical_device(0).new_virtual_device()).link(backend.compile(p));
  const auto refusal = [&](const BoundValue& value) {
    const Status status = failure([&] { run.schedule({{row, value}}); });
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
    return status.to_string();
  };
  EXPECT_THAT(refusal(std::uint64_t{1} << 63),
              AllOf(HasSubstr("'row'"), HasSubstr("9223372036854775808")));
  EXPECT_THAT(refusal(static_cast<const std::int64_t*>(nullptr)),
              AllOf(HasSubstr("'row'"), HasSubstr("null cell")));
  EXPECT_THAT(refusal(4), HasSubstr("bound to 4 (expected 0 to 3)"));
  run.schedule({{row, std::uint8_t{3}}});
  EXPECT_THAT(run.context().read<std::int32_t>(x), ElementsAre(0, 0, 0, 1));
}

// J9, W3, D6, bad input: options of no meaning are told by name, where nothing would come of them
// too
TEST(CompileOptionsTest, NumbersThatAreNoneAreRefused) {
  const Backend backend = Backend::open("cc");
  const Program program = increment(Tensor("x", f32, {4}), "increment");
  const auto refusal = [&](const CompileOptions& options) {
    const Status status = failure([&] { static_cast<void>(backend.compile(program, options)); });
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
    return std::string(status.message());
  };
  CompileOptions schedule, step, mode, merge, budget;
  schedule.schedule = static_cast<Schedule>(9);
  step.schedule_without = {static_cast<ScheduleStep>(200)};
  mode.tune.mode = static_cast<Tune>(77);
  merge.merge_mode = static_cast<MergeMode>(3);
  budget.tune = {.mode = Tune::off, .budget = std::chrono::nanoseconds(-1)};
  EXPECT_THAT(refusal(schedule), HasSubstr("CompileOptions::schedule is 9 (expected"));
  EXPECT_THAT(refusal(step), HasSubstr("CompileOptions::schedule_without has 200 (expected"));
  EXPECT_THAT(refusal(mode), HasSubstr("CompileOptions::tune.mode is 77 (expected"));
  EXPECT_THAT(refusal(merge), HasSubstr("CompileOptions::merge_mode is 3 (expected"));
  EXPECT_THAT(refusal(budget), HasSubstr("CompileOptions::tune.budget is -1 ns (expected"));
}

}  // namespace
}  // namespace heddle
