// The counts of a stress run. A value.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle::stress {

/// Interval of progress lines.
inline constexpr std::chrono::seconds progress_pause{2};

enum class Count : std::uint8_t {
  rounds,
  devices,
  tasks,  ///< accepted, including waits and the last task of each device
  done,
  failed,
  skipped,
  cancelled,
  // Faults that occurred.
  thrown,     ///< tasks that threw or returned a failure
  contained,  ///< the subset that did not poison the device
  foreign_failed,
  foreign_late,       ///< signals after a pause
  foreign_forgotten,  ///< tickets whose timeline was destroyed before the signal
  full,               ///< submissions refused: no room, or none before the deadline
  refused,  ///< submissions refused for other reasons: poisoned, shut down, a second producer
  // Other host actions.
  recoveries,
  cancels,
  shutdowns,
  hasty_shutdowns,  ///< with little time
  waits,            ///< by hosts
  late_waits,       ///< ended by their deadline
  callbacks,
  descriptors,
  traces,
  // Tasks that end later.
  late,          ///< issued
  late_beside,   ///< the subset with other tasks in flight
  late_dropped,  ///< Completions
  late_failed,   ///< at the end
  // Actions of threaded devices' workers.
  parks,
  wakes,
  spins,
  count_  // number of entries
};

class Tally {
 public:
  [[nodiscard]] std::uint64_t& operator[](Count what) noexcept {
    return counts_[static_cast<std::size_t>(what)];
  }
  [[nodiscard]] std::uint64_t operator[](Count what) const noexcept {
    return counts_[static_cast<std::size_t>(what)];
  }
  Tally& operator+=(const Tally& other) noexcept;
  /// "12 rounds, 34 devices; ...", in lines.
  [[nodiscard]] std::string to_string() const;

 private:
  std::array<std::uint64_t, static_cast<std::size_t>(Count::count_)> counts_{};
};

}  // namespace heddle::stress
