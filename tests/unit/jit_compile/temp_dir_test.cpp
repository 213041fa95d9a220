// Temporary directories: they go with their makers, however those end, and never before.
#include "files/temp_dir.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "adder.hpp"
#include "child_process.hpp"
#include "jit/system/process.hpp"
#include "jit/toolchain/toolchain.hpp"
#include "scratch.hpp"
#include "tests/support/failure.hpp"

namespace heddle::jit::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A process that makes a temporary directory with a file in it, and then does nothing.
class DirectoryMaker {
 public:
  explicit DirectoryMaker(const ToolOptions& options) {
    int report[2];
    if (pipe(report) != 0) throw std::runtime_error("pipe failed");
    pid_ = fork();
    if (pid_ == 0) {
      const TempDir directory(options.temp_dir);
      write_file(directory.path() / "file", "content");
      const std::string name = directory.path().string();
      const ssize_t n = write(report[1], name.data(), name.size());
      while (n > 0) pause();
      _exit(1);
    }
    close(report[1]);
    char name[4096];
    const ssize_t n = read(report[0], name, sizeof name);
    close(report[0]);
    if (n > 0) path_ = std::string(name, static_cast<std::size_t>(n));
  }
  ~DirectoryMaker() { kill_it(); }
  DirectoryMaker(const DirectoryMaker&) = delete;
  DirectoryMaker& operator=(const DirectoryMaker&) = delete;

  void kill_it() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  pid_t pid_ = -1;
  fs::path path_;
};

TEST(TempDirTest, WhatKilledProcessesLeftIsSweptAndWhatIsUsedIsNot) {
  // J10: killed hosts leave nothing for long
  const Scratch scratch;
  const ToolOptions options = scratch.options();
  DirectoryMaker killed(options), living(options);
  ASSERT_TRUE(fs::exists(killed.path() / "file"));
  killed.kill_it();
  ASSERT_TRUE(fs::exists(killed.path() / "file")) << "nobody swept yet";
  // Half removed, not made yet, another's, a link, another prefix.
  const fs::path half = scratch.temp() / "heddle-tmp-half",
                 bare = scratch.temp() / "heddle-tmp-bare",
                 open = scratch.temp() / "heddle-tmp-open",
                 link = scratch.temp() / "heddle-tmp-link", old = scratch.temp() / "heddle-abcdef";
  for (const fs::path& path : {half, bare, open, old}) ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  write_file(half / "rest", "content");
  write_file(old / "rest", "content");
  ASSERT_EQ(chmod(open.c_str(), 0755), 0);
  fs::create_directory_symlink(old, link);
  {
    const TempDir own(options.temp_dir);
    EXPECT_FALSE(fs::exists(killed.path()));
    EXPECT_TRUE(fs::exists(living.path() / "file"));
    EXPECT_FALSE(fs::exists(half));
    EXPECT_FALSE(fs::exists(bare));
    EXPECT_TRUE(fs::exists(open));
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_TRUE(fs::exists(old / "rest"));
  }
}

TEST(TempDirTest, SweepingHasAnEnd) {
  // J10: a compile does not wait for thousands of files to go; what is left goes with the next
  const Scratch scratch;
  const ToolOptions options = scratch.options();
  DirectoryMaker killed(options);
  fs::create_directory(killed.path() / "many");
  for (std::size_t k = 0; k < swept_entries_max + 100; ++k)
    write_file(killed.path() / "many" / std::to_string(k), "");
  killed.kill_it();
  const auto sweep = [&] {
    return ended_well(start([&] { return TempDir(options.temp_dir).path() != ""; }));
  };
  EXPECT_TRUE(sweep());
  EXPECT_TRUE(fs::exists(killed.path() / "many"));
  EXPECT_TRUE(sweep());
  EXPECT_FALSE(fs::exists(killed.path()));
}

TEST(TempDirTest, TheLockGoesLastAndClosed) {
  // J10: of NFS: what is open and removed keeps a name there, and its directory with it
  const Scratch scratch;
  auto directory = std::make_unique<TempDir>(scratch.options().temp_dir);
  write_file(directory->path() / "file", "content");
  const FileDescriptor watch(inotify_init1(IN_CLOEXEC));
  ASSERT_GE(inotify_add_watch(watch.get(), directory->path().c_str(), IN_DELETE | IN_CLOSE_WRITE),
            0);
  directory.reset();
  std::string seen;
  alignas(inotify_event) char events[4096];
  const ssize_t bytes = read(watch.get(), events, sizeof events);
  for (ssize_t at = 0; at < bytes;) {
    inotify_event event;
    std::memcpy(&event, events + at, sizeof event);
    if (event.len != 0) {
      seen += (event.mask & IN_DELETE) != 0 ? "removed " : "closed ";
      seen += std::string(events + at + sizeof event) + "; ";
    }
    at += static_cast<ssize_t>(sizeof event + event.len);
  }
  EXPECT_EQ(seen, "removed file; closed .lock; removed .lock; ");
}

TEST(TempDirTest, MakersAndSweepersNeverMeet) {
  // J10: a directory is its maker's from its first moment, whoever sweeps
  const Scratch scratch;
  constexpr int processes = 6, rounds = 60;
  std::vector<pid_t> parents;
  for (int k = 0; k < processes; ++k) {
    parents.push_back(start([&scratch, k] {
      bool good = true;
      for (int round = 0; round < rounds; ++round) {
        const bool dies = (round + k) % 3 == 0;
        const pid_t child = start([&scratch, dies] {
          const TempDir directory(scratch.options().temp_dir);  // the first here: it sweeps
          write_file(directory.path() / "file", "content");
          usleep(200);
          if (dies) kill(getpid(), SIGKILL);
          return fs::exists(directory.path() / "file") &&
                 read_text(directory.path() / "file") == "content";
        });
        good = (ended_well(child) || dies) && good;
      }
      return good;
    }));
  }
  for (const pid_t parent : parents) EXPECT_TRUE(ended_well(parent));
  {
    const TempDir last(scratch.options().temp_dir);
    EXPECT_EQ(scratch.leftovers(), 1);
  }
  EXPECT_EQ(scratch.leftovers(), 0);
}

/// Files of this process may have so many bytes while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

bool is_member(int (*read)(sigset_t*)) {
  sigset_t set;
  return read(&set) == 0 && sigismember(&set, SIGXFSZ) == 1;
}
bool is_blocked() {
  return is_member([](sigset_t* set) { return pthread_sigmask(SIG_BLOCK, nullptr, set); });
}
bool is_pending() { return is_member(sigpending); }

TEST(FileSizeLimitTest, IsAnErrorThatNamesIt) {
  // J10, bad input: not SIGXFSZ, which ends the process; and half a file is not left
  const Scratch scratch;
  const fs::path path = scratch.path() / "file";
  const auto refused = [&] {
    return failure([&] {
      const FileSizeLimit small(1000);
      write_file(path, std::string(3000, 'x'), files::temp_dir_advice);
    });
  };
  const Status status = refused();
  EXPECT_EQ(status.code(), ErrorCode::unavailable);
  EXPECT_THAT(status.to_string(),
              AllOf(HasSubstr(path.string()), HasSubstr("ulimit -f"), HasSubstr("TEMP_DIR")));
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(is_blocked());
  EXPECT_FALSE(is_pending());
  // One that the host holds up stays its own.
  sigset_t signal, before;
  sigemptyset(&signal);
  sigaddset(&signal, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &signal, &before);
  raise(SIGXFSZ);
  EXPECT_FALSE(refused().ok());
  EXPECT_TRUE(is_pending());
  int taken = 0;
  EXPECT_EQ(sigwait(&signal, &taken), 0);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(FileSizeLimitTest, IsNoEndOfAHostThatCompilesOrLoads) {
  // J10, bad input
  const Scratch scratch;
  const auto compiler = make_cc_compiler(scratch.options());
  const auto refused = [](const std::function<void()>& call) {
    return failure([&] {
      const FileSizeLimit small(500);
      call();
    });
  };
  const auto told = AllOf(HasSubstr("ulimit -f"), HasSubstr("HEDDLE_TEMP_DIR"));
  EXPECT_THAT(refused([&] { static_cast<void>(compiler->compile(adder_unit(5))); }).to_string(),
              told);
  const auto compiled = compiler->compile(adder_unit(6));
  dev::LoadOptions options;
  options.temp_dir = scratch.temp();
  EXPECT_THAT(refused([&] { static_cast<void>(loaded(*compiled, options)); }).to_string(), told);
  EXPECT_EQ(run_adder(*compiled), 7);
  EXPECT_EQ(scratch.leftovers(), 0);
}

}  // namespace
}  // namespace heddle::jit::testing
