// The state behind Device: its timeline, and its execution part (Execution). Any thread.
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
  std::optional<sched::TaskDevice> timeline;  ///< set once, on opening
  std::atomic<bool> finalized{false};
};

/// ok, unavailable in a forked child, or failed_precondition naming the finalised device or
/// backend.
[[nodiscard]] Status open_status(const DeviceState& device) noexcept;
/// Throws open_status() if not ok.
void require_open(const DeviceState& device);
/// Throws device_failed if the device has failed. The message names `user` ("'step' on cc:0.0") and
/// the remedy; the cause is the device's failure.
void require_well(const DeviceState& device, std::string_view user);

}  // namespace heddle::rt
