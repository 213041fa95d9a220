// Facts about the machine: MachineProfile, the measurements; SchedulerProfile and KernelProfile,
// the constants derived from them. None of the values affects results. Plain data.
#pragma once

#include <cstdint>

#include "heddle/duration.hpp"
#include "heddle/requires.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// The costs of processors, caches and memory of a machine. `heddle tune --machine` measures and
/// stores them, and backends read the stored values. A value that does not fit the machine only
/// costs time: no bit of a result depends on it. The defaults were measured on two cores of an AMD
/// EPYC (Zen 4), on which the derived constants were tuned. Values begin at 1; a value impossible
/// on every machine is refused by name when a backend opens.
struct MachineProfile {
  /// Copy speeds of one processor, in 10^6 bytes per second, where a byte that is read and written
  /// counts once: within its second-level cache, within the last level, and in memory.
  std::int64_t l2_copy_mb_s = 57'000, l3_copy_mb_s = 49'000, memory_copy_mb_s = 12'000;
  /// The copy speed in memory of every processor together (64 at most).
  std::int64_t all_copy_mb_s = 15'000;
  /// Multiply-adds of f32 of one processor, two operations each, in 10^6 operations per second.
  std::int64_t peak_mflop_s = 118'000;
  /// A load from memory whose address depends on the result of the previous load, in nanoseconds.
  std::int64_t memory_load_ns = 170;
  /// Fetching a cache line that another processor has just written, in nanoseconds.
  std::int64_t line_transfer_ns = 55;
  /// Handing a part to another processor that looks for work, and seeing the part's end, in
  /// nanoseconds.
  std::int64_t part_ns = 240;

  friend bool operator==(const MachineProfile&, const MachineProfile&) = default;
};

/// Constants of the scheduler that depend on the distance between the machine's processors. A value
/// that does not fit the machine only costs time. The defaults suit two cores of an AMD EPYC, near
/// or far apart.
struct SchedulerProfile {
  /// A submitting thread prefetches, for writing, the queue's slot this many tasks ahead, because
  /// slots come from the worker's processor. 0: no prefetch.
  std::uint32_t slots_ahead = 6;
  /// A worker that ran `row_min` tasks in a row, and is less than `close_behind` tasks behind the
  /// submitters (more after a long row), lets the submitters get ahead: otherwise the worker would
  /// take away each slot while the slot is written.
  std::uint32_t row_min = 16, close_behind = 32;
  /// The worker then pauses until `start_tasks` tasks are queued (more after a long row), as long
  /// as at least 2 tasks come within `start_pauses` pauses of the processor (0.5 to 3 us; fewer
  /// after a short row).
  std::uint32_t start_tasks = 64, start_pauses = 48;
  /// How long a thread without work looks for work before it sleeps. Best about the time of a wake:
  /// the thread then loses at most a factor of two against sleeping at once, and against never
  /// sleeping. A negative value is refused when a scheduler or backend is opened.
  std::chrono::nanoseconds spin{50'000};

  friend bool operator==(const SchedulerProfile&, const SchedulerProfile&) = default;
};

/// Constants of kernels' schedules that depend on the cost of memory on the machine. The constants
/// decide how kernels run, never the order of additions. The defaults were measured on AMD EPYC and
/// Intel Xeon with AVX-512. Values begin at 1; a value that no schedule could use is refused by
/// name when a backend opens.
struct KernelProfile {
  /// How many terms ahead of their use copies of products' operands are fetched.
  std::int64_t terms_ahead = 16;
  /// The lines of a row that transposes in memory fetch together, and the lines that they write
  /// together.
  std::int64_t lines_fetched = 4, lines_written = 8;
  /// The most lines of an input's next row that loops fetch in one iteration.
  std::int64_t lines_ahead = 16;
  /// The rows that sums of columns add at a time to sums in the first-level cache, and prefetch
  /// meanwhile.
  std::int64_t rows_together = 4;
  /// Sums of products over few terms, such as windows of convolutions, have no loop as long as they
  /// take at most this many multiply-adds of vectors: a loop's end costs as much as a term, but
  /// instructions must stay in their cache.
  std::int64_t unrolled_steps = 128;
  /// Kernels that touch more bytes than this, or more than the last-level cache holds, store past
  /// the caches.
  std::int64_t cached_bytes_max = std::int64_t{32} << 20;
  /// The bytes that a kernel's part with its own processor loads and stores, an operation counting
  /// as one byte: some microseconds, to outweigh the cost of beginning a part on another processor.
  std::int64_t part_bytes = std::int64_t{128} << 10;

  friend bool operator==(const KernelProfile&, const KernelProfile&) = default;
};

}  // namespace heddle
#pragma GCC visibility pop
