// What a stress run has done so far, in numbers. A value.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle::stress {

/// Between the lines that a run says of how far it is.
inline constexpr std::chrono::seconds progress_pause{2};

enum class Count : std::uint8_t {
  rounds,
  devices,
  tasks,  ///< accepted, waits and the last one of each device included
  done,
  failed,
  skipped,
  cancelled,
  // Faults, as they hit.
  thrown,     ///< tasks that threw or returned a failure
  contained,  ///< those among these that did not poison their device
  foreign_failed,
  foreign_late,       ///< signals after a pause
  foreign_forgotten,  ///< tickets whose timeline went before it signalled them
  full,               ///< submissions refused: no room, or none before the deadline
  refused,  ///< submissions refused for other reasons: poisoned, shut down, a second producer
  // What hosts did besides.
  recoveries,
  cancels,
  shutdowns,
  hasty_shutdowns,  ///< with little time
  waits,            ///< by hosts
  late_waits,       ///< that their deadline ended
  callbacks,
  descriptors,
  traces,
  // Tasks that end later.
  late,          ///< issued
  late_beside,   ///< those among these that others were in flight beside
  late_dropped,  ///< Completions
  late_failed,   ///< at the end
  // What workers of threaded devices did.
  parks,
  wakes,
  spins,
  count_  // how many there are
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
