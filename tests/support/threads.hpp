// Which threads a test's process has.
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

/// The threads of this process that have not begun to exit, at the time of construction, by their
/// ids: those that an earlier test left to end by themselves are no sign of what this test does.
/// The kernel lists a thread in /proc for a moment after its join returned; PF_EXITING in its flags
/// (field 9 of stat, proc(5)) was set before the join could return.
class LiveThreads {
 public:
  LiveThreads() {
    constexpr unsigned long exiting = 0x4;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream file(entry.path() / "stat");
      std::string line;
      if (!std::getline(file, line)) continue;                      // gone meanwhile
      std::istringstream fields(line.substr(line.rfind(')') + 1));  // a name may have blanks
      std::string skipped;
      for (int field = 3; field < 9; ++field) fields >> skipped;
      unsigned long flags = 0;
      fields >> flags;
      if ((flags & exiting) == 0) ids_.insert(entry.path().filename().string());
    }
  }

  [[nodiscard]] int count() const { return static_cast<int>(ids_.size()); }
  /// How many threads live that are not among these.
  [[nodiscard]] int added() const { return LiveThreads().besides(*this); }
  /// How many of these live no more.
  [[nodiscard]] int ended() const { return besides(LiveThreads()); }

  /// Whether at most `stay` others are live within 30 s: a worker that drops the last handle of its
  /// scheduler cannot join itself, and ends soon after.
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
