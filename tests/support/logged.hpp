// Keeps the lines that heddle logs. Any thread.
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/observe.hpp"

namespace heddle::test {

/// The lines of the log. Another thread may still run a removed hook, hence hook and test share
/// ownership of the lines.
class Logged {
 public:
  Logged() {
    set_log_hook([lines = lines_](LogLevel, std::string_view line) {
      const std::lock_guard lock(lines->mutex);
      lines->all.emplace_back(line);
    });
  }
  ~Logged() { set_log_hook({}); }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;

  /// The lines that contain `part`.
  [[nodiscard]] std::vector<std::string> with(std::string_view part) const {
    const std::lock_guard lock(lines_->mutex);
    std::vector<std::string> found;
    std::ranges::copy_if(lines_->all, std::back_inserter(found), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    });
    return found;
  }
  [[nodiscard]] int count(std::string_view part) const {
    return static_cast<int>(with(part).size());
  }
  /// Every line, followed by a newline.
  [[nodiscard]] std::string text() const {
    std::string joined;
    for (const std::string& line : with("")) joined += line + "\n";
    return joined;
  }

 private:
  struct Lines {
    std::mutex mutex;
    std::vector<std::string> all;
  };
  const std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
};

}  // namespace heddle::test
