// What users' exceptions say. Any thread.
#pragma once

#include <exception>

namespace heddle::sched {

/// Never null, though what() may be.
[[nodiscard]] inline const char* what_of(const std::exception& e) noexcept {
  const char* const text = e.what();
  return text != nullptr ? text : "an exception whose what() is null";
}

}  // namespace heddle::sched
