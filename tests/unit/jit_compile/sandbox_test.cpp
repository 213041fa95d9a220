// Compiling where the system grants less than usual: no fcntl(), no /proc, no code in temporary
// files. Each time it works all the same, or an error says what is missing, and nothing that is
// sound is thrown away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <functional>

#include "cached.hpp"
#include "files/temp_dir.hpp"
#include "jit/system/process.hpp"
#include "jit/system/programs.hpp"

namespace heddle::jit::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

enum class Outcome : std::uint8_t { good, bad, not_possible_here };

/// Runs `body` in a process of its own, after `restrict_it`, which says whether it could. A body
/// that hangs is ended.
Outcome in_child(const std::function<bool()>& restrict_it, const std::function<void()>& body) {
  constexpr unsigned seconds_max = 120;
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds_max);
    if (!restrict_it()) _exit(2);
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return Outcome::bad;
  const int code = WEXITSTATUS(status);
  return code == 0 ? Outcome::good : code == 2 ? Outcome::not_possible_here : Outcome::bad;
}

/// Has the kernel refuse a call from now on, in children too.
bool deny(int number) {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{sizeof rules / sizeof rules[0], rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Gives this process a view of its own in which that folder is empty.
bool hide(const char* folder) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", folder, "tmpfs", 0, "size=4k") == 0;
}
bool hide_proc() { return hide("/proc"); }

TEST(SandboxTest, DeadlinesHoldWithoutFcntl) {
  // J10: a compiler that hangs is ended in time, and its words are kept
  const Scratch scratch;
  ToolOptions options = scratch.options();
  // A shell that reads a script needs fcntl() itself.
  const auto source = scratch.path() / "hangs.c", program = scratch.tools() / "hangs";
  write_file(source,
             "#include <stdio.h>\n#include <unistd.h>\n"
             "int main(void) { puts(\"last words\"); fflush(stdout); for (;;) pause(); }\n");
  ASSERT_TRUE(
      run_command({{find_program("cc", {})->string(), "-o", program.string(), source.string()}, {}},
                  60s)
          .exit.success());
  options.cc = program.string();
  options.compile_timeout = 1s;
  const Outcome outcome =
      in_child([] { return deny(SYS_fcntl); },
               [&] {
                 const Status status = compile_failure(*make_cc_compiler(options));
                 EXPECT_EQ(status.code(), ErrorCode::deadline) << status.to_string();
                 EXPECT_THAT(status.to_string(), HasSubstr("last words"));
               });
  if (outcome == Outcome::not_possible_here)
    GTEST_SKIP() << "no system call filter can be set here";
  EXPECT_EQ(outcome, Outcome::good);
  EXPECT_EQ(scratch.leftovers(), 0);
}

TEST(SandboxTest, CompilesAndKeepsWithoutFcntl) {
  // J10, J11: memory that cannot be sealed is not loaded from; a file serves
  const CacheScratch here;
  const Outcome outcome = in_child([] { return deny(SYS_fcntl); },
                                   [&] {
                                     EXPECT_EQ(here.use(7).stored, 1u);
                                     EXPECT_EQ(here.use(7).disk_hits, 1u);
                                   });
  if (outcome == Outcome::not_possible_here)
    GTEST_SKIP() << "no system call filter can be set here";
  EXPECT_EQ(outcome, Outcome::good);
  EXPECT_THAT(here.entries(), SizeIs(1));
  EXPECT_EQ(here.scratch.leftovers(), 0);
}

TEST(SandboxTest, LoadsFromAFileWithoutProc) {
  // J10, J11: what is compiled and what is kept; entries stay, and no file is left
  const CacheScratch here;
  const Outcome outcome = in_child(hide_proc, [&] {
    const KernelCacheCounters cold = here.use(7);
    EXPECT_EQ(cold.stored, 1u);
    const KernelCacheCounters warm = here.use(7);
    EXPECT_EQ(warm.disk_hits, 1u);
    EXPECT_EQ(warm.compiled, 0u);
    EXPECT_EQ(warm.corrupt, 0u);
    // Two at once are two libraries.
    const auto compiler = here.open();
    const auto first = loaded(*compiler->compile(adder_unit(1)), here.load_options());
    const auto second = loaded(*compiler->compile(adder_unit(2)), here.load_options());
    EXPECT_EQ(run_adder(*first), 2);
    EXPECT_EQ(run_adder(*second), 3);
    EXPECT_EQ(here.scratch.leftovers(), 0);
    EXPECT_THAT(here.warnings, IsEmpty());
  });
  if (outcome == Outcome::not_possible_here) GTEST_SKIP() << "cannot mount here";
  EXPECT_EQ(outcome, Outcome::good);
  EXPECT_THAT(here.entries(), SizeIs(3));
}

TEST(SandboxTest, CompilesWithoutDevices) {
  // J14: nobody needs /dev/null
  const CacheScratch here;
  const Outcome outcome =
      in_child([] { return hide("/dev"); }, [&] { EXPECT_EQ(here.use(7).stored, 1u); });
  if (outcome == Outcome::not_possible_here) GTEST_SKIP() << "cannot mount here";
  EXPECT_EQ(outcome, Outcome::good);
}

TEST(SandboxTest, CompilesWithoutAPath) {
  // J14: compilers find assembler and linker where they were found themselves
  const CacheScratch here;
  const Outcome outcome =
      in_child([] { return unsetenv("PATH") == 0; }, [&] { EXPECT_EQ(here.use(7).stored, 1u); });
  EXPECT_EQ(outcome, Outcome::good);
}

TEST(SandboxTest, WhereNothingCanBeLoadedTheSystemIsNamedAndEntriesStay) {
  // J10, J11: neither compiler nor entry is at fault when /proc and executable files are missing
  const CacheScratch here;
  static_cast<void>(here.use(7));
  const auto hide_all = [&] {
    return hide_proc() &&
           mount("none", here.scratch.temp().c_str(), "tmpfs", MS_NOEXEC, "size=64m") == 0;
  };
  const Outcome outcome = in_child(hide_all, [&] {
    for (const int value : {7, 8}) {  // kept, and compiled
      const auto compiled = here.open()->compile(adder_unit(value));
      const Status status =
          failure([&] { static_cast<void>(loaded(*compiled, here.load_options())); });
      EXPECT_EQ(status.code(), ErrorCode::unavailable) << status.to_string();
      EXPECT_THAT(status.to_string(), AllOf(HasSubstr("/proc"), HasSubstr("HEDDLE_TEMP_DIR"),
                                            HasSubstr("cannot be mapped as code")));
    }
  });
  if (outcome == Outcome::not_possible_here) GTEST_SKIP() << "cannot mount here";
  EXPECT_EQ(outcome, Outcome::good);
  EXPECT_THAT(here.entries(), SizeIs(2));
  EXPECT_EQ(here.use(7).disk_hits, 1u);
}

}  // namespace
}  // namespace heddle::jit::testing
