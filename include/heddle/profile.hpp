// Constants that depend on the machine, not on the program: MachineProfile, which the scheduler
// reads, and KernelProfile, which schedules of kernels do. Plain data.
#pragma once

#include <chrono>
#include <cstdint>

#pragma GCC visibility push(default)
namespace heddle {

/// Constants of the scheduler that depend on how far apart the machine's processors are. A value
/// that does not fit the machine costs time, nothing else. The defaults suit two cores of an AMD
/// EPYC, near each other or far apart.
struct MachineProfile {
  /// A thread that submits fetches, for writing, the queue's slot this many tasks ahead, as slots
  /// come from the worker's processor. 0: it fetches none.
  std::uint32_t slots_ahead = 6;
  /// A worker that ran this many tasks in a row, and is less than `close_behind` behind those that
  /// submit, lets them get ahead: it would take away each slot while that is written.
  std::uint32_t row_min = 16, close_behind = 32;
  /// It then pauses until `start_tasks` came, or none did: `start_pauses` pauses of the processor
  /// (0.3 to 1 us) between two looks, `start_looks` at most.
  std::uint32_t start_tasks = 64, start_pauses = 24, start_looks = 16;
  /// The time that a thread without work looks for it before it sleeps. About that of a wake: it
  /// then loses at most a factor of two against sleeping at once, and against never. Below 0 it is
  /// refused when a scheduler or backend is opened.
  std::chrono::nanoseconds spin{50'000};

  friend bool operator==(const MachineProfile&, const MachineProfile&) = default;
};

/// Constants of kernels' schedules that depend on what memory and products cost on the machine.
/// They decide how kernels run, and with that the order of long sums. The defaults were measured on
/// AMD EPYC and Intel Xeon with AVX-512. Values begin at 1; one that no schedule could use is
/// refused by name when a backend opens.
struct KernelProfile {
  /// Costs of a tile of a product, in half cycles: starting and storing it, each of its sums, each
  /// vector of sums that is turned before it is stored.
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
#pragma GCC visibility pop
