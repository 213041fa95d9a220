// Long lives: open and close, compile and drop, many times, leave threads, descriptors and memory
// flat. The counts are small by default; SOAK=1 runs the long form.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "heddle/format.hpp"
#include "heddle/heddle.hpp"
#include "heddle/ostream.hpp"
#include "tests/support/threads.hpp"

namespace heddle {
namespace {

struct Footprint {
  LiveThreads threads;
  long descriptors = 0;
  long resident_kib = 0;
};

Footprint footprint() {
  Footprint now;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> now.resident_kib;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++now.descriptors;
  }
  return now;
}

bool soak() { return std::getenv("SOAK") != nullptr; }

void expect_flat(const Footprint& before, const Footprint& after,
                 [[maybe_unused]] long grown_kib_max, const char* what) {
  EXPECT_TRUE(before.threads.others_end()) << what << ": " << after.threads.count() << " threads";
  EXPECT_LE(after.descriptors, before.descriptors) << what;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadow grows by itself
#if !defined(__has_feature)
#define __has_feature(x) 0
#endif
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
  EXPECT_LE(after.resident_kib, before.resident_kib + grown_kib_max) << what;
#endif
#endif
  std::printf("%s: threads %d to %d, descriptors %ld to %ld, resident %ld to %ld KiB\n", what,
              before.threads.count(), after.threads.count(), before.descriptors, after.descriptors,
              before.resident_kib, after.resident_kib);
}

// S14, B2, O2, O44: open and close
TEST(SoakTest, OpenAndCloseStayFlat) {
  const auto cycle = [] {
    const Backend backend = Backend::open("cc");
    const Device device = backend.physical_device(0).new_virtual_device();
    device.submit("one", [] {});
  };
  for (int k = 0; k < 50; ++k) cycle();
  const Footprint before = footprint();
  const int cycles = soak() ? 10'000 : 100;
  for (int k = 0; k < cycles; ++k) cycle();
  expect_flat(before, footprint(), 4096, "open and close");
}

// J7, D2, O48: compile, link, run, drop
TEST(SoakTest, CompileLinkRunDropStaysFlat) {
  const Backend backend = Backend::open("gccjit");
  const auto round = [&](int k) {
    const Tensor x("x", i32, {64});
    Index i;
    Program p("round");
    p << (x(i) += k);
    const Device device = backend.physical_device(0).new_virtual_device();
    const Routine run = Context(device).link(backend.compile(p));
    run.schedule();
    EXPECT_EQ(run.context().read<std::int32_t>(x)[63], k);
  };
  for (int k = 0; k < 10; ++k) round(k);
  const Footprint before = footprint();
  const int rounds = soak() ? 1000 : 30;
  for (int k = 0; k < rounds; ++k) round(k);
  expect_flat(before, footprint(), 8192, "compile, link, run, drop");
}

// D13: contexts and devices of a long chain go without recursion trouble
TEST(LifetimeTest, LongChainsOfContextsEndQuietly) {
  const Backend backend = Backend::open("sync_cc");
  const Tensor x("x", i32, {4});
  Index i;
  Program p("inc");
  p << (x(i) += 1);
  const Code code = backend.compile(p);
  Context at(backend.physical_device(0).new_virtual_device());
  for (int k = 0; k < 20'000; ++k) {
    const Routine run = at.link(code);
    if (k % 1000 == 0) run.schedule();
    at = run.context();
  }
  EXPECT_EQ(at.read<std::int32_t>(x)[0], 20);
}

// Every handle prints itself, through fmt too, in bounded text
TEST(PrintingTest, HandlesPrintThemselves) {
  const Backend backend = Backend::open("sync_cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", f32, {1000, 1000});
  Index i, j;
  Program p("inc");
  p << (x(i, j) += 1);
  const Code code = backend.compile(p);
  const Routine run = Context(device).link(code);
  const Event event = run.schedule();
  const BufferView view = run.context().view(x);
  const std::string all =
      fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", backend, device, x, p, code, run,
                  run.context(), event, view, view.buffer(), HostArray(x.type()));
  for (const char* part : {"backend sync_cc", "device sync_cc:0.0", "f32[1000,1000]", "program inc",
                           "code inc", "routine inc", "done", "4000000 bytes", "..."}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << " in " << all;
  }
  EXPECT_LT(all.size(), 4000u);
  const Array array(device, {1.F, 2.F});
  std::ostringstream out;
  out << array << '|' << event << '|' << x.type() << '|' << Status();
  EXPECT_EQ(out.str(), fmt::format("{}|{}|{}|{}", array, event, x.type(), Status()));
}

}  // namespace
}  // namespace heddle
