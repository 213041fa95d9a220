// See code/options.hpp.
#include "jit/code/options.hpp"

#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "heddle/status.hpp"

namespace heddle::jit {
namespace {

/// Values outside an enumeration come from casts and from bindings to other languages.
template <class Enum>
void require_known(const char* what, std::optional<Enum> value, Enum last) {
  if (!value || *value <= last) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("CompileOptions::{} is {} (expected a value of its type: 0 to {})", what,
                          static_cast<unsigned>(*value), static_cast<unsigned>(last)));
}

}  // namespace

void check(const CompileOptions& options) {
  require_known("schedule", std::optional(options.schedule), Schedule::off);
  require_known("tune.mode", options.tune.mode, Tune::measure);
  require_known("merge_mode", options.merge_mode, MergeMode::stream);
  for (const ScheduleStep step : options.schedule_without) {
    if (name(step) != "unknown") continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("CompileOptions::schedule_without has {} (expected steps of "
                            "ScheduleStep)",
                            static_cast<unsigned>(step)));
  }
  if (options.tune.budget <= std::chrono::nanoseconds(0)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("CompileOptions::tune.budget is {} ns (expected more than 0)",
                            options.tune.budget.count()));
  }
}

}  // namespace heddle::jit
