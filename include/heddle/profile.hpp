// MachineProfile: constants that depend on the machine, not on the program. Plain data.
#pragma once

#include <chrono>
#include <cstdint>

namespace heddle {

/// How far apart its processors are, in short. A value that does not fit costs time, never more.
/// The defaults suit two cores of an AMD EPYC, near each other or far apart.
struct MachineProfile {
  /// Who submits fetches the slot of the queue that lies so many tasks ahead, for writing: a slot
  /// comes from the worker's processor. 0: none.
  std::uint32_t slots_ahead = 32;
  /// A worker that ran this many tasks in a row and has caught up gives who submits a start: close
  /// behind it would take each slot away while that is written.
  std::uint32_t row_min = 16;
  /// The start: so many pauses of the processor (0.5 to 2 us), then twice as many and so on, as
  /// long as at least `start_tasks` more have come meanwhile; at most `start_looks` times.
  std::uint32_t start_pauses = 48, start_tasks = 16, start_looks = 3;
  /// How long a thread without work looks for it before it sleeps: about as long as a wake takes,
  /// which loses at most a factor of two against either choice.
  std::chrono::nanoseconds spin{50'000};

  friend bool operator==(const MachineProfile&, const MachineProfile&) = default;
};

}  // namespace heddle
