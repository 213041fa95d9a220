// Limits of heddle's own stages: a compile's time and its stop token hold in lowering, passes,
// schedules and emitters too, not only while a compiler runs. Whoever walks a kernel counts steps;
// now and then a step looks at the clock. Each function belongs to the calling thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string_view>

#include "scheduler/threads/floating.hpp"

namespace heddle::jit {

/// What bounds one compile, besides ToolOptions::compile_timeout.
struct CompileLimits {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::stop_token stop;  ///< asks it to end
};

/// Counts a thread's steps. Constant-initialised: an access is an access, no call.
struct StepCounter {
  std::uint32_t left = 0;   ///< until the next look at the limits
  std::uint64_t taken = 0;  ///< before the present run of `left`
};
extern constinit thread_local StepCounter step_counter;

/// Renews step_counter.left, and looks: throws Error of `deadline` or `cancelled`, naming program,
/// stage and what to do, where the thread works within limits that are over.
void check_limits();

/// A node of a kernel was met or made. Throws as check_limits().
inline void count_step() {
  if (step_counter.left == 0) check_limits();
  --step_counter.left;
}

/// Steps of this thread so far: growth that no clock disturbs, for tests.
[[nodiscard]] std::uint64_t steps_taken() noexcept;

/// What errors say that speak of a limit.
inline constexpr std::string_view out_of_time_advice =
    "allow more (CompileOptions::timeout; BackendOptions::compile_timeout, or "
    "HEDDLE_COMPILE_TIMEOUT) or split the program";

/// While it lives, steps of this thread heed `limits`, and it computes as kernels do. The inner one
/// of two counts.
class LimitedWork {
 public:
  /// `program` and `limits` outlive it.
  LimitedWork(std::string_view program, const CompileLimits& limits) noexcept;
  ~LimitedWork();
  LimitedWork(const LimitedWork&) = delete;
  LimitedWork& operator=(const LimitedWork&) = delete;
  /// What is done from here on, for messages: "lowering". Looks at the limits. Has static lifetime.
  void begin(std::string_view stage);

 private:
  friend void check_limits();
  void check() const;

  const std::string_view program_;
  const CompileLimits& limits_;
  LimitedWork* const outer_;
  std::string_view stage_ = "its beginning";
  const sched::DefaultFloating floating_;  // of what is folded, chosen and printed
};

/// The stage of the limited work at hand, if there is any: for passes, whose list has their names.
void begin_stage(std::string_view stage);

}  // namespace heddle::jit
