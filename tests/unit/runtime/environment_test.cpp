// The environment and the choice of a backend. Each test sets what it needs and restores it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "devices/device.hpp"
#include "heddle/heddle.hpp"
#include "runtime/settings/config.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~EnvironmentVariable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// B1, O1: the environment selects, in any case
TEST(BackendChoiceTest, EnvironmentSelectsCaseInsensitively) {
  const EnvironmentVariable set("HEDDLE_BACKEND", "Sync_CC");
  EXPECT_EQ(Backend::open().name(), "sync_cc");
  EXPECT_EQ(Backend::open("CC").name(), "cc");  // the API wins
}

// B1: other words too, whoever says them
TEST(BackendChoiceTest, WordsAreTakenInAnyCase) {
  const EnvironmentVariable cache("HEDDLE_CACHE", "OFF"), map("HEDDLE_PERF_MAP", "Off"),
      isa("HEDDLE_ISA", "Portable"), log("HEDDLE_LOG", "Error");
  EXPECT_EQ(Backend::open("Sync_cc").name(), "sync_cc");
  EXPECT_EQ(rt::lower("GCCJIT"), "gccjit");
  BackendOptions options;
  options.name = "SYNC_CC";
  options.isa = "PORTABLE";
  EXPECT_EQ(Backend::open(options).name(), "sync_cc");
}

// B1, bad input: a name from the environment says so
TEST(BackendChoiceTest, UnknownNameInTheEnvironmentNamesTheVariable) {
  const EnvironmentVariable set("HEDDLE_BACKEND", "opencl");
  const Status status = failure([] { static_cast<void>(Backend::open()); });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(status.to_string(),
              AllOf(HasSubstr("'opencl'"), HasSubstr("HEDDLE_BACKEND"), HasSubstr("sync_cc")));
  EXPECT_EQ(Backend::open("sync_cc").name(), "sync_cc");
}

// B1: unset, the best one that is available
TEST(BackendChoiceTest, UnsetTakesGccjitOrCc) {
  const EnvironmentVariable set("HEDDLE_BACKEND", "");
  std::string best = "cc";
  for (const BackendInfo& info : Backend::list()) {
    if (info.name == "gccjit" && info.status.ok()) best = "gccjit";
  }
  EXPECT_EQ(Backend::open().name(), best);
}

// B1, bad input: unknown backend, listing what exists and why others are not available
TEST(BackendChoiceTest, UnknownNameListsWhatExistsAndWhyNot) {
  const EnvironmentVariable helper("HEDDLE_COMPILE_HELPER", "/dev/null/nowhere/heddle-compile");
  const Status status = failure([] { static_cast<void>(Backend::open("opencl")); });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'opencl'"), HasSubstr("sync_cc"), HasSubstr("gccjit (unavailable")));
}

// J10, bad input: what is no executable file cannot be the helper: opening says so, rather than
// give another backend. Backends that need none open.
TEST(BackendChoiceTest, AHelperThatIsNoneIsToldAtOpening) {
  const TempDirectory directory;
  const std::filesystem::path text = directory.path() / "notes.txt";
  std::ofstream(text) << "no program";
  for (const std::string& bad :
       {text.string(), directory.path().string(), (text / "below-a-file").string()}) {
    const auto told = [&](const char* who, const auto& open) {
      const Status status = failure(open);
      EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << bad;
      EXPECT_THAT(status.to_string(),
                  AllOf(HasSubstr(who), HasSubstr("'" + bad + "'"), HasSubstr("heddle-compile")));
    };
    BackendOptions options;
    options.name = "sync_gccjit";
    options.compile_helper = bad;
    told("BackendOptions::compile_helper", [&] { static_cast<void>(Backend::open(options)); });
    const EnvironmentVariable helper("HEDDLE_COMPILE_HELPER", bad.c_str());
    told("HEDDLE_COMPILE_HELPER", [] { static_cast<void>(Backend::open("gccjit")); });
    const EnvironmentVariable best("HEDDLE_BACKEND", "");
    told("HEDDLE_COMPILE_HELPER", [] { static_cast<void>(Backend::open()); });
    EXPECT_EQ(Backend::open("sync_cc").name(), "sync_cc");
  }
}

// S4, D3, bad input: what no device could work with is told before there is one
TEST(BackendChoiceTest, BoundsThatAreNoneAreToldAtOpening) {
  const std::pair<std::string, std::function<void(BackendOptions&)>> cases[] = {
      {"BackendOptions::tune is 9 ", [](BackendOptions& o) { o.tune = static_cast<Tune>(9); }},
      {"BackendOptions::sync is 9 ", [](BackendOptions& o) { o.sync = static_cast<Sync>(9); }},
      {"device.queue_size is 0 ", [](BackendOptions& o) { o.scheduling.device.queue_size = 0; }},
      {"device.queue_size is " + std::to_string(sched::queue_size_max + 1),
       [](BackendOptions& o) { o.scheduling.device.queue_size = sched::queue_size_max + 1; }},
      {"scheduling.workers is 0 ", [](BackendOptions& o) { o.scheduling.workers = 0; }},
      {"scheduling.width or .oversubscribed is set",
       [](BackendOptions& o) { o.scheduling.width = 2; }},
      {"scheduling.workers is 4000000000 (expected 1 to 4096)",
       [](BackendOptions& o) { o.scheduling.workers = 4'000'000'000; }},
      {"virtual_devices is 4097 (expected 1 to 4096)",
       [](BackendOptions& o) { o.virtual_devices = 4097; }},
      {"device.spin is -1 ns (expected 0 or more)",
       [](BackendOptions& o) { o.scheduling.device.spin = std::chrono::nanoseconds(-1); }},
      {"profile.spin is -2 ns (expected 0 or more)",
       [](BackendOptions& o) { o.scheduling.profile.spin = std::chrono::nanoseconds(-2); }},
      {"bytes_max is 0 (expected 1 ", [](BackendOptions& o) { o.bytes_max = 0; }}};
  for (const auto& [told, set] : cases) {
    BackendOptions options;
    options.name = "sync_cc";
    set(options);
    const Status status = failure([&] { static_cast<void>(Backend::open(options)); });
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(status.to_string(),
                AllOf(HasSubstr("BackendOptions::"), HasSubstr(told), HasSubstr("expected ")));
  }
}

// J9: what schedules know of the machine may be told, sense alone
TEST(BackendChoiceTest, KernelProfilesDecideSchedules) {
  // Fits the last level of most processors, and the second of none.
  const Tensor x("x", f32, {3 << 20}), y("y", f32, {3 << 20});
  const Index i;
  Program copy("copy");
  copy << (y(i) = x(i) * 2);
  const auto text = [&](std::int64_t cached_bytes_max) {
    BackendOptions options;
    options.name = "sync_cc";
    options.kernels = KernelProfile{.cached_bytes_max = cached_bytes_max};
    return Backend::open(options).compile(copy).loop_text();
  };
  EXPECT_THAT(text(1), HasSubstr("stream t"));
  const Status status = failure([&] { static_cast<void>(text(0)); });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(status.to_string(), HasSubstr("BackendOptions::kernels.cached_bytes_max is 0 "));
}

// B5, bad input: a row that gives no device for one is told so at opening
TEST(BackendChoiceTest, NullDevicesAreToldAtOpening) {
  register_backend({"null_device", "cc", sched::Mode::threaded, [] {
                      return std::vector<std::shared_ptr<dev::PhysicalDevice>>{
                          dev::make_cpu_device(), nullptr};
                    }});
  const Status status = failure([] { static_cast<void>(Backend::open("null_device")); });
  EXPECT_EQ(status.code(), ErrorCode::unavailable);
  EXPECT_THAT(status.to_string(), HasSubstr("null pointer for device 1 of 2"));
}

// S15, bad input: so is a mode that is none
TEST(BackendChoiceTest, ModesThatAreNoneAreToldAtOpening) {
  BackendOptions options;
  options.name = "cc";
  options.mode = static_cast<sched::Mode>(55);
  const Status status = failure([&] { static_cast<void>(Backend::open(options)); });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(status.to_string(), HasSubstr("BackendOptions::mode is 55"));
}

// J10, bad input: no compile ends before it begins
TEST(BackendChoiceTest, ACompileTimeoutThatIsNoneIsToldAtOpening) {
  for (const int bad : {0, -5}) {
    BackendOptions options;
    options.name = "sync_cc";
    options.compile_timeout = std::chrono::milliseconds(bad);
    const Status status = failure([&] { static_cast<void>(Backend::open(options)); });
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(status.to_string(),
                AllOf(HasSubstr("BackendOptions::compile_timeout"),
                      HasSubstr(std::to_string(bad) + " ms"), HasSubstr("more than 0")));
  }
}

// B1, O1: a backend that heddle knows, but does not have here, is no unknown one; lists say why
TEST(BackendChoiceTest, AnAbsentBackendIsUnavailableAndSaysWhy) {
  const EnvironmentVariable set("HEDDLE_BACKEND", "CUDA");
  const EnvironmentVariable nowhere("HEDDLE_CUDA_DRIVER", "/nowhere/libcuda.so");
  for (const auto& open : {+[] { static_cast<void>(Backend::open("Cuda")); },
                           +[] { static_cast<void>(Backend::open()); }}) {
    const Status status = failure(open);
    EXPECT_EQ(status.code(), ErrorCode::unavailable);
    EXPECT_THAT(status.to_string(), AllOf(HasSubstr("'cuda'"), HasSubstr("there is no CUDA driver"),
                                          HasSubstr("/nowhere/libcuda.so")));
  }
  int listed = 0;
  for (const BackendInfo& info : Backend::list()) {
    if (info.name != "cuda") continue;
    ++listed;
    EXPECT_EQ(info.status.code(), ErrorCode::unavailable);
    EXPECT_THAT(info.status.to_string(), HasSubstr("there is no CUDA driver"));
  }
  EXPECT_EQ(listed, 1);
  EXPECT_THAT(failure([] { static_cast<void>(Backend::open("opencl")); }).to_string(),
              HasSubstr("cuda (unavailable: "));
}

// Bad input: malformed HEDDLE_ values name variable, value and what was expected
TEST(EnvironmentTest, MalformedValuesAreRefusedByName) {
  const std::pair<const char*, const char*> bad[] = {
      {"HEDDLE_QUEUE_SIZE", "many"},   {"HEDDLE_QUEUE_SIZE", "0"},
      {"HEDDLE_SPIN_NS", "-5"},        {"HEDDLE_SPIN_NS", "10us"},
      {"HEDDLE_VIRTUAL_DEVICES", "0"}, {"HEDDLE_COMPILE_TIMEOUT", "1e3"},
      {"HEDDLE_CACHE_DIR", "cache"},   {"HEDDLE_CACHE_DIR", "~/.cache"},
      {"HEDDLE_SYNC", "never"},        {"HEDDLE_SYNC", "0"},
      {"HEDDLE_LOG", "loud"},          {"HEDDLE_QUEUE_SIZE", "9999999999999999999999"},
      {"HEDDLE_CUDA_CHECK", "on"}};
  for (const auto& [name, value] : bad) {
    const EnvironmentVariable set(name, value);
    const Status status = failure([] { static_cast<void>(Backend::open("sync_cc")); });
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << name << "=" << value;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(name), HasSubstr(value), HasSubstr("expected")));
  }
  EXPECT_EQ(Backend::open("sync_cc").name(), "sync_cc");  // nothing of it stays
}

// S19, bad input: a width is a number of the processors that there are, or a word
TEST(EnvironmentTest, WidthIsANumberOrAWord) {
  const auto devices = [](const std::string& words) {
    const EnvironmentVariable set("HEDDLE_WIDTH", words.c_str());
    return Backend::open("sync_cc").num_physical_devices();
  };
  const int all = static_cast<int>(std::min(available_processors(), sched::width_max));
  EXPECT_EQ(devices(""), all);
  EXPECT_EQ(devices("auto"), all);
  EXPECT_EQ(devices("1"), all);
  EXPECT_EQ(devices("all"), 1);
  EXPECT_EQ(devices(std::to_string(all)), 1);
  for (const std::string bad : {"0", "-1", "2x", "many", "100000"}) {
    EXPECT_THAT(failure([&] { devices(bad); }).to_string(),
                AllOf(HasSubstr("HEDDLE_WIDTH='" + bad + "'"),
                      HasSubstr("all, auto or a number from 1 to " + std::to_string(all))));
  }
  BackendOptions options;
  options.name = "sync_cc";
  options.width = width_all;
  const EnvironmentVariable set("HEDDLE_WIDTH", "1");
  EXPECT_EQ(Backend::open(options).num_physical_devices(), 1) << "options come first";
}

// J11, bad input: a cache is at one place, wherever the process happens to be, also the program's
// own
TEST(EnvironmentTest, RelativeCachesAreRefused) {
  BackendOptions options;
  options.name = "sync_cc";
  options.cache_dir = "cache";
  const Status status = failure([&] { static_cast<void>(Backend::open(options)); });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("BackendOptions::cache_dir"),
                                        HasSubstr("'cache'"), HasSubstr("absolute path")));
}

// J11, bad input: without a home there is no cache, which is not switched off
TEST(EnvironmentTest, WithoutAHomeThereIsNoCacheAndWhyIsSaid) {
  const EnvironmentVariable on("HEDDLE_CACHE", "on"), nowhere("HEDDLE_CACHE_DIR", "");
  for (const char* const home : {"", "relative/home"}) {
    const EnvironmentVariable at("HOME", home), xdg("XDG_CACHE_HOME", home);
    const KernelCacheInfo info = kernel_cache_info();
    EXPECT_EQ(info.directory, "");
    EXPECT_THAT(info.refusal, AllOf(HasSubstr("nor a home directory is known"),
                                    HasSubstr("set HEDDLE_CACHE_DIR")));
    for (const Setting& setting : settings()) {
      if (setting.name != "HEDDLE_CACHE_DIR") continue;
      EXPECT_THAT(setting.value, AllOf(HasSubstr("none"), HasSubstr(info.refusal)));
    }
  }
  const EnvironmentVariable off("HEDDLE_CACHE", "off");
  EXPECT_THAT(kernel_cache_info().refusal, HasSubstr("switched it off"));
}

// The values reach what they are for
TEST(EnvironmentTest, ValuesReachTheDevices) {
  const EnvironmentVariable queue("HEDDLE_QUEUE_SIZE", "2");
  const EnvironmentVariable devices("HEDDLE_VIRTUAL_DEVICES", "5");
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
  BackendOptions options;
  options.name = "cc";
  options.scheduling.device.queue_size = 4096;  // the program's word, though it is the default
  const Device large = Backend::open(options).physical_device(0).new_virtual_device();
  const Event later = gate.next();
  large.wait(later);
  for (int k = 0; k < 10; ++k) EXPECT_TRUE(large.submit("task", [] {}, fail).accepted());
  EXPECT_TRUE(gate.signal(later.ticket()).ok());
}

// Settings are shown with their source
TEST(EnvironmentTest, SettingsNameTheirSource) {
  const EnvironmentVariable set("HEDDLE_CC", "gcc");
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
  const EnvironmentVariable set("HEDDLE_DUMP_DIR", directory.c_str());
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
