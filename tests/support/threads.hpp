// How many threads a test's process has.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace heddle {

/// Threads of this process that have not begun to exit. The kernel lists a thread in /proc for a
/// moment after its join returned; PF_EXITING in its flags (field 9 of stat, proc(5)) was set
/// before the join could return.
[[nodiscard]] inline int live_threads() {
  constexpr unsigned long exiting = 0x4;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "stat");
    std::string line;
    if (!std::getline(file, line)) continue;                      // gone meanwhile
    std::istringstream fields(line.substr(line.rfind(')') + 1));  // a name may have blanks
    std::string skipped;
    for (int field = 3; field < 9; ++field) fields >> skipped;
    unsigned long flags = 0;
    fields >> flags;
    if ((flags & exiting) == 0) ++count;
  }
  return count;
}

/// Whether at most `count` threads are live within 30 s: a worker that drops the last handle of its
/// scheduler cannot join itself, and ends soon after.
[[nodiscard]] inline bool threads_end(int count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (live_threads() > count) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace heddle
