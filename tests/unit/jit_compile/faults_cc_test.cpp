// A C compiler that is missing, fails, dies, hangs or lies: each time an error that says so,
// nothing left behind, and the next compile works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "adder.hpp"
#include "files/temp_dir.hpp"
#include "jit/toolchain/toolchain.hpp"
#include "scratch.hpp"

namespace heddle::jit::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Output of `-o`, for scripts that write it themselves.
const char* const output_file = "while [ \"$1\" != -o ]; do shift; done; out=$2\n";

/// A compiler that misbehaves as `script` says while the file `broken` exists.
class FaultyCc {
 public:
  explicit FaultyCc(const std::string& script) {
    const auto flag = scratch.path() / "broken";
    std::ofstream(flag) << "yes";
    options = scratch.options();
    options.cc =
        scratch
            .tool("cc", "if [ -e " + flag.string() + " ]; then\n" + script + "\nfi\nexec cc \"$@\"")
            .string();
    options.compile_timeout = 1s;
  }
  void mend() {
    std::filesystem::remove(scratch.path() / "broken");
    options.compile_timeout = 60s;
  }

  Scratch scratch;
  ToolOptions options;
};

struct Fault {
  const char* name;
  const char* script;  // OUT: sets $out to the library's path
  ErrorCode code;
  const char* words;  // the message has these
};

const Fault faults[] = {
    {"ExitsOne", "echo 'unit.c:1: error: no such luck' >&2; exit 1", ErrorCode::compile_failed,
     "no such luck"},
    {"HasNoTools", "cc=$(command -v cc); PATH=/dev/null/nowhere; exec $cc \"$@\"",
     ErrorCode::compile_failed, "install binutils there"},
    {"ExitStatus", "exit 42", ErrorCode::compile_failed, "exit status 42"},
    {"Killed", "kill -9 $$", ErrorCode::compile_failed, "signal 9"},
    {"Crashes", "kill -SEGV $$", ErrorCode::compile_failed, "signal 11"},
    {"Hangs", "sleep 1000 & exec sleep 1000", ErrorCode::deadline, "did not end within"},
    {"HangsDeafly", "trap '' TERM INT HUP; while :; do sleep 10; done", ErrorCode::deadline,
     "did not end within"},
    {"PrintsTenMegabytes",
     "echo begin; head -c 10000000 /dev/zero | tr '\\0' x; echo; echo end >&2; exit 1",
     ErrorCode::compile_failed, "bytes left out"},
    {"WritesNothing", "exit 0", ErrorCode::compile_failed, "cannot open"},
    {"WritesGarbage", "OUT echo garbage > $out; exit 0", ErrorCode::compile_failed,
     "not an ELF file"},
    {"WritesADirectory", "OUT mkdir $out; exit 0", ErrorCode::compile_failed, "no regular file"},
    {"WritesAPipe", "OUT mkfifo $out; exit 0", ErrorCode::compile_failed, "no regular file"},
    {"WritesALink", "OUT ln -s /etc/passwd $out; exit 0", ErrorCode::compile_failed, "cannot open"},
    {"WritesHalf", "cc \"$@\"; OUT truncate -s 1000 $out; exit 0", ErrorCode::compile_failed,
     "cut short"},
    {"WritesAnObject", "OUT echo 'int x;' > $out.c; cc -c -o $out $out.c; exit 0",
     ErrorCode::compile_failed, "not a shared library"},
    {"WritesAnotherUnit", "OUT echo 'int x;' > $out.c; cc -shared -o $out $out.c; exit 0",
     ErrorCode::compile_failed, "heddle_unit_abi"},
};

class CcFaultTest : public ::testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(All, CcFaultTest, ::testing::ValuesIn(faults),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(CcFaultTest, IsAnErrorAndTheNextCompileWorks) {
  // J10, J14, O48
  const Fault& fault = GetParam();
  std::string script = fault.script;
  if (const auto at = script.find("OUT "); at != std::string::npos)
    script.replace(at, 4, output_file);
  FaultyCc faulty(script);
  const int descriptors = open_descriptors();
  const int processes = children();
  const auto compiler = make_cc_compiler(faulty.options);
  const Status status = compile_failure(*compiler);
  EXPECT_EQ(status.code(), fault.code) << status.to_string();
  const std::string text = status.to_string();
  EXPECT_THAT(text, HasSubstr(fault.words));
  EXPECT_THAT(text, HasSubstr("unit 'bad'"));
  EXPECT_THAT(text, HasSubstr(faulty.options.cc)) << "the command is named";
  EXPECT_LT(text.size(), 50'000u);
  const auto at = text.find("the source is kept in ");
  ASSERT_NE(at, std::string::npos) << text;
  const std::string path = text.substr(at + 22, text.find('\n', at) - at - 22);
  EXPECT_THAT(read_text(path), HasSubstr("heddle_run_bad"));
  EXPECT_EQ(faulty.scratch.leftovers(), 0);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(children(), processes);
  faulty.mend();
  if (fault.code == ErrorCode::deadline) {
    EXPECT_THAT(text, HasSubstr("HEDDLE_COMPILE_TIMEOUT"));
    expect_works(*make_cc_compiler(faulty.options));
  } else {
    expect_works(*compiler);
  }
  EXPECT_EQ(faulty.scratch.leftovers(), 0);
}

TEST(CcFaultsTest, AMissingCompilerIsUnavailable) {
  // J10, B1: names the command, PATH and what to do
  const Scratch scratch;
  ToolOptions options = scratch.options(true);
  const auto by_name = make_cc_compiler(options);
  EXPECT_EQ(by_name->available().code(), ErrorCode::unavailable);
  EXPECT_EQ(compile_failure(*by_name).code(), ErrorCode::unavailable);
  EXPECT_THAT(compile_failure(*by_name).to_string(), HasSubstr("PATH=" + scratch.tools().string()));
  EXPECT_THAT(failure([&] { static_cast<void>(by_name->describe()); }).to_string(),
              HasSubstr("not found"));
  for (const char* command : {"/dev/null/nowhere/cc", "", "  "}) {
    options.cc = command;
    const Status status = compile_failure(*make_cc_compiler(options));
    EXPECT_EQ(status.code(), ErrorCode::unavailable);
    EXPECT_THAT(status.to_string(), HasSubstr("HEDDLE_CC"));
  }
  EXPECT_EQ(scratch.leftovers(), 0);
}

TEST(CcFaultsTest, WhatSendsGccElsewhereIsNamed) {
  const Scratch scratch;
  ToolOptions options = scratch.options();
  options.environment.emplace_back("GCC_EXEC_PREFIX=/nowhere/");
  EXPECT_THAT(compile_failure(*make_cc_compiler(options)).to_string(),
              HasSubstr("GCC_EXEC_PREFIX=/nowhere/ says; unset that"));
}

TEST(CcFaultsTest, TheCommandMayHaveWords) {
  // HEDDLE_CC="ccache gcc": words are arguments, a path with blanks is one
  const Scratch scratch;
  ToolOptions options = scratch.options();
  options.cc = "env HEDDLE_TEST=1 cc";
  expect_works(*make_cc_compiler(options));
  options.cc = scratch.tool("my cc", "exec cc \"$@\"").string();
  expect_works(*make_cc_compiler(options));
}

TEST(CcFaultsTest, FlagsOfTheUserComeLastAndBadOnesAreShown) {
  // O48: flags are configurable
  const Scratch scratch;
  ToolOptions options = scratch.options();
  options.cflags = {"-O0", "-DHEDDLE_TEST=1"};
  expect_works(*make_cc_compiler(options));
  options.cflags = {"--no-such-flag"};
  EXPECT_THAT(compile_failure(*make_cc_compiler(options)).to_string(), HasSubstr("no-such-flag"));
}

TEST(CcFaultsTest, FlagsOfTheUserMayNeedStartFiles) {
  // O48: such as clang's --coverage, whose library calls atexit()
  const Scratch scratch;
  ToolOptions options = scratch.options();
  const auto header = scratch.path() / "handle.h";
  write_file(header,
             "extern char __dso_handle __attribute__((visibility(\"hidden\")));\n"
             "const void* const heddle_test_handle = &__dso_handle;\n");
  options.cflags = {"-include", header.string()};
  expect_works(*make_cc_compiler(options));
}

TEST(CcFaultsTest, FlagsThatChangeTheInstructionSetAreRefusedByName) {
  // Bad input: kernels are written for one instruction set, whose flags they bring along
  const Scratch scratch;
  ToolOptions options = scratch.options();
  for (const char* flag : {"-march=x86-64", "-mno-avx2", "-mavx512fp16", "-m32", "@flags",
                           "--target=aarch64-linux-gnu", "-mcpu=cortex-a72"}) {
    options.cflags = {"-g", flag};
    const Status status = make_cc_compiler(options)->available();
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << flag;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(flag), HasSubstr("HEDDLE_CFLAGS"), HasSubstr("HEDDLE_ISA")));
    EXPECT_EQ(compile_failure(*make_cc_compiler(options)).code(), ErrorCode::invalid_argument)
        << flag;
    ToolOptions in_command = scratch.options();
    in_command.cc += std::string(" ") + flag;
    EXPECT_EQ(make_cc_compiler(in_command)->available().code(), ErrorCode::invalid_argument)
        << flag;
  }
  for (const char* flag : {"-ffast-math", "-Ofast"}) {
    options.cflags = {flag};
    EXPECT_THAT(make_cc_compiler(options)->available().to_string(), HasSubstr("fast_math")) << flag;
  }
#if defined(__x86_64__)
  options.cflags = {"-mtune=native", "-mprefer-vector-width=256"};
  expect_works(*make_cc_compiler(options));
#endif
}

TEST(CcFaultsTest, FewerInstructionsThanTheProcessorHasAreEnough) {
  // B3: vectors, the compiler's own and those of kernels, stay within what is asked for
  const Scratch scratch;
  ToolOptions options = scratch.options();
  for (const Isa isa :
       {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_vnni, Isa::avx512_bf16}) {
    if (isa > native_target().isa) {
      EXPECT_THROW(static_cast<void>(narrowed_target(name(isa))), Error);
      continue;
    }
    options.target = narrowed_target(name(isa));
    EXPECT_EQ(options.target.isa, isa);
    expect_works(*make_cc_compiler(options));
#if defined(__x86_64__)
    const auto march = cc_flags(options)[1];
    EXPECT_EQ(march, isa == native_target().isa ? "-march=native"
                     : isa >= Isa::avx512       ? "-march=x86-64-v4"
                     : isa == Isa::avx2         ? "-march=x86-64-v3"
                                                : "-march=x86-64");
#endif
  }
  EXPECT_THROW(static_cast<void>(narrowed_target("none")), Error);
  EXPECT_THROW(static_cast<void>(narrowed_target("AVX2")), Error);
}

TEST(CcFaultsTest, AnUnwritableTempDirectoryIsNamed) {
  // J10
  for (const char* directory : {"/dev/null/nowhere/temp", "/proc/self", "/etc/passwd"}) {
    ToolOptions options;
    options.temp_dir = directory;
    const Status status = compile_failure(*make_cc_compiler(options));
    EXPECT_EQ(status.code(), ErrorCode::unavailable);
    EXPECT_THAT(status.to_string(), HasSubstr(directory));
    EXPECT_THAT(status.to_string(), HasSubstr("TMPDIR"));
  }
  expect_works(*make_cc_compiler({}));
}

TEST(CcFaultsTest, AFullTempDirectoryIsAnError) {
  // J10: full disk
  const Scratch scratch;
  if (mount("none", scratch.temp().c_str(), "tmpfs", 0, "size=8k") != 0)
    GTEST_SKIP() << "cannot mount a small file system here";
  const auto compiler = make_cc_compiler(scratch.options());
  const Status status = compile_failure(*compiler);
  EXPECT_TRUE(status.code() == ErrorCode::compile_failed || status.code() == ErrorCode::unavailable)
      << status.to_string();
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("o space left"), HasSubstr("HEDDLE_TEMP_DIR")));
  EXPECT_EQ(scratch.leftovers(), 0);
  EXPECT_EQ(mount("none", scratch.temp().c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  expect_works(*compiler);
  EXPECT_EQ(umount2(scratch.temp().c_str(), MNT_DETACH), 0);
}

TEST(CcFaultsTest, AFullDirectoryIsToldWithItsSetting) {
  // J10, bad input: full for the compiler's programs, and for heddle's own dumps
  FaultyCc faulty("echo 'x.s: Fatal error: No space left on device' >&2; exit 1");
  EXPECT_THAT(compile_failure(*make_cc_compiler(faulty.options)).to_string(),
              HasSubstr("set HEDDLE_TEMP_DIR or TMPDIR"));
  const Scratch scratch;
  ToolOptions options = scratch.options();
  options.dump_dir = scratch.path() / "dumps";
  std::filesystem::create_directories(options.dump_dir / "bad.c");  // nor is there room for a file
  const Status status = compile_failure(*make_cc_compiler(options));
  EXPECT_EQ(status.code(), ErrorCode::unavailable);
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("bad.c"), HasSubstr("set HEDDLE_DUMP_DIR")));
}

TEST(CcFaultsTest, KeptSourcesAreBounded) {
  // J10: a failed compile leaves no more than its source, and not without end
  FaultyCc faulty("exit 1");
  faulty.options.compile_timeout = 60s;
  const auto compiler = make_cc_compiler(faulty.options);
  for (int k = 0; k < 40; ++k) {
    EXPECT_FALSE(compile_failure(*compiler, adder_unit(k, "bad")).ok());
  }
  std::set<std::string> kept;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(faulty.scratch.temp())) {
    if (entry.is_regular_file()) kept.insert(entry.path().filename());
  }
  EXPECT_EQ(kept.size(), 32u);
  EXPECT_EQ(faulty.scratch.leftovers(), 0);
}

TEST(CcFaultsTest, AKeptSourceIsNotWrittenThroughALink) {
  // A.6: a directory that is not ours and private is not used
  FaultyCc faulty("exit 1");
  const auto target = faulty.scratch.path() / "target";
  std::filesystem::create_directory(target);
  std::filesystem::create_directory_symlink(
      target, faulty.scratch.temp() / ("heddle-failed-" + std::to_string(geteuid())));
  EXPECT_THAT(compile_failure(*make_cc_compiler(faulty.options)).to_string(),
              HasSubstr("could not be kept"));
  EXPECT_TRUE(std::filesystem::is_empty(target));
}

TEST(CcFaultsTest, WorksInAHostThatIgnoresSigchld) {
  // J10: success is then told by the library, failure by its absence
  const Scratch scratch;
  const auto old = signal(SIGCHLD, SIG_IGN);
  expect_works(*make_cc_compiler(scratch.options()));
  ToolOptions options = scratch.options();
  options.cflags = {"--no-such-flag"};
  const Status status = compile_failure(*make_cc_compiler(options));
  signal(SIGCHLD, old);
  EXPECT_EQ(status.code(), ErrorCode::compile_failed);
  EXPECT_THAT(status.to_string(), HasSubstr("no-such-flag"));
}

TEST(CcFaultsTest, EightThreadsCompileAtOnce) {
  // J5: any thread; nothing is left
  const Scratch scratch;
  const auto compiler = make_cc_compiler(scratch.options());
  const int descriptors = open_descriptors();
  std::vector<std::thread> threads;
  for (int k = 0; k < 8; ++k) threads.emplace_back([&, k] { expect_works(*compiler, k); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(scratch.leftovers(), 0);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(children(), 0);
}

}  // namespace
}  // namespace heddle::jit::testing
