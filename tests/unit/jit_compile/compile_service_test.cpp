// The compile service in one process: modules that are shared, compiles that threads share, limits
// and what others have of them, forked children.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "cached.hpp"

namespace heddle::jit::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

class ServiceTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, ServiceTest, ::testing::Values("cc", "gccjit"), param_name);

TEST_P(ServiceTest, AModuleThatIsHeldIsNotMadeAgain) {
  // J11: in memory, weakly: what nobody holds is unloaded
  const auto compiler = make();
  auto first = compiler->compile(adder_unit(1));
  EXPECT_EQ(compiler->compile(adder_unit(1)), first);
  EXPECT_NE(compiler->compile(adder_unit(2)), first);
  EXPECT_EQ(compiler->counters().memory_hits, 1u);
  EXPECT_EQ(compiler->counters().compiled, 2u);
  const std::weak_ptr<const Compiled> gone = first;
  first.reset();
  EXPECT_TRUE(gone.expired());
  EXPECT_EQ(run_adder(*compiler->compile(adder_unit(1))), 2);
  EXPECT_EQ(compiler->counters().compiled, 3u);
}

TEST_P(ServiceTest, ThreadsThatAskAtOnceShareOneCompile) {
  // J11, J5
  const auto compiler = make();
  std::vector<std::shared_ptr<const Compiled>> modules(8);
  std::vector<std::thread> threads;
  for (auto& module : modules)
    threads.emplace_back([&] { module = compiler->compile(adder_unit(3)); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& module : modules) EXPECT_EQ(module, modules[0]);
  EXPECT_EQ(run_adder(*modules[0]), 4);
  const KernelCacheCounters counters = compiler->counters();
  EXPECT_EQ(counters.compiled, 1u);
  EXPECT_EQ(counters.shared + counters.memory_hits, 7u);
}

TEST(CompileServiceTest, CompilersReplacedMeanwhileAreNotCached) {
  // J11: the key is of the compiler that was there before
  CacheScratch here;
  here.options.cc =
      here.scratch
          .tool("cc", "case \"$*\" in *-shared*) touch -d '+1 hour' \"$0\";; esac; exec cc \"$@\"")
          .string();
  const auto compiler = here.open();
  EXPECT_EQ(run_adder(*compiler->compile(adder_unit(7))), 8);
  EXPECT_EQ(compiler->counters().compiled, 1u);
  EXPECT_EQ(compiler->counters().stored, 0u);
}

TEST(CompileServiceTest, AFailureIsSharedAndForgotten) {
  // J10, J11: waiters get the same words; the next compile tries again
  const Scratch scratch;
  ToolOptions options = scratch.options();
  const auto flag = scratch.path() / "broken";
  std::ofstream(flag) << "yes";
  options.cc = scratch
                   .tool("cc2", "[ -e " + flag.string() +
                                    " ] && { echo no such luck >&2; exit 1; }\nexec cc \"$@\"")
                   .string();
  const auto compiler = make_cc_compiler(options);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] {
      const Status status = compile_failure(*compiler, adder_unit(1));
      if (status.code() == ErrorCode::compile_failed &&
          status.to_string().find("no such luck") != std::string::npos)
        ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 4);
  std::filesystem::remove(flag);
  EXPECT_EQ(run_adder(*compiler->compile(adder_unit(1))), 2);
}

/// A compiler that hangs while a file exists; it makes another when it began.
class HangingCc {
 public:
  HangingCc() {
    std::ofstream(hang_) << "yes";
    options_ = scratch_.options();
    options_.cc = scratch_
                      .tool("cc2", "if [ -e " + hang_.string() + " ]; then echo > " +
                                       began_.string() + "; exec sleep 1000; fi\nexec cc \"$@\"")
                      .string();
  }
  [[nodiscard]] std::shared_ptr<const Compiler> open() const { return make_cc_compiler(options_); }
  void wait_until_it_hangs() const {
    while (!std::filesystem::exists(began_)) std::this_thread::yield();
  }
  void mend() const { std::filesystem::remove(hang_); }
  [[nodiscard]] int leftovers() const { return scratch_.leftovers(); }

 private:
  Scratch scratch_;
  std::filesystem::path hang_ = scratch_.path() / "hang", began_ = scratch_.path() / "began";
  ToolOptions options_;
};

TEST(CompileServiceTest, ADeadlineOfTheCallEndsTheCompiler) {
  // J10: a deadline besides the compiler's own
  const HangingCc cc;
  const auto compiler = cc.open();
  CompileLimits limits;
  limits.deadline = steady_clock::now() + 300ms;
  const Status status = compile_failure(*compiler, adder_unit(1), limits);
  EXPECT_EQ(status.code(), ErrorCode::deadline) << status.to_string();
  EXPECT_THAT(status.to_string(), HasSubstr("adder"));
  EXPECT_EQ(children(), 0);
  EXPECT_EQ(cc.leftovers(), 0);
  cc.mend();
  EXPECT_EQ(run_adder(*compiler->compile(adder_unit(1))), 2);
}

TEST(CompileServiceTest, AStopEndsTheCompilerAtOnce) {
  // J10: cancelled; nothing is left behind
  const HangingCc cc;
  const int descriptors = open_descriptors();
  const auto compiler = cc.open();
  CompileLimits limits;
  std::stop_source stop;
  limits.stop = stop.get_token();
  Status status;
  std::thread thread([&] { status = compile_failure(*compiler, adder_unit(1), limits); });
  cc.wait_until_it_hangs();
  stop.request_stop();
  thread.join();
  EXPECT_EQ(status.code(), ErrorCode::cancelled) << status.to_string();
  EXPECT_EQ(children(), 0);
  EXPECT_EQ(cc.leftovers(), 0);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(compile_failure(*compiler, adder_unit(1), limits).code(), ErrorCode::cancelled);
  cc.mend();
  EXPECT_EQ(run_adder(*compiler->compile(adder_unit(1))), 2);
}

TEST(CompileServiceTest, WhoWaitsIsNotCancelledWithWhoCompiles) {
  // J11: the one that waited compiles then; a waiter may be cancelled or late alone, too
  const HangingCc cc;
  const auto compiler = cc.open();
  std::stop_source stop;
  std::thread first([&] {
    EXPECT_EQ(compile_failure(*compiler, adder_unit(1), {{}, stop.get_token()}).code(),
              ErrorCode::cancelled);
  });
  cc.wait_until_it_hangs();
  EXPECT_EQ(compile_failure(*compiler, adder_unit(1), {steady_clock::now() + 50ms, {}}).code(),
            ErrorCode::deadline);
  std::stop_source other;
  std::thread second([&] {
    EXPECT_EQ(compile_failure(*compiler, adder_unit(1), {{}, other.get_token()}).code(),
              ErrorCode::cancelled);
  });
  other.request_stop();
  second.join();
  std::shared_ptr<const Compiled> module;
  std::thread third([&] { module = compiler->compile(adder_unit(1)); });
  cc.mend();
  stop.request_stop();
  first.join();
  third.join();
  EXPECT_EQ(run_adder(*module), 2);
}

TEST(CompileServiceTest, AHelperIsCancelledToo) {
  // J10: gccjit, whose helper is then replaced
  const Scratch scratch;
  const auto hang = scratch.path() / "hang";
  const auto began = scratch.path() / "began";
  std::ofstream(hang) << "yes";
  scratch.tool("as", "if [ -e " + hang.string() + " ]; then echo > " + began.string() +
                         "; exec sleep 1000; fi\nexec as \"$@\"");
  scratch.tool("ld", "exec ld \"$@\"");
  const auto compiler = make_gccjit_compiler(scratch.options(true));
  std::stop_source stop;
  Status status;
  std::thread thread(
      [&] { status = compile_failure(*compiler, adder_unit(1), {{}, stop.get_token()}); });
  while (!std::filesystem::exists(began)) std::this_thread::yield();
  stop.request_stop();
  thread.join();
  EXPECT_EQ(status.code(), ErrorCode::cancelled) << status.to_string();
  EXPECT_EQ(children(), 0);
  std::filesystem::remove(hang);
  EXPECT_EQ(run_adder(*compiler->compile(adder_unit(1))), 2);
}

TEST_P(ServiceTest, AForkedChildIsToldSo) {
  // S14: unavailable, never a hang, even when another thread held a lock
  const auto compiler = make();
  const auto held = compiler->compile(adder_unit(1));
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    // relaxed: a flag that the test polls, which publishes nothing (pairs with the store below).
    while (!stop.load(std::memory_order_relaxed))
      static_cast<void>(compiler->compile(adder_unit(1)));
  });
  for (int k = 0; k < 20; ++k) {
    const pid_t child = fork();
    if (child == 0) {
      const bool refused =
          compile_failure(*compiler, adder_unit(1)).code() == ErrorCode::unavailable;
      _exit(refused ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  // relaxed: see above.
  stop.store(true, std::memory_order_relaxed);
  busy.join();
}

}  // namespace
}  // namespace heddle::jit::testing
