// See system/limits.hpp.
#include "jit/system/limits.hpp"

#include <fmt/format.h>

#include <utility>

#include "heddle/status.hpp"

namespace heddle::jit {
namespace {

/// Steps between two checks: a step takes some 10 to 100 ns, hence a check comes in well under a
/// millisecond.
constexpr std::uint32_t steps_per_look = 1024;

constinit thread_local LimitedWork* work = nullptr;

}  // namespace

constinit thread_local StepCounter step_counter;

void check_limits() {
  step_counter.taken += steps_per_look;
  step_counter.left = steps_per_look;
  if (work != nullptr) work->check();
}

std::uint64_t steps_taken() noexcept { return step_counter.taken - step_counter.left; }

void begin_stage(std::string_view stage) {
  if (work != nullptr) work->begin(stage);
}

LimitedWork::LimitedWork(std::string_view program, const CompileLimits& limits) noexcept
    : program_(program), limits_(limits), outer_(std::exchange(work, this)) {}

LimitedWork::~LimitedWork() { work = outer_; }

void LimitedWork::begin(std::string_view stage) {
  stage_ = stage;
  check();
}

void LimitedWork::check() const {
  if (limits_.stop.stop_requested()) {
    throw Error(
        ErrorCode::cancelled,
        fmt::format("the compile of '{:.200}' was cancelled in stage '{}'", program_, stage_));
  }
  if (!limits_.deadline || std::chrono::steady_clock::now() < *limits_.deadline) return;
  throw Error(ErrorCode::deadline,
              fmt::format("the compile of '{:.200}' was out of time in stage '{}'; {}", program_,
                          stage_, out_of_time_advice));
}

}  // namespace heddle::jit
