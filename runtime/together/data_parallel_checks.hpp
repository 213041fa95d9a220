// Checks at the construction of data-parallel runs. Any thread.
#pragma once

#include <fmt/format.h>

#include <span>
#include <utility>

#include "heddle/data_parallel.hpp"
#include "heddle/status.hpp"

namespace heddle::rt {

template <class... Args>
[[noreturn]] void refuse_run(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, "data-parallel run: " + fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void require_run(bool right, fmt::format_string<Args...> text, Args&&... args) {
  if (!right) refuse_run(ErrorCode::invalid_argument, text, std::forward<Args>(args)...);
}

/// Throws invalid_argument where two contexts are on one device, or on devices of different
/// backends.
void check_devices(std::span<const Context> contexts);
/// Throws invalid_argument for invalid options, without a look at the contexts.
void check_options(const DataParallelOptions& options);

}  // namespace heddle::rt
