// Physical devices of simulations: the devices compute formulas in checked memory, at once, perhaps
// in parts, or, where their queues run ahead, when the simulation schedules them. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "devices/device.hpp"
#include "heddle/simulation.hpp"

namespace heddle::stress {

struct PlayedKind {
  bool own_memory = false;  ///< if not, memory of the host
  bool runs_ahead = false;
  bool is_peer = false;   ///< its queues reach memory of other such devices
  bool in_parts = false;  ///< its kernels may run in parts; not where it runs ahead
};

/// State shared by the devices of a simulation. Outlives the devices, and may outlive the
/// simulation. Kernels in parts use the latest instance of their thread.
class PlayedHardware {
 public:
  explicit PlayedHardware(Simulation& simulation);
  PlayedHardware(const PlayedHardware&) = delete;
  PlayedHardware& operator=(const PlayedHardware&) = delete;

  /// The devices of a backend. Devices that run ahead share one completion domain, or have separate
  /// domains.
  [[nodiscard]] std::vector<std::shared_ptr<dev::PhysicalDevice>> make(
      const std::vector<PlayedKind>& kinds);
  /// No operation fails from here on.
  void calm() noexcept { one_failure_in_ = 0; }
  /// The simulation ends.
  void end() noexcept {
    calm();
    over_ = true;
  }
  /// The latest instance of this thread.
  [[nodiscard]] static PlayedHardware& here() noexcept;

  /// Device memory allocated and not freed.
  [[nodiscard]] std::size_t blocks() const noexcept { return blocks_.size(); }
  /// Operations done by devices, and failed operations.
  [[nodiscard]] std::uint64_t operations() const noexcept { return operations_; }
  /// Parts of kernels that ran in several.
  [[nodiscard]] std::uint64_t parts() const noexcept { return parts_; }
  [[nodiscard]] std::uint64_t failures() const noexcept { return failures_; }
  /// Waits of queues for other queues.
  [[nodiscard]] std::uint64_t waits() const noexcept { return waits_; }
  /// The subset in which the other queue belongs to another physical device.
  [[nodiscard]] std::uint64_t waits_across() const noexcept { return waits_across_; }

  // Used by the devices.

  [[nodiscard]] Simulation& simulation() const noexcept { return simulation_; }
  /// Whether the next operation fails.
  [[nodiscard]] bool fails();
  Status allocate(std::size_t bytes, void** data) noexcept;
  void release(void* data) noexcept;
  /// Checks device memory used by an operation: the memory must belong to a device.
  void touch(const void* data, std::size_t bytes);
  void count() noexcept { ++operations_; }
  void count_part() noexcept { ++parts_; }
  void count_wait(bool across) noexcept {
    ++waits_;
    if (across) ++waits_across_;
  }
  void fail(const char* why) {
    if (!over_) simulation_.fail(why);
  }

 private:
  Simulation& simulation_;
  bool over_ = false;
  std::uint64_t one_failure_in_ = 0;  // operations; 0: none fails
  std::uint64_t operations_ = 0, failures_ = 0, waits_ = 0, waits_across_ = 0, parts_ = 0;
  std::map<const std::byte*, std::size_t> blocks_;
};

}  // namespace heddle::stress
