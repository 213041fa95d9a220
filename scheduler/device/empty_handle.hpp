// The error that an empty handle returns.
#pragma once

#include <fmt/format.h>

#include "heddle/status.hpp"

namespace heddle::sched {

/// `what`: the handle's type.
[[nodiscard]] inline Status empty_handle(const char* what) {
  return Status(ErrorCode::failed_precondition, [&] {
    return fmt::format(
        "an empty {} handle (moved from or never set): use the one that it was "
        "moved to, or open another",
        what);
  });
}

}  // namespace heddle::sched
