// Child processes: how they end, what they print, what they leave behind.
#include "jit/system/process.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "heddle/status.hpp"
#include "jit/system/programs.hpp"
#include "scratch.hpp"

namespace heddle::jit::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Command shell(const std::string& script) { return {{"/bin/sh", "-c", script}, {}}; }

Deadline in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

/// Whether a process of that id is there and is not a zombie.
bool is_running(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto end = text.rfind(')');
  return end != std::string::npos && end + 2 < text.size() && text[end + 2] != 'Z';
}

TEST(ProcessTest, ReportsExitStatusAndSignal) {
  // J10, O48
  EXPECT_TRUE(run_command(shell("exit 0"), 30s).exit.success());
  const RunResult failed = run_command(shell("exit 3"), 30s);
  EXPECT_EQ(failed.exit.describe(), "exit status 3");
  const RunResult killed = run_command(shell("kill -SEGV $$"), 30s);
  EXPECT_THAT(killed.exit.describe(), HasSubstr("signal 11"));
  EXPECT_FALSE(killed.killed);
}

TEST(ProcessTest, NamesTheProgramThatCannotStart) {
  // J10: compiler missing
  try {
    static_cast<void>(run_command({{"/dev/null/nowhere/cc"}, {}}, 30s));
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_THAT(error.what(), HasSubstr("/dev/null/nowhere/cc"));
  }
}

TEST(ProcessTest, CollectsBothStreamsInOrder) {
  // O48: the log is captured
  EXPECT_EQ(run_command(shell("echo one; echo two >&2; echo three"), 30s).output,
            "one\ntwo\nthree\n");
}

TEST(ProcessTest, TenMegabytesKeepTheirHeadAndTail) {
  // J10: prints 10 MB
  const RunResult result = run_command(
      shell("echo first; head -c 10000000 /dev/zero | tr '\\0' x; echo; echo last"), 60s);
  EXPECT_TRUE(result.exit.success());
  EXPECT_LT(result.output.size(), 3 * BoundedText::part_bytes_max);
  EXPECT_TRUE(result.output.starts_with("first\n"));
  EXPECT_TRUE(result.output.ends_with("\nlast\n"));
  EXPECT_THAT(result.output, HasSubstr("bytes left out"));
}

TEST(ProcessTest, ADeadlineEndsTheWholeGroup) {
  // J10: hang killed by process group, no orphan
  const RunResult result = run_command(shell("sleep 1000 & echo $!; exec sleep 1000"), 300ms);
  EXPECT_TRUE(result.killed);
  EXPECT_THAT(result.exit.describe(), HasSubstr("signal 9"));
  const auto grandchild = static_cast<pid_t>(std::stol(result.output));
  const auto until = in(20s);
  while (is_running(grandchild) && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  EXPECT_FALSE(is_running(grandchild));
}

TEST(ProcessTest, WhatTheChildLeavesBehindIsEndedToo) {
  // J10: no orphan, and its hold on the pipe does not hold us
  const RunResult result = run_command(shell("sleep 1000 & echo $!"), 60s);
  EXPECT_FALSE(result.killed);
  EXPECT_TRUE(result.exit.success());
  const auto left = static_cast<pid_t>(std::stol(result.output));
  const auto until = in(20s);
  while (is_running(left) && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_FALSE(is_running(left));
}

TEST(ProcessTest, StdinIsEmpty) {
  // A.6: stdin closed
  EXPECT_EQ(run_command(shell("cat; echo end"), 30s).output, "end\n");
}

TEST(ProcessTest, ChildrenInheritNoDescriptors) {
  // A.6: not even those that the host opened without care
  const int careless = open("/dev/null", O_RDONLY);
  const std::string output = run_command(shell("ls /proc/self/fd | wc -w"), 30s).output;
  close(careless);
  EXPECT_EQ(std::stoi(output), 4);  // 0, 1, 2 and the one that ls reads the directory with
}

TEST(ProcessTest, EnvironmentIsPassedOnAndOverridden) {
  // A.6
  setenv("HEDDLE_TEST_INHERITED", "old", 1);
  const std::string script = "echo $HEDDLE_TEST_INHERITED $HEDDLE_TEST_OWN";
  Command command = shell(script);
  command.environment = {"HEDDLE_TEST_OWN=mine"};
  EXPECT_EQ(run_command(command, 30s).output, "old mine\n");
  command.environment.push_back("HEDDLE_TEST_INHERITED=new");
  EXPECT_EQ(run_command(command, 30s).output, "new mine\n");
  unsetenv("HEDDLE_TEST_INHERITED");
}

// J14: where the host's build has GCC note what it read, kernels are not among it
TEST(ProcessTest, FilesOfOtherCompilesAreNotWritten) {
  for (const char* name : {"DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES"}) {
    setenv(name, "host.d", 1);
    EXPECT_EQ(run_command(shell(std::string("echo $") + name), 30s).output, "\n") << name;
    unsetenv(name);
  }
}

TEST(ProcessTest, SignalsOfTheHostAreNotTheChildrens) {
  // J10: blocked and ignored signals do not reach the compiler
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto old = signal(SIGINT, SIG_IGN);
  const RunResult term = run_command(shell("kill -TERM $$; exit 0"), 30s);
  const RunResult interrupt = run_command(shell("kill -INT $$; exit 0"), 30s);
  signal(SIGINT, old);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(term.exit.kind, Exit::Kind::signalled);
  EXPECT_EQ(interrupt.exit.kind, Exit::Kind::signalled);
}

TEST(ProcessTest, WorksInAHostThatIgnoresSigchld) {
  // J10: the kernel reaps our children then; the status is unknown, and said to be so
  const auto old = signal(SIGCHLD, SIG_IGN);
  const RunResult result = run_command(shell("echo out; exit 7"), 30s);
  const RunResult hung = run_command(shell("exec sleep 1000"), 200ms);
  signal(SIGCHLD, old);
  EXPECT_EQ(result.exit.kind, Exit::Kind::unknown);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_THAT(result.exit.describe(), HasSubstr("SIGCHLD"));
  EXPECT_TRUE(hung.killed);
}

TEST(ProcessTest, SpeaksOverTheSocketAndSurvivesItsEnd) {
  // J10: no SIGPIPE ends the host
  const auto old = signal(SIGPIPE, SIG_DFL);
  Child child({{"/bin/sh", "-c", "cat <&0 >&0; exit 5"}, {}}, Child::Channel::socket);
  const std::vector<std::byte> sent(100, std::byte{42});
  std::vector<std::byte> got(100);
  EXPECT_EQ(child.send(sent, in(30s)), Child::Io::done);
  EXPECT_EQ(child.receive(got, in(30s)), Child::Io::done);
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(child.alive());
  EXPECT_EQ(child.receive(got, in(100ms)), Child::Io::out_of_patience);
  child.finish();
  Child gone(shell("exit 0"), Child::Channel::socket);
  EXPECT_EQ(gone.receive(got, in(30s)), Child::Io::closed);
  const std::vector<std::byte> much(1 << 20);
  EXPECT_EQ(gone.send(much, in(30s)), Child::Io::closed);
  signal(SIGPIPE, old);
}

TEST(ProcessTest, AChildThatReadsNothingTimesOut) {
  // J10: no send blocks for ever
  Child child(shell("exec sleep 1000"), Child::Channel::socket);
  const std::vector<std::byte> much(std::size_t{16} << 20);
  EXPECT_EQ(child.send(much, in(200ms)), Child::Io::out_of_patience);
}

TEST(ProcessTest, InterruptedCallsGoOn) {
  // J10: signals during waits
  struct sigaction action{};
  action.sa_handler = [](int) {};
  struct sigaction old{};
  sigaction(SIGUSR1, &action, &old);  // without SA_RESTART
  const pthread_t self = pthread_self();
  std::atomic<bool> done{false};
  std::thread pest([&] {
    // relaxed: only ends the loop; the join below orders everything else
    while (!done.load(std::memory_order_relaxed)) pthread_kill(self, SIGUSR1);
  });
  const RunResult result = run_command(shell("sleep 0.2; echo fine; exit 4"), 60s);
  // relaxed: pairs with the load above, which only ends the loop
  done.store(true, std::memory_order_relaxed);
  pest.join();
  sigaction(SIGUSR1, &old, nullptr);
  EXPECT_EQ(result.output, "fine\n");
  EXPECT_EQ(result.exit.describe(), "exit status 4");
}

TEST(ProcessTest, LeavesNoDescriptorAndNoZombie) {
  // J10: counted
  static_cast<void>(run_command(shell("exit 0"), 30s));
  const int descriptors = open_descriptors();
  const int processes = children();
  for (int k = 0; k < 30; ++k) {
    static_cast<void>(run_command(shell("exit 1"), 30s));
    Child dropped(shell("exec sleep 1000"), Child::Channel::socket);
    try {
      static_cast<void>(run_command({{"/dev/null/nowhere"}, {}}, 30s));
    } catch (const Error&) {  // expected: nothing may leak on this path either
    }
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(children(), processes);
}

TEST(ProcessTest, FindsProgramsAsAShellDoes) {
  // A.6: never in the current directory
  const Scratch scratch;
  const auto tool = scratch.tool("thing", "exit 0");
  std::ofstream(scratch.tools() / "data") << "x";
  const std::vector<std::string> environment{"PATH=:.:/dev/null/nowhere:" +
                                             scratch.tools().string()};
  EXPECT_EQ(find_program("thing", environment), tool);
  EXPECT_EQ(find_program(tool.string(), {}), tool);
  EXPECT_EQ(find_program("data", environment), std::nullopt);
  EXPECT_EQ(find_program("", environment), std::nullopt);
  EXPECT_EQ(find_program("thing", {"PATH=/dev/null/nowhere"}), std::nullopt);
}

TEST(BoundedTextTest, KeepsShortTextsWhole) {
  // J10
  BoundedText text;
  std::string all;
  while (all.size() + 7 < 2 * BoundedText::part_bytes_max) {
    text.append("1234567");
    all += "1234567";
  }
  EXPECT_EQ(text.str(), all);
  EXPECT_EQ(text.total_bytes(), all.size());
}

}  // namespace
}  // namespace heddle::jit::testing
