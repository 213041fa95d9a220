// Every constant of the scheduler, with its reason, but for those of one machine
// (heddle/profile.hpp). Values only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "heddle/profile.hpp"

namespace heddle::sched::tuning {

/// Writers of different threads stay this far apart: a cache line.
inline constexpr std::size_t line_bytes = 64;

/// The lowest bit of a ticket that marks its slot as published: the mark has 15 bits, and must
/// reach up to the 20 of the largest queue. Rings have at least 64 slots then, 4 KiB.
inline constexpr unsigned mark_from = 6;

/// A producer looks at the consumer's progress, whose line it has to fetch, only once in so many
/// tickets while fewer are outstanding. For that, smaller maxima of the queue's length may pass
/// unseen.
inline constexpr std::uint64_t unseen_max = 16;

/// How long waits that belong to no device spin.
inline constexpr std::chrono::nanoseconds spin_default = SchedulerProfile{}.spin;

/// A clock read costs about 20 ns, a pause 1 to 40 ns: look at the clock this often while spinning.
inline constexpr int spins_per_clock_read = 32;

/// A worker that has no pause looks at a coarse clock (4 ns) this often: how long a task runs is
/// told from there.
inline constexpr std::uint32_t tasks_per_clock_read = 64;

/// Tasks outstanding per device where nobody says: what the reference's queues hold, and enough
/// that hosts seldom wait.
inline constexpr std::uint32_t queue_size_default = 4096;

/// Events that ended badly keep their full text for the first failure and this many latest ones per
/// timeline; others keep their code. Bounds memory under endless fail and recover.
inline constexpr std::size_t failure_texts_max = 1024;

/// Closed timelines whose failures are still known to their events, at most this many. Bounds
/// memory under endless open, fail and close.
inline constexpr std::size_t closed_timelines_max = 4096;

/// A completer that is watched, and so pays a fence per task, looks the other way after this many
/// tasks that nobody waited for; a heavy barrier costs about as much as this many fences.
inline constexpr std::uint32_t unasked_max = 1024;

/// Where the size of a thread's stack cannot be asked for: glibc's usual one. Untouched pages of a
/// stack cost nothing.
inline constexpr std::size_t fiber_stack_bytes = std::size_t{8} << 20;

/// Fibers that a thread keeps at rest: as many as inline devices usually nest.
inline constexpr std::size_t fibers_cached_max = 4;

/// A pooled or manual device gives way to others after this many tasks: a few microseconds of empty
/// ones, which the turn's own cost (some 100 ns) vanishes in.
inline constexpr std::uint32_t turn_tasks_max = 256;

/// A range without a grain is cut in so many parts for each thread: whoever is done early, or late,
/// takes more or fewer, and a part costs some 50 ns. More than kernels have, whose parts are even.
inline constexpr std::size_t parts_per_thread = 8;
/// Threads claim that many rows of parts at most, so that the parts behind one that failed, or
/// after a stop request, are left out within milliseconds.
inline constexpr std::size_t rows_max = std::size_t{1} << 20;

/// Tasks of Scheduler::submit_any() have so many devices at most, some 6 KiB each; those beyond
/// come one after the other. A queue has as many slots as the smallest ring.
inline constexpr std::size_t any_devices_max = 1024;
inline constexpr std::uint32_t any_queue_size = 1 << mark_from;

/// Callbacks of events, and tasks of inline devices, run within others this deep; the next wait
/// until these have ended. Deep enough for what is written by hand, and small for any stack.
inline constexpr unsigned nesting_max = 64;

/// A task that came after a failure with more causes than this keeps the innermost alone: a chain
/// of tasks that goes on for ever takes no more memory, and its text has the first few only anyway.
inline constexpr std::size_t causes_max = 64;

/// Simulated time begins here: such that a deadline before it, or none, can be told.
inline constexpr std::chrono::steady_clock::time_point simulated_start{std::chrono::hours(1)};
/// A host that polls in a simulation looks this often.
inline constexpr std::chrono::nanoseconds simulated_pass{10'000'000};
/// What comes late in a simulation does so by this much: deadlines are shorter.
inline constexpr std::chrono::nanoseconds simulated_late = std::chrono::seconds(10);
/// Ending a simulation that is stuck gives up after so many steps.
inline constexpr std::uint64_t simulated_end_steps = 100'000;
/// Priorities drop at so many points of the first so many steps (or some power of two fewer, since
/// runs differ) of a simulation: bugs that need one more ordering than this are rare (the depth d
/// of PCT).
inline constexpr int pct_drops = 4;
inline constexpr std::uint64_t pct_steps = 2000;
/// A subset of a simulation's actors goes on alone for at most so many steps.
inline constexpr std::uint64_t subset_steps = 200;

/// After the deadline of a shutdown passed and tasks were cancelled, the running one has this long
/// to see its stop token.
inline constexpr std::chrono::nanoseconds stop_grace{100'000'000};

/// A watchdog looks this often within its limit, which it then exceeds by at most one part.
inline constexpr int watchdog_looks = 4;

/// But not more often than this, lest a tiny limit keep a processor busy.
inline constexpr std::chrono::nanoseconds watchdog_pause_min{1'000'000};

/// A thread that has no memory to be woken looks this often.
inline constexpr std::chrono::nanoseconds pause_without_memory{1'000'000};

}  // namespace heddle::sched::tuning
