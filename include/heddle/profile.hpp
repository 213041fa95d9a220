// Constants that depend on the machine, not on the program: MachineProfile, which the scheduler
// reads, and KernelProfile, which schedules of kernels do. Plain data.
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

/// What memory and products cost on its processors. It decides how kernels run, and with that the
/// order of long sums; the defaults were measured on AMD EPYC and Intel Xeon with AVX-512.
struct KernelProfile {
  /// Of a tile of a product, in half cycles: starting and storing it, each of its sums, each vector
  /// of sums that is turned before it is stored.
  std::int64_t tile_start = 120, tile_sum = 5, tile_turn = 8;
  /// Copies of products' operands fetch so many terms ahead of their use.
  std::int64_t terms_ahead = 16;
  /// Transposes in memory fetch so many lines of a row together, and write so many.
  std::int64_t lines_fetched = 4, lines_written = 8;
  /// Loops over the next row of an input fetch at most so many lines of it in one iteration.
  std::int64_t lines_ahead = 16;
  /// Kernels that touch more bytes, or more than the last-level cache holds, store past the caches.
  std::int64_t cached_bytes_max = std::int64_t{32} << 20;

  friend bool operator==(const KernelProfile&, const KernelProfile&) = default;
};

}  // namespace heddle
