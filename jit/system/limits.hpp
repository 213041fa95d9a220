// Limits of heddle's own stages: the time limit and the stop token of a compile hold in lowering,
// passes, schedules and emitters too, not only in the compiler. Code that walks a kernel counts
// steps; a step in every thousand or so checks the clock. Each function acts on the calling thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string_view>

#include "scheduler/threads/floating.hpp"

namespace heddle::jit {

/// The limits of one compile, besides ToolOptions::compile_timeout.
struct CompileLimits {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::stop_token stop;  ///< asks the compile to end
};

/// The step counter of a thread. Constant-initialised: an access needs no call.
struct StepCounter {
  std::uint32_t left = 0;   ///< steps until the next check of the limits
  std::uint64_t taken = 0;  ///< steps before the current run of `left`
};
extern constinit thread_local StepCounter step_counter;

/// Resets step_counter.left and checks the limits: throws Error of `deadline` or `cancelled`, with
/// program, stage and advice, where the limits of this thread's work are exceeded.
void check_limits();

/// Counts one visited or new node of a kernel. Throws like check_limits().
inline void count_step() {
  if (step_counter.left == 0) check_limits();
  --step_counter.left;
}

/// The steps of this thread so far: a measure of work independent of clocks, for tests.
[[nodiscard]] std::uint64_t steps_taken() noexcept;

/// The advice in errors about a limit.
inline constexpr std::string_view out_of_time_advice =
    "allow more (CompileOptions::timeout; BackendOptions::compile_timeout, or "
    "HEDDLE_COMPILE_TIMEOUT) or split the program";

/// During its lifetime, steps of this thread check `limits`, and the thread computes in the
/// kernels' floating-point mode. The innermost of nested objects is in effect.
class LimitedWork {
 public:
  /// `program` and `limits` must outlive the object.
  LimitedWork(std::string_view program, const CompileLimits& limits) noexcept;
  ~LimitedWork();
  LimitedWork(const LimitedWork&) = delete;
  LimitedWork& operator=(const LimitedWork&) = delete;
  /// Names the current stage for messages, "lowering", and checks the limits. `stage` must have
  /// static lifetime.
  void begin(std::string_view stage);

 private:
  friend void check_limits();
  void check() const;

  const std::string_view program_;
  const CompileLimits& limits_;
  LimitedWork* const outer_;
  std::string_view stage_ = "its beginning";
  const sched::DefaultFloating floating_;  // for numbers that are folded, chosen and printed
};

/// Sets the stage of the current limited work, if any; for passes, whose names are in a list.
void begin_stage(std::string_view stage);

}  // namespace heddle::jit
