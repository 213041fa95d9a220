// The constants of the scheduler, with their reasons; constants of a machine are in
// heddle/profile.hpp. Values only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "heddle/profile.hpp"

namespace heddle::sched::tuning {

/// The distance between data written by different threads: a cache line.
inline constexpr std::size_t line_bytes = 64;

/// The lowest bit of a ticket in the mark that publishes its slot: a mark has 15 bits, and must
/// reach the 20 bits of the largest queue. Rings therefore have at least 64 slots, 4 KiB.
inline constexpr unsigned mark_from = 6;

/// While fewer tickets are outstanding, a producer reads the consumer's progress, whose line it
/// must fetch, only once per this many tickets. In exchange, smaller maxima of the queue's length
/// may be missed.
inline constexpr std::uint64_t unseen_max = 16;

/// A thread that spins until the end of a task pauses once per this many tasks that end before: its
/// looks would take the line of the worker's progress. A pause takes as long as some tasks.
inline constexpr std::uint64_t tasks_per_pause = 8;

/// The spin time of waits that belong to no device.
inline constexpr std::chrono::nanoseconds spin_default = SchedulerProfile{}.spin;

/// A clock read costs about 20 ns, a pause 1 to 40 ns: the pauses between two clock reads of a
/// spinning thread.
inline constexpr int spins_per_clock_read = 32;

/// A worker that makes no pause reads a coarse clock (4 ns) once per this many tasks; the running
/// time that snapshots show is based on this clock.
inline constexpr std::uint32_t tasks_per_clock_read = 64;

/// A worker that gives producers a start waits for one task per this many tasks of its row: where
/// submissions end meanwhile, the row has been late by a small part of its time.
inline constexpr std::uint64_t row_per_start = 4;
/// The longest start: some microseconds.
inline constexpr std::uint64_t start_max = 1024;
/// The worker pauses once per this many tasks of its row, and at least this often, before it first
/// looks how fast tasks come.
inline constexpr std::uint64_t row_per_pause = 8, first_pauses_min = 8;
/// The worker looks at every eighth part of a start, but not at more than one slot in 16: a look at
/// a slot that is about to be written costs its producer a line.
inline constexpr std::uint64_t looks_per_start = 8, start_step = 16;
/// A start ends at once if fewer tasks come within its first pause (0.5 to 2 us): a worker close
/// behind costs a producer some 30 ns per task.
inline constexpr std::uint64_t start_came_min = 2;
/// The most pauses between two looks: 40 to 150 us.
inline constexpr std::uint64_t start_pauses_max = 4096;

/// A producer that found the queue full waits until the worker has ended a block of tasks: at most
/// a quarter of the queue, so that the worker always has tasks. It looks after each 16 pauses (0.2
/// to 1 us), and stops where fewer than 16 tasks ended meanwhile: such tasks hide transfers of
/// lines.
inline constexpr std::uint64_t blocks_min = 4, block_max = 512;
inline constexpr std::uint64_t block_pauses = 16, block_ends_min = 16;

/// Tasks outstanding per device by default: the queue size of the reference, and enough that hosts
/// seldom wait.
inline constexpr std::uint32_t queue_size_default = 4096;

/// Events that ended badly keep their full text for the first failure and this many latest failures
/// per timeline; others keep only the code. Bounds memory when a program fails and recovers
/// endlessly.
inline constexpr std::size_t failure_texts_max = 1024;

/// The most closed timelines whose failures their events still know. Bounds memory when a program
/// opens, fails and closes endlessly.
inline constexpr std::size_t closed_timelines_max = 4096;

/// A watched completer, which pays a fence per task, becomes unwatched after this many tasks for
/// which no thread waited; a heavy barrier costs about as much as this many fences.
inline constexpr std::uint32_t unasked_max = 1024;

/// The stack size if the size of a thread's stack is unknown: glibc's default. Untouched pages of a
/// stack cost no memory.
inline constexpr std::size_t fiber_stack_bytes = std::size_t{8} << 20;

/// Idle fibers that a thread caches: as many as inline devices usually nest.
inline constexpr std::size_t fibers_cached_max = 4;

/// A pooled or manual device yields to other devices after this many tasks: a few microseconds of
/// empty tasks, against which the turn's own cost (some 100 ns) is negligible.
inline constexpr std::uint32_t turn_tasks_max = 256;

/// Parts per thread of a range without a grain. Fast and slow threads take different numbers of
/// parts, and a part costs some 50 ns. Kernels, whose parts are even, use fewer parts.
inline constexpr std::size_t parts_per_thread = 8;
/// The most rows of parts that threads claim, so that the parts behind a failed part, or after a
/// stop request, are left out within milliseconds.
inline constexpr std::size_t rows_max = std::size_t{1} << 20;

/// The most devices for tasks of Scheduler::submit_any(), some 6 KiB each; tasks beyond this number
/// run one after another. A queue has as many slots as the smallest ring.
inline constexpr std::size_t any_devices_max = 1024;
inline constexpr std::uint32_t any_queue_size = 1 << mark_from;

/// The most nested callbacks of events, and nested tasks of inline devices; the next callback or
/// task waits until the nested ones have ended. Deep enough for hand-written code, and small for
/// any stack.
inline constexpr unsigned nesting_max = 64;

/// If a failure has more causes than this, a task that came after it keeps only the innermost
/// cause: an endless chain of tasks takes no more memory, and the text shows only the first few
/// causes anyway.
inline constexpr std::size_t causes_max = 64;

/// The start of simulated time: late enough that a deadline before the start, or none, is
/// recognisable.
inline constexpr std::chrono::steady_clock::time_point simulated_start{std::chrono::hours(1)};
/// The interval at which a polling host in a simulation looks.
inline constexpr std::chrono::nanoseconds simulated_pass{10'000'000};
/// The delay of late events in a simulation: longer than deadlines.
inline constexpr std::chrono::nanoseconds simulated_late = std::chrono::seconds(10);
/// Ending a stuck simulation gives up after this many steps.
inline constexpr std::uint64_t simulated_end_steps = 100'000;
/// Priorities drop at `pct_drops` points among the first `pct_steps` steps of a simulation (or some
/// power of two fewer, since runs differ): bugs that need one more ordering are rare (the depth d
/// of PCT).
inline constexpr int pct_drops = 4;
inline constexpr std::uint64_t pct_steps = 2000;
/// The most steps for which a subset of a simulation's actors continues alone.
inline constexpr std::uint64_t subset_steps = 200;

/// The time that the running task has to see its stop token, after the deadline of a shutdown
/// passed and the tasks were cancelled.
inline constexpr std::chrono::nanoseconds stop_grace{100'000'000};

/// The looks of a watchdog within its limit, which a report exceeds by at most one interval.
inline constexpr int watchdog_looks = 4;

/// The shortest interval between two looks of a watchdog: a tiny limit must not keep a processor
/// busy.
inline constexpr std::chrono::nanoseconds watchdog_pause_min{1'000'000};

/// The interval at which a thread looks that has no memory to be woken.
inline constexpr std::chrono::nanoseconds pause_without_memory{1'000'000};

}  // namespace heddle::sched::tuning
