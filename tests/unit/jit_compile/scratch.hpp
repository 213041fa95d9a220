// A directory of a test's own, with tools that misbehave, and counts of what a process must not
// leak. One thread.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "jit/toolchain/compiler.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle::jit::testing {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return (std::ostringstream() << file.rdbuf()).str();
}

class Scratch {
 public:
  Scratch() {
    std::filesystem::create_directory(temp());
    std::filesystem::create_directory(tools());
  }

  [[nodiscard]] const std::filesystem::path& path() const { return directory_.path(); }
  [[nodiscard]] std::filesystem::path temp() const { return path() / "temp"; }
  [[nodiscard]] std::filesystem::path tools() const { return path() / "tools"; }

  /// Options whose temporary files go to temp(), and whose children find tools() alone if asked.
  [[nodiscard]] ToolOptions options(bool only_our_tools = false) const {
    ToolOptions options;
    options.temp_dir = temp();
    if (only_our_tools) options.environment = {"PATH=" + tools().string()};
    return options;
  }

  /// An executable shell script in tools(). Its PATH is the usual one.
  std::filesystem::path tool(const std::string& name, const std::string& script) const {
    const auto path = tools() / name;
    std::ofstream(path) << "#!/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\n" << script << "\n";
    chmod(path.c_str(), 0755);
    return path;
  }

  /// Temporary directories and files left behind, the kept sources of failures aside.
  [[nodiscard]] int leftovers() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(temp())) {
      count += entry.path().filename().string().starts_with("heddle-failed-") ? 0 : 1;
    }
    return count;
  }

 private:
  TempDirectory directory_;
};

/// Open descriptors of this process.
inline int open_descriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

/// Children of this process, zombies included.
inline int children() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "children");
    for (std::string pid; file >> pid;) ++count;
  }
  return count;
}

}  // namespace heddle::jit::testing
