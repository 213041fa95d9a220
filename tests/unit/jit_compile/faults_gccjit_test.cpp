// libgccjit's tools or heddle-compile itself missing, failing, dying or hanging: each time an error
// that says so, nothing left behind, and the next compile works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "adder.hpp"
#include "jit/toolchain/helper.hpp"
#include "scratch.hpp"

namespace heddle::jit::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// Ids of the children of this process.
std::set<pid_t> child_ids() {
  std::set<pid_t> ids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "children");
    for (pid_t pid = 0; file >> pid;) ids.insert(pid);
  }
  return ids;
}

struct ToolFault {
  const char* name;
  const char* tool;    // a fake one; it is broken while the file `broken` exists
  const char* script;  // empty: the tool is missing instead
  ErrorCode code;
  const char* words;
};

const ToolFault tool_faults[] = {
    {"AsMissing", "as", "", ErrorCode::compile_failed, "install binutils there"},
    {"AsFails", "as", "echo 'as: no such luck' >&2; exit 1", ErrorCode::compile_failed,
     "no such luck"},
    {"AsKilled", "as", "kill -9 $$", ErrorCode::compile_failed, "unit 'bad'"},
    {"AsHangs", "as", "sleep 1000 & exec sleep 1000", ErrorCode::deadline, "in time"},
    {"AsPrintsTenMegabytes", "as",
     "echo begin >&2; head -c 10000000 /dev/zero | tr '\\0' x >&2; exit 1",
     ErrorCode::compile_failed, "bytes left out"},
    {"AsWritesNothing", "as", "exit 0", ErrorCode::compile_failed, "unit 'bad'"},
    {"AsKillsTheHelper", "as", "kill -9 $PPID; sleep 1000", ErrorCode::compile_failed, "signal 9"},
    {"LdFails", "ld", "echo 'ld: no such luck' >&2; exit 1", ErrorCode::compile_failed,
     "no such luck"},
    {"LdWritesGarbage", "ld", "while [ \"$1\" != -o ]; do shift; done; echo garbage > $2; exit 0",
     ErrorCode::compile_failed, "not an ELF file"},
};

class GccjitFaultTest : public ::testing::TestWithParam<ToolFault> {};
INSTANTIATE_TEST_SUITE_P(All, GccjitFaultTest, ::testing::ValuesIn(tool_faults),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(GccjitFaultTest, IsAnErrorAndTheNextCompileWorks) {
  // J10, J14, O49: never the host's end
  const ToolFault& fault = GetParam();
  const Scratch scratch;
  const auto flag = scratch.path() / "broken";
  for (const std::string name : {"as", "ld"}) {
    if (name == fault.tool && *fault.script == 0) continue;
    const std::string misbehave =
        name == fault.tool ? "if [ -e " + flag.string() + " ]; then\n" + fault.script + "\nfi\n"
                           : "";
    scratch.tool(name, misbehave + "exec " + name + " \"$@\"");
  }
  std::ofstream(flag) << "yes";
  ToolOptions options = scratch.options(true);
  options.compile_timeout = fault.code == ErrorCode::deadline ? 1s : 60s;
  const int descriptors = open_descriptors();
  const int processes = children();
  {
    const auto compiler = make_gccjit_compiler(options);
    const Status status = compile_failure(*compiler);
    EXPECT_EQ(status.code(), fault.code) << status.to_string();
    const std::string text = status.to_string();
    EXPECT_THAT(text, HasSubstr(fault.words));
    EXPECT_THAT(text, HasSubstr("unit 'bad'"));
    EXPECT_THAT(text, HasSubstr("the source is kept in "));
    EXPECT_LT(text.size(), 50'000u);
    std::filesystem::remove(flag);
    if (fault.code == ErrorCode::deadline) {
      EXPECT_THAT(text, HasSubstr("HEDDLE_COMPILE_TIMEOUT"));
    }
    if (*fault.script == 0) scratch.tool(fault.tool, std::string("exec ") + fault.tool + " \"$@\"");
    if (fault.code != ErrorCode::deadline) expect_works(*compiler);
  }
  EXPECT_EQ(scratch.leftovers(), 0);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(children(), processes);
  options.compile_timeout = 60s;
  expect_works(*make_gccjit_compiler(options));
}

/// A fake heddle-compile that speaks `greeting` on its socket first and then does `script`.
std::filesystem::path fake_helper(const Scratch& scratch, const wire::Bytes& greeting,
                                  const std::string& script) {
  const auto file = scratch.path() / "greeting";
  write_file(file, {reinterpret_cast<const char*>(greeting.data()), greeting.size()});
  return scratch.tool("heddle-compile", "cat " + file.string() + " >&0\n" + script);
}

wire::Hello good_hello() {
  wire::Hello hello;
  hello.version = HEDDLE_VERSION;
  return hello;
}

Status failure_with(const Scratch& scratch, const std::filesystem::path& helper) {
  ToolOptions options = scratch.options();
  options.compile_helper = helper;
  options.compile_timeout = 1s;
  const int descriptors = open_descriptors();
  const Status status = compile_failure(*make_gccjit_compiler(options));
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(children(), 0);
  EXPECT_EQ(scratch.leftovers(), 0);
  return status;
}

TEST(HelperTest, AMissingHelperNamesAllPlacesAndTheSetting) {
  // J10, issue 9: heddle-compile not found
  const Scratch scratch;
  ToolOptions options = scratch.options();
  options.compile_helper = "/dev/null/nowhere/heddle-compile";
  const auto compiler = make_gccjit_compiler(options);
  EXPECT_EQ(compiler->available().code(), ErrorCode::unavailable);
  const Status status = compile_failure(*compiler);
  EXPECT_EQ(status.code(), ErrorCode::unavailable);
  EXPECT_THAT(status.to_string(), HasSubstr("/dev/null/nowhere/heddle-compile"));
  EXPECT_THAT(status.to_string(), HasSubstr("HEDDLE_COMPILE_HELPER"));
  EXPECT_EQ(failure([&] { static_cast<void>(compiler->describe()); }).message(), status.message());
  options.compile_helper.clear();
}

TEST(HelperTest, IsLookedForBesideTheLibraryAndNowhereElse) {
  // J10: whoever may write anywhere else must not run code as us
  const auto here = std::filesystem::canonical("/proc/self/exe").parent_path();
  EXPECT_THAT(helper_places({}),
              ::testing::ElementsAre(
                  here / "heddle-compile",
                  (here / HEDDLE_HELPER_DIR_FROM_BIN / "heddle-compile").lexically_normal()));
}

TEST(HelperTest, IsFoundWhereTheLibraryWasReplacedMeanwhile) {
  // J10: an upgrade of the package while programs run
  const Scratch scratch;
  const auto library = scratch.path() / "libheddle.so";
  const auto deleted = library.string() + " (deleted)";
  write_file(library, "the new one");
  const auto here = std::filesystem::canonical(scratch.path());
  EXPECT_EQ(code_directory(deleted, library), here);
  EXPECT_EQ(code_directory({}, library), here);
  EXPECT_EQ(code_directory(library, "libheddle.so"), here);
  EXPECT_EQ(code_directory(deleted, "libheddle.so"), std::nullopt) << "relative to who knows what";
}

TEST(HelperTest, OneThatIsNoHelperIsUnavailable) {
  // J10: handshake
  const Scratch scratch;
  EXPECT_EQ(failure_with(scratch, "/bin/true").code(), ErrorCode::unavailable);
  EXPECT_THAT(failure_with(scratch, scratch.tool("x", "echo words >&2; exit 3")).to_string(),
              ::testing::AllOf(HasSubstr("words"), HasSubstr("exit status 3"),
                               HasSubstr("set HEDDLE_COMPILE_HELPER to the path")));
  const Status hung = failure_with(scratch, scratch.tool("x", "exec sleep 1000"));
  EXPECT_EQ(hung.code(), ErrorCode::deadline);
  const Status noise = failure_with(
      scratch,
      scratch.tool("x", "exec 3>&0; head -c 100000 /dev/zero | tr '\\0' x >&3; exec sleep 1000"));
  EXPECT_EQ(noise.code(), ErrorCode::unavailable);
  EXPECT_THAT(noise.to_string(), HasSubstr("nonsense"));
}

TEST(HelperTest, OneOfAnotherVersionIsRefused) {
  // J10: version handshake
  const Scratch scratch;
  wire::Hello hello = good_hello();
  hello.version = "0.0.0-other";
  const Status other =
      failure_with(scratch, fake_helper(scratch, wire::encode(hello), "exec sleep 1000"));
  EXPECT_EQ(other.code(), ErrorCode::unavailable);
  EXPECT_THAT(other.to_string(), HasSubstr("0.0.0-other"));
  hello = good_hello();
  hello.protocol = 77;
  EXPECT_THAT(failure_with(scratch, fake_helper(scratch, wire::encode(hello), "exec sleep 1000"))
                  .to_string(),
              HasSubstr("protocol 77"));
}

TEST(HelperTest, ADamagedReplyIsNeverLoaded) {
  // design 4b: one flipped bit in an unchecked file is a crash or a silently wrong number
  const Scratch scratch;
  wire::CompileReply reply;
  reply.ok = true;
  reply.library.bytes.resize(1000);
  reply.library.sum = checksum(reply.library.bytes);
  const auto helper_saying = [&](const wire::Bytes& frame) {
    wire::Bytes words = wire::encode(good_hello());
    words.insert(words.end(), frame.begin(), frame.end());
    return fake_helper(scratch, words, "exec sleep 1000");
  };
  const wire::Bytes good = wire::encode(reply);
  EXPECT_THAT(failure_with(scratch, helper_saying(good)).to_string(), HasSubstr("not an ELF file"));
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{15}, std::size_t{20}, std::size_t{500}}) {
    wire::Bytes damaged = good;
    damaged[at] ^= std::byte{0x10};
    const Status status = failure_with(scratch, helper_saying(damaged));
    EXPECT_EQ(status.code(), ErrorCode::compile_failed) << at << status.to_string();
    EXPECT_THAT(status.to_string(), HasSubstr("nonsense")) << at;
  }
  wire::Bytes cut = good;
  cut.resize(cut.size() - 1);
  EXPECT_EQ(failure_with(scratch, helper_saying(cut)).code(), ErrorCode::deadline);
}

TEST(HelperTest, OneThatIsKilledAtAnyByteIsAnError) {
  // J10: within its greeting, its reply, or before either
  const Scratch scratch;
  wire::CompileReply reply;
  reply.ok = true;
  reply.library.bytes.resize(500);
  reply.library.sum = checksum(reply.library.bytes);
  wire::Bytes words = wire::encode(good_hello());
  const std::size_t greeting = words.size();
  const wire::Bytes frame = wire::encode(reply);
  words.insert(words.end(), frame.begin(), frame.end());
  const std::size_t heads = greeting + sizeof(wire::FrameHeader);
  for (std::size_t at = 0; at < words.size(); at += at < heads ? 3 : 97) {
    const auto helper =
        fake_helper(scratch, wire::Bytes(words.begin(), words.begin() + at), "kill -9 $$");
    const Status status = failure_with(scratch, helper);
    EXPECT_EQ(status.code(), at < greeting ? ErrorCode::unavailable : ErrorCode::compile_failed)
        << at << ": " << status.to_string();
    EXPECT_THAT(status.to_string(), HasSubstr("signal 9")) << at;
  }
}

TEST(HelperTest, StaysWarmAndIsReplacedWhenItDiedIdle) {
  // J10: a helper killed between compiles is no error
  const Scratch scratch;
  const auto compiler = make_gccjit_compiler(scratch.options());
  expect_works(*compiler, 1);
  const std::set<pid_t> first = child_ids();
  ASSERT_EQ(first.size(), 1u);
  expect_works(*compiler, 2);
  EXPECT_EQ(child_ids(), first);
  kill(*first.begin(), SIGKILL);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(*first.begin()), &info, WEXITED | WNOWAIT);
  expect_works(*compiler, 3);
  EXPECT_NE(child_ids(), first);
  EXPECT_EQ(scratch.leftovers(), 1) << "the directory of the live helper";
}

TEST(HelperTest, AWarmOneThatDiesIsReplacedOnce) {
  // J10: compiles of one process share libgccjit's state; a new process has none
  const Scratch scratch;
  const auto flag = scratch.path() / "broken";
  const std::string is_broken = "if [ -e " + flag.string() + " ]; then\n";
  const std::string dies = "kill -9 $PPID; sleep 1000\nfi\nexec as \"$@\"";
  scratch.tool("as", is_broken + "rm " + flag.string() + "\n" + dies);
  scratch.tool("ld", "exec ld \"$@\"");
  const auto compiler = make_gccjit_compiler(scratch.options(true));
  expect_works(*compiler, 1);
  const std::set<pid_t> first = child_ids();
  std::ofstream(flag) << "yes";
  expect_works(*compiler, 2);
  EXPECT_FALSE(std::filesystem::exists(flag));
  EXPECT_NE(child_ids(), first);
  scratch.tool("as", is_broken + dies);
  std::ofstream(flag) << "yes";
  EXPECT_THAT(compile_failure(*compiler).to_string(), HasSubstr("signal 9"));
}

TEST(HelperTest, EightThreadsShareAsManyHelpersAsThereAreCpus) {
  // J5: any thread
  const Scratch scratch;
  {
    const auto compiler = make_gccjit_compiler(scratch.options());
    std::vector<std::thread> threads;
    for (int k = 0; k < 8; ++k) {
      threads.emplace_back([&, k] {
        for (int round = 0; round < 3; ++round) expect_works(*compiler, 10 * k + round);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(children(), static_cast<int>(std::thread::hardware_concurrency()));
    EXPECT_GE(children(), 1);
  }
  EXPECT_EQ(children(), 0);
  EXPECT_EQ(scratch.leftovers(), 0);
}

TEST(HelperTest, OpenAndCloseLeavesNothing) {
  // B2: opening and closing is clean, compiled or not
  const Scratch scratch;
  const int descriptors = open_descriptors();
  for (int k = 0; k < 10; ++k) {
    const auto compiler = make_gccjit_compiler(scratch.options());
    if (k % 2 == 0) expect_works(*compiler, k);
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(children(), 0);
  EXPECT_EQ(scratch.leftovers(), 0);
}

TEST(HelperTest, AForkedChildMayNotUseItsParentsHelpers) {
  // J10: fork in the host; the parent is unaffected
  const Scratch scratch;
  auto compiler = make_gccjit_compiler(scratch.options());
  expect_works(*compiler, 1);
  const std::set<pid_t> helpers = child_ids();
  const pid_t forked = fork();
  if (forked == 0) {
    const bool refused = compile_failure(*compiler).code() == ErrorCode::unavailable;
    compiler.reset();
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(forked, &status, 0), forked);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  expect_works(*compiler, 2);
  EXPECT_EQ(child_ids(), helpers);
}

TEST(HelperTest, EndsWithItsHostAndCleansUp) {
  // J10: helpers die with the host, even when it is killed
  const Scratch scratch;
  int report[2];
  ASSERT_EQ(pipe2(report, O_CLOEXEC), 0);
  const pid_t host = fork();
  if (host == 0) {
    const auto compiler = make_gccjit_compiler(scratch.options());
    static_cast<void>(compiler->compile(adder_unit(1, "good")));
    const pid_t helper = *child_ids().begin();
    if (write(report[1], &helper, sizeof helper) != sizeof helper) _exit(1);
    kill(getpid(), SIGKILL);
  }
  close(report[1]);
  pid_t helper = 0;
  ASSERT_EQ(read(report[0], &helper, sizeof helper), static_cast<ssize_t>(sizeof helper));
  close(report[0]);
  waitpid(host, nullptr, 0);
  const auto until = std::chrono::steady_clock::now() + 30s;
  while (scratch.leftovers() > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  EXPECT_EQ(scratch.leftovers(), 0);
  while (kill(helper, 0) == 0 && std::chrono::steady_clock::now() < until) {
    std::ifstream file("/proc/" + std::to_string(helper) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    if (text.find(") Z") != std::string::npos) break;  // ended; its new parent is slow to reap
    std::this_thread::yield();
  }
  EXPECT_LT(std::chrono::steady_clock::now(), until);
}

TEST(HelperTest, AnUnwritableOrFullTempDirectoryIsAnError) {
  // J10: libgccjit calls exit(1) when the temporary directory is full
  ToolOptions options;
  options.temp_dir = "/dev/null/nowhere/temp";
  EXPECT_EQ(compile_failure(*make_gccjit_compiler(options)).code(), ErrorCode::unavailable);
  const Scratch scratch;
  if (mount("none", scratch.temp().c_str(), "tmpfs", 0, "size=4k") != 0)
    GTEST_SKIP() << "cannot mount a small file system here";
  const auto compiler = make_gccjit_compiler(scratch.options());
  const Status status = compile_failure(*compiler);
  EXPECT_EQ(status.code(), ErrorCode::compile_failed) << status.to_string();
  EXPECT_EQ(mount("none", scratch.temp().c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  expect_works(*compiler);
  EXPECT_EQ(umount2(scratch.temp().c_str(), MNT_DETACH), 0);
}

TEST(HelperTest, SaysItsVersionAndRefusesIdleUse) {
  // usable by hand: --version, and a usage text instead of waiting for a request
  const auto helper = find_helper({});
  const RunResult version = run_command({{helper.string(), "--version"}, {}}, 30s);
  EXPECT_TRUE(version.exit.success());
  EXPECT_THAT(version.output, HasSubstr("libgccjit"));
  const RunResult usage = run_command({{helper.string()}, {}}, 30s);
  EXPECT_EQ(usage.exit.describe(), "exit status 2");
}

}  // namespace
}  // namespace heddle::jit::testing
