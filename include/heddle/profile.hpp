// What is known of the machine: MachineProfile, what was measured of it; SchedulerProfile and
// KernelProfile, the constants that follow from it. None decides what is computed. Plain data.
#pragma once

#include <chrono>
#include <cstdint>

#include "heddle/requires.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// What processors, caches and memory of a machine take. `heddle tune --machine` measures it, and
/// backends read what it kept. A value that does not fit the machine costs time, nothing else: no
/// bit of a result depends on it. The defaults are those of two cores of an AMD EPYC (Zen 4), on
/// which the constants that follow from them were tuned. Values begin at 1; one that no machine has
/// is refused by name when a backend opens.
struct MachineProfile {
  /// Copying, in 10^6 bytes per second, each byte read and written counting once: of one processor
  /// within its second-level cache, within the last level, and in memory.
  std::int64_t l2_copy_mb_s = 57'000, l3_copy_mb_s = 49'000, memory_copy_mb_s = 12'000;
  /// The same in memory, of all processors together (64 at most).
  std::int64_t all_copy_mb_s = 15'000;
  /// Multiply-adds of f32 of one processor, two operations each, in 10^6 operations per second.
  std::int64_t peak_mflop_s = 118'000;
  /// A load from memory whose address is what the load before gave, in nanoseconds.
  std::int64_t memory_load_ns = 170;
  /// Fetching a line that another processor has just written, in nanoseconds.
  std::int64_t line_transfer_ns = 55;
  /// Handing a part to another processor that looks for work, and seeing its end, in nanoseconds.
  std::int64_t part_ns = 240;

  friend bool operator==(const MachineProfile&, const MachineProfile&) = default;
};

/// Constants of the scheduler that depend on how far apart the machine's processors are. A value
/// that does not fit the machine costs time, nothing else. The defaults suit two cores of an AMD
/// EPYC, near each other or far apart.
struct SchedulerProfile {
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

  friend bool operator==(const SchedulerProfile&, const SchedulerProfile&) = default;
};

/// Constants of kernels' schedules that depend on what memory costs on the machine. They decide how
/// kernels run, never in which order they add. The defaults were measured on AMD EPYC and Intel
/// Xeon with AVX-512. Values begin at 1; one that no schedule could use is refused by name when a
/// backend opens.
struct KernelProfile {
  /// Copies of products' operands fetch so many terms ahead of their use.
  std::int64_t terms_ahead = 16;
  /// Transposes in memory fetch so many lines of a row together, and write so many.
  std::int64_t lines_fetched = 4, lines_written = 8;
  /// Loops over the next row of an input fetch at most so many lines of it in one iteration.
  std::int64_t lines_ahead = 16;
  /// Sums of columns add so many rows at a time to sums in the first-level cache, and fetch as many
  /// while they do.
  std::int64_t rows_together = 4;
  /// Sums of products over few terms, as windows of convolutions are, have no loop as long as they
  /// take at most so many multiply-adds of vectors: a loop's end costs as much as a term, but
  /// instructions have to stay in their cache.
  std::int64_t unrolled_steps = 128;
  /// Kernels that touch more bytes, or more than the last-level cache holds, store past the caches.
  std::int64_t cached_bytes_max = std::int64_t{32} << 20;
  /// A part of a kernel that runs on a processor of its own loads and stores as many bytes, an
  /// operation counting as one: some microseconds, for what it costs to begin it on another one.
  std::int64_t part_bytes = std::int64_t{128} << 10;

  friend bool operator==(const KernelProfile&, const KernelProfile&) = default;
};

}  // namespace heddle
#pragma GCC visibility pop
