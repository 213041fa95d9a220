// See run_program.hpp.
#include "tests/unit/tools/run_program.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/paths.hpp"
#include "tests/support/temp_directory.hpp"

extern char** environ;  // NOLINT: POSIX

namespace heddle::tools::testing {
namespace {

std::vector<std::string> merged_environment(const Environment& added) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("HEDDLE_")) entries.emplace_back(*entry);
  }
  entries.emplace_back("HEDDLE_CACHE=off");  // the user's own is none of ours
  for (const auto& [name, value] : added) {
    std::erase_if(entries, [&](const std::string& e) { return e.starts_with(name + "="); });
    entries.push_back(name + "=" + value);
  }
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

int spawn(const std::vector<std::string>& arguments, const Environment& environment,
          const posix_spawn_file_actions_t& actions) {
  std::vector<std::string> words{test::heddle_program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> entries = merged_environment(environment);
  pid_t child = -1;
  const int error = posix_spawn(&child, test::heddle_program, &actions, nullptr,
                                pointers(words).data(), pointers(entries).data());
  EXPECT_EQ(error, 0) << "cannot start " << test::heddle_program;
  return error == 0 ? child : -1;
}

int exit_code(int child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Outcome run_heddle(const std::vector<std::string>& arguments, const Environment& environment) {
  const TempDirectory folder;
  const std::string out = folder.path() / "out", err = folder.path() / "err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  Outcome outcome;
  outcome.exit_code = exit_code(spawn(arguments, environment, actions));
  posix_spawn_file_actions_destroy(&actions);
  outcome.out = contents(out);
  outcome.err = contents(err);
  return outcome;
}

Outcome run_heddle_in_terminal(const std::vector<std::string>& arguments,
                               const Environment& environment) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return {};
  const std::string terminal = ptsname(master);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, terminal.c_str(), O_WRONLY | O_NOCTTY, 0);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  const int child = spawn(arguments, environment, actions);
  posix_spawn_file_actions_destroy(&actions);
  Outcome outcome;
  char chunk[4096];
  // Ends with an error once the child has closed the terminal.
  for (ssize_t n = 0; (n = read(master, chunk, sizeof chunk)) > 0;) {
    outcome.out.append(chunk, static_cast<std::size_t>(n));
  }
  outcome.exit_code = exit_code(child);
  close(master);
  return outcome;
}

}  // namespace heddle::tools::testing
