// Texts and failures of user exceptions. Any thread.
#pragma once

#include <exception>

#include "heddle/status.hpp"

namespace heddle::sched {

/// Never null, though what() may be.
[[nodiscard]] inline const char* what_of(const std::exception& e) noexcept {
  const char* const text = e.what();
  return text != nullptr ? text : "an exception whose what() is null";
}

/// The failure of a task, or of a part, that threw the exception being handled.
[[gnu::cold]] [[nodiscard]] Status failure_of_thrown() noexcept;

}  // namespace heddle::sched
