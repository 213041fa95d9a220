// The threads of a test's process.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

namespace heddle {

/// Ids of the threads of this process that had not begun to exit at construction: threads that an
/// earlier test left running say nothing about the current test. The kernel lists a thread in /proc
/// for a moment after its join returned; PF_EXITING in its flags (field 9 of stat, proc(5)) was set
/// before the join could return.
class LiveThreads {
 public:
  LiveThreads() {
    constexpr unsigned long exiting = 0x4;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream file(entry.path() / "stat");
      std::string line;
      if (!std::getline(file, line)) continue;                      // ended meanwhile
      std::istringstream fields(line.substr(line.rfind(')') + 1));  // a name may have blanks
      std::string skipped;
      for (int field = 3; field < 9; ++field) fields >> skipped;
      unsigned long flags = 0;
      fields >> flags;
      if ((flags & exiting) == 0) ids_.insert(entry.path().filename().string());
    }
  }

  [[nodiscard]] int count() const { return static_cast<int>(ids_.size()); }
  /// Number of live threads outside this set.
  [[nodiscard]] int added() const { return LiveThreads().besides(*this); }
  /// Number of threads of this set that have ended.
  [[nodiscard]] int ended() const { return besides(LiveThreads()); }

  /// True where at most `stay` other threads are live within 30 s: a worker that drops the last
  /// handle of its scheduler cannot join itself, and ends soon after.
  [[nodiscard]] bool others_end(int stay = 0) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (added() > stay) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  [[nodiscard]] int besides(const LiveThreads& others) const {
    return static_cast<int>(
        std::ranges::count_if(ids_, [&](const auto& id) { return !others.ids_.contains(id); }));
  }

  std::set<std::string> ids_;
};

}  // namespace heddle
