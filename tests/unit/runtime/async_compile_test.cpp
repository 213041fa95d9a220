// Compiling while the host goes on, and the kernel cache as a backend has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "heddle/heddle.hpp"
#include "scheduler/sanitizers.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/logged.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/runtime/async_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Issue 4.6: the host goes on; link waits
TEST_F(AsyncCompileTest, LinkWaitsForTheCompile) {
  hang();
  const Backend backend = Backend::open(options());
  const Device device = backend.physical_device(0).new_virtual_device();
  const PendingCode pending = backend.compile_async(adder("add", x_, 5));
  wait_until_it_hangs();
  EXPECT_FALSE(pending.done());
  EXPECT_EQ(pending.wait_for(1ms).code(), ErrorCode::deadline);
  pending.cancel();
  EXPECT_EQ(failure([&] { static_cast<void>(Context(device).link(pending)); }).code(),
            ErrorCode::cancelled);
  mend();
  const PendingCode again = backend.compile_async(adder("add", x_, 5));
  const Routine run = Context(device).link(again);
  run.schedule();
  EXPECT_EQ(run.context().read<std::int32_t>(x_), (std::vector<std::int32_t>(4, 5)));
  EXPECT_TRUE(again.done());
  EXPECT_TRUE(again.event().wait().ok());
  EXPECT_EQ(again.get().name(), "add");
}

// S14: no thread before the first use, none after the last handle
TEST_F(AsyncCompileTest, ThreadsComeWithTheFirstUseAndGo) {
  const LiveThreads before;
  std::optional<PendingCode> pending;  // outlives the backend
  {
    const Backend backend = Backend::open(options());
    static_cast<void>(backend.compile(adder("add", x_, 1)));
    EXPECT_EQ(before.added(), 0);
    pending = backend.compile_async(adder("add", x_, 2));
    static_cast<void>(pending->get());
    backend.finalize();
    EXPECT_EQ(failure([&] { static_cast<void>(backend.compile_async(adder("a", x_, 1))); }).code(),
              ErrorCode::failed_precondition);
  }
  EXPECT_TRUE(before.others_end());
  EXPECT_EQ(pending->get().name(), "add");
}

// J10: errors are those of compile(); a program's own are thrown at the call
TEST_F(AsyncCompileTest, ErrorsAreThoseOfTheCompile) {
  const Backend backend = Backend::open(options());
  const Status status =
      failure([&] { static_cast<void>(backend.compile_async(adder("bad_one", x_, 1)).get()); });
  EXPECT_EQ(status.code(), ErrorCode::compile_failed);
  EXPECT_THAT(status.to_string(), HasSubstr("no such luck"));
  EXPECT_EQ(failure([&] { static_cast<void>(backend.compile_async(adder("", x_, 1))); }).code(),
            ErrorCode::invalid_argument);
  const Device device = backend.physical_device(0).new_virtual_device();
  device.wait(backend.compile_async(adder("bad_two", x_, 1)).event());
  EXPECT_EQ(failure([&] { device.await(); }).root().code(), ErrorCode::compile_failed);
}

// J10, S7: events, callbacks and waits are told what get() throws: its code and its words
TEST_F(AsyncCompileTest, EventsFailAsTheCompileDid) {
  const Backend backend = Backend::open(options());
  const auto expect_same = [](const PendingCode& pending, ErrorCode code) {
    const Status thrown = failure([&] { static_cast<void>(pending.get()); });
    EXPECT_EQ(thrown.code(), code);
    EXPECT_EQ(pending.event().wait(), thrown);
    EXPECT_EQ(pending.event().status(), thrown);
    EXPECT_EQ(pending.wait_for(1h), thrown);
    Status called;
    pending.event().then([&](const Status& status) { called = status; });
    EXPECT_EQ(called, thrown);
  };
  expect_same(backend.compile_async(adder("bad_one", x_, 1)), ErrorCode::compile_failed);
  hang();
  CompileOptions limited;
  limited.timeout = 200ms;
  expect_same(backend.compile_async(adder("a", x_, 1), limited), ErrorCode::deadline);
  const PendingCode pending = backend.compile_async(adder("b", x_, 1));
  pending.cancel();
  expect_same(pending, ErrorCode::cancelled);
}

// S7: what was made stays, however many devices closed with failures since
TEST_F(AsyncCompileTest, ResultsOutliveTheMemoryOfEvents) {
  const Backend backend = Backend::open(options());
  const PendingCode pending = backend.compile_async(adder("add", x_, 1));
  static_cast<void>(pending.get());
  Scheduler scheduler;
  sched::DeviceOptions failing;
  failing.mode = sched::Mode::inline_;
  for (int k = 0; k < 5000; ++k) {
    const sched::TaskDevice device = scheduler.new_device(failing);
    EXPECT_FALSE(device.submit("fail", [] { throw std::runtime_error("no"); }).wait().ok());
  }
  EXPECT_EQ(pending.get().name(), "add");
}

// S10, S13: a failure that somebody was given is not told again; one that nobody saw is, once
TEST_F(AsyncCompileTest, OnlyFailuresThatNobodySawAreTold) {
  const LiveThreads before;
  const test::Logged log;
  {
    const Backend backend = Backend::open(options());
    const Program bad = adder("bad_one", x_, 1);
    EXPECT_EQ(failure([&] { static_cast<void>(backend.compile_async(bad).get()); }).code(),
              ErrorCode::compile_failed);
    EXPECT_FALSE(backend.compile_async(bad).event().wait().ok());
    EXPECT_FALSE(backend.compile_async(bad).wait_for(1h).ok());
    std::atomic<bool> called{false};
    backend.compile_async(bad).event().then([&](const Status& /*status*/) { called = true; });
    while (!called) std::this_thread::yield();
    {
      const PendingCode late = backend.compile_async(bad);
      while (!late.done()) std::this_thread::yield();
      EXPECT_FALSE(late.event().status().ok());
    }
    hang();
    {
      const PendingCode cancelled = backend.compile_async(adder("a", x_, 1));
      wait_until_it_hangs();
      cancelled.cancel();
    }
    mend();
  }
  EXPECT_TRUE(before.others_end());
  EXPECT_EQ(log.count("nobody asked"), 0);
  {
    const Backend backend = Backend::open(options());
    {
      const PendingCode ended = backend.compile_async(adder("bad_one", x_, 1));
      while (!ended.done()) std::this_thread::yield();
      EXPECT_EQ(log.count("nobody asked"), 0) << "somebody may still ask";
    }
    EXPECT_EQ(log.count("nobody asked"), 1);
    static_cast<void>(backend.compile_async(adder("bad_two", x_, 1)));
  }
  EXPECT_TRUE(before.others_end());
  EXPECT_EQ(log.count("nobody asked"), 2);
}

// S13: a wait that does not ask how it ended has not seen it: a drain, a descriptor
TEST_F(AsyncCompileTest, WaitersThatAskForNothingSeeNothing) {
  const LiveThreads before;
  const test::Logged log;
  {
    const Backend backend = Backend::open(options());
    const FileDescriptor readable = backend.compile_async(adder("bad_one", x_, 1)).event().fd();
    pollfd ended{readable.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&ended, 1, -1), 1);
    static_cast<void>(backend.compile_async(adder("bad_two", x_, 1)));
    backend.finalize();
  }
  EXPECT_TRUE(before.others_end());
  EXPECT_EQ(log.count("nobody asked"), 2);
}

// J10: a deadline for one call
TEST_F(AsyncCompileTest, ACallMayHaveItsOwnDeadline) {
  hang();
  const Backend backend = Backend::open(options());
  CompileOptions limited;
  limited.timeout = 200ms;
  EXPECT_EQ(failure([&] { static_cast<void>(backend.compile(adder("a", x_, 1), limited)); }).code(),
            ErrorCode::deadline);
  EXPECT_EQ(failure([&] {
              static_cast<void>(backend.compile_async(adder("a", x_, 1), limited).get());
            }).code(),
            ErrorCode::deadline);
}

// J10: time holds in heddle's own stages too, and the error says in which it was over
TEST_F(AsyncCompileTest, TheDeadlineOfACallHoldsBeforeTheCompilerRuns) {
  Index i;
  Program large("large"), part("");
  for (int k = 0; k < 100; ++k) part << (x_(i) = x_(i) * 3 + k);
  for (int k = 0; k < 100; ++k) large << part;
  const Backend backend = Backend::open(options());
  CompileOptions limited;
  limited.timeout = 1ms;
  BatchOptions batch;
  batch.each.timeout = 1ms;
  const std::vector<Program> programs{large};
  for (const Status& status :
       {failure([&] { static_cast<void>(backend.compile(large, limited)); }),
        failure([&] { static_cast<void>(backend.compile_async(large, limited)); }),
        failure([&] { static_cast<void>(backend.compile_batch(programs, batch)); })}) {
    EXPECT_EQ(status.code(), ErrorCode::deadline);
    EXPECT_THAT(status.message(), HasSubstr("the compile of 'large' was out of time in stage '"));
  }
  BackendOptions hasty = options();
  hasty.compile_timeout = 1ms;
  const Status status = failure([&] { static_cast<void>(Backend::open(hasty).compile(large)); });
  EXPECT_EQ(status.code(), ErrorCode::deadline);
  EXPECT_THAT(status.message(), HasSubstr("in stage '"));
}

// Issue 4.6, S13: closing ends what still compiles, within its time
TEST_F(AsyncCompileTest, ClosingEndsACompilerThatHangs) {
  hang();
  const Backend backend = Backend::open(options());
  const PendingCode pending = backend.compile_async(adder("a", x_, 1));
  wait_until_it_hangs();
  static_cast<void>(failure([&] { backend.finalize(100ms); }));
  EXPECT_EQ(failure([&] { static_cast<void>(pending.get()); }).root().code(), ErrorCode::cancelled);
}

// J11: a warm start compiles nothing; counters say so
TEST_F(AsyncCompileTest, ASecondBackendFindsWhatTheFirstCompiled) {
  std::vector<Program> programs;
  for (int k = 0; k < 9; ++k) programs.push_back(adder("p" + std::to_string(k), x_, k));
  const auto counters = [&] {
    const Backend backend = Backend::open(options());
    static_cast<void>(backend.compile_batch(programs));
    return backend.compile_counters();
  };
  const KernelCacheCounters cold = counters();
  EXPECT_GT(cold.compiled, 0u);
  EXPECT_EQ(cold.stored, cold.compiled);
  const KernelCacheCounters warm = counters();
  EXPECT_EQ(warm.compiled, 0u);
  EXPECT_EQ(warm.disk_hits, cold.compiled);
}

// J7: postponed code is compiled at link, for its addresses, and stays off the disk
TEST_F(AsyncCompileTest, PostponedCodeMayBeCompiledMeanwhileToo) {
  const Backend backend = Backend::open(options());
  CompileOptions postponed;
  postponed.shared = false;
  const PendingCode pending = backend.compile_async(adder("add", x_, 5), postponed);
  const Device device = backend.physical_device(0).new_virtual_device();
  const Routine run = Context(device).link(pending);
  run.schedule();
  EXPECT_EQ(run.context().read<std::int32_t>(x_)[0], 5);
  EXPECT_EQ(backend.compile_counters().disabled, 1u);
  EXPECT_EQ(backend.compile_counters().stored, 0u);
}

#ifndef HEDDLE_TSAN  // whose own locks other threads may hold as their process is forked
// S14: a forked child gets `unavailable`
TEST_F(AsyncCompileTest, AForkedChildIsToldSo) {
  const Backend backend = Backend::open(options());
  static_cast<void>(backend.compile_async(adder("a", x_, 1)).get());
  const Program program = adder("b", x_, 2);
  const std::vector<Program> programs{program, adder("c", x_, 3)};
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused =
        failure([&] { static_cast<void>(backend.compile_async(program)); }).code() ==
            ErrorCode::unavailable &&
        failure([&] { static_cast<void>(backend.compile_batch(programs)); }).code() ==
            ErrorCode::unavailable;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(backend.compile_async(program).get().name(), "b");
}
#endif

}  // namespace
}  // namespace heddle
