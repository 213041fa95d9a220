// What is behind Device: its timeline, and the part that its tasks use (Execution). Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>

#include "heddle/scheduler.hpp"
#include "heddle/status.hpp"
#include "runtime/device/teams.hpp"

namespace heddle::rt {

struct BackendState;
struct Execution;

struct DeviceState {
  std::shared_ptr<BackendState> backend;
  int ordinal = 0;
  int subordinal = 0;
  std::shared_ptr<Execution> execution;
  std::optional<Teams::Seat> seat;
  std::optional<sched::TaskDevice> timeline;  ///< set once, when opened
  std::atomic<bool> finalized{false};
};

/// ok, unavailable in a forked child, or failed_precondition naming the device or backend that was
/// finalised.
[[nodiscard]] Status open_status(const DeviceState& device) noexcept;
/// Throws that.
void require_open(const DeviceState& device);
/// Throws device_failed when the device has failed: names `user` ("'step' on cc:0.0"), says what to
/// do, and has as its cause what the device failed with.
void require_well(const DeviceState& device, std::string_view user);

}  // namespace heddle::rt
