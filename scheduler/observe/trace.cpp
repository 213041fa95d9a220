// Recording: rings of threads, stamps, start_trace() and stop_trace().
#include "scheduler/observe/trace.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "scheduler/threads/task_context.hpp"

namespace heddle::sched::trace {
namespace {

using Clock = std::chrono::steady_clock;

/// A thread's ring in one trace.
struct ThreadRing {
  ThreadRing(std::uint32_t trace, std::size_t capacity) : session(trace), ring(capacity) {}
  const std::uint32_t session;
  TraceRing<Record> ring;
};

struct Registry {
  std::mutex mutex;  // guards the members below
  std::uint32_t last_session = 0;
  TraceOptions options;
  std::uint64_t begin = 0;  // stamp
  Clock::time_point begin_time;
  std::vector<std::shared_ptr<ThreadRing>> rings;
  std::vector<std::shared_ptr<ThreadRing>> left;  // rings of ended threads
  std::map<std::uint64_t, std::string> names;
  std::uint64_t refused = 0;  // events of threads without memory for a ring
};
/// Never destroyed: threads may end during exit.
Registry*& registry_place() noexcept {
  static auto* all = new Registry;
  return all;
}
Registry& registry() noexcept { return *registry_place(); }

/// True if stamps are the processor's counter: requires a constant rate, and a kernel that has not
/// found processors to disagree.
bool counter_is_even() noexcept {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000007, &a, &b, &c, &d) == 0 || (d & (1U << 8)) == 0) return false;
  try {
    std::ifstream file("/sys/devices/system/clocksource/clocksource0/available_clocksource");
    std::string word;
    while (file >> word) {
      if (word == "tsc") return true;
    }
  } catch (...) {  // no memory to read the file
  }
#endif
  return false;
}
bool counter = false;  // written once, before the first trace begins

/// The state of a thread. Separate from its ring, so that it can be read after thread-local objects
/// are destroyed.
struct Here {
  ThreadRing* ring = nullptr;
  std::uint64_t track = 0;
  bool ending = false;
};
[[gnu::tls_model("initial-exec")]] thread_local constinit Here here;

struct Owner {
  std::shared_ptr<ThreadRing> ring;
  ~Owner();
};
thread_local Owner owner;

/// Gives the ring to the next thread that needs one.
Owner::~Owner() {
  here.ring = nullptr;
  here.ending = true;
  // relaxed: pairs with the stores in start_trace() and stop_trace(); checked again under the lock,
  // which a forked child must not take.
  const auto over = [&] {
    return !ring || ring->session != session.load(std::memory_order_relaxed);
  };
  if (over()) return;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (over()) return;
  try {
    all.left.push_back(std::move(ring));
  } catch (...) {  // no memory: the ring stays unused
  }
}

/// Called in a forked child, by its only thread: the parent's trace is not the child's, and a
/// thread that does not exist here may have held the registry's lock.
void forget_parents_trace() noexcept {
  // relaxed, both: pairs with the loads in on() and submits_on(), on the child's only thread.
  session.store(0, std::memory_order_relaxed);
  submits.fetch_and(submits_watched, std::memory_order_relaxed);
  here = {};
  auto* const fresh = new (std::nothrow) Registry;
  if (fresh == nullptr) return;
  fresh->last_session = registry().last_session;
  registry_place() = fresh;
}

std::string thread_name() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

/// This thread's ring in trace `now`; null without one.
[[gnu::noinline]] ThreadRing* open_ring(std::uint32_t now) noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  // relaxed: pairs with the stores in start_trace() and stop_trace(), under the same lock. The
  // trace may be over.
  if (here.ending || session.load(std::memory_order_relaxed) != now) return nullptr;
  try {
    all.names.emplace(track_of_thread(), thread_name());
    if (!all.left.empty()) {
      owner.ring = std::move(all.left.back());
      all.left.pop_back();
    } else {
      owner.ring = std::make_shared<ThreadRing>(now, std::bit_ceil(all.options.events_max));
      all.rings.push_back(owner.ring);
    }
    return here.ring = owner.ring.get();
  } catch (...) {
    ++all.refused;
    return nullptr;
  }
}

}  // namespace

std::atomic<std::uint32_t> session{0};
std::atomic<std::uint8_t> submits{0};

namespace {
[[gnu::always_inline]] inline std::uint64_t now() noexcept {
#if defined(__x86_64__)
  if (counter) [[likely]]
    return __rdtsc();
#endif
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
}
}  // namespace

std::uint64_t stamp() noexcept { return now(); }

[[gnu::noinline]] std::uint64_t track_of_thread() noexcept {
  if (here.track == 0) here.track = Trace::thread_bit | static_cast<std::uint64_t>(::gettid());
  return here.track;
}

std::uint64_t track_here() noexcept {
  const TaskContext* const task = current_task();
  return task != nullptr ? task->timeline : track_of_thread();
}

namespace {
/// Inlined, so that a record is written directly into the ring.
[[gnu::always_inline]] inline void put(const Record& record) noexcept {
  // acquire: pairs with the release in start_trace(). The trace may have ended since the caller
  // looked.
  const std::uint32_t mine = session.load(std::memory_order_acquire);
  if (mine == 0) return;
  ThreadRing* ring = here.ring;
  if (ring == nullptr || ring->session != mine) [[unlikely]] {
    ring = open_ring(mine);
    if (ring == nullptr) return;
  }
  ring->ring.write(record);
}
}  // namespace

[[gnu::noinline]] std::uint64_t record_task(std::uint64_t begin, std::uint64_t timeline,
                                            const char* label, std::uint64_t ticket,
                                            Ended ended) noexcept {
  const std::uint64_t end = now();
  put({begin, end, timeline, reinterpret_cast<std::uint64_t>(label), ticket, Kind::task, ended});
  return end;
}

[[gnu::noinline]] void record_pause(Kind kind, std::uint64_t track, std::uint64_t timeline,
                                    std::uint64_t ticket, std::uint64_t begin) noexcept {
  put({begin, now(), track, timeline, ticket, kind, Ended::done});
}

void record_point(Kind kind, std::uint64_t timeline, std::uint64_t ticket) noexcept {
  const std::uint64_t at = now();
  put({at, at, track_here(), timeline, ticket, kind, Ended::done});
}

void name(std::uint64_t timeline, const std::string& name) noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  try {
    all.names.emplace(timeline, name);
  } catch (...) {  // no memory: the timeline stays unnamed
  }
}

namespace {

/// Converts stamps to nanoseconds since the beginning.
struct Calibration {
  std::uint64_t begin;
  double ns_per_tick;
  [[nodiscard]] std::chrono::nanoseconds since_begin(std::uint64_t at) const noexcept {
    return std::chrono::nanoseconds(
        at <= begin ? 0 : static_cast<std::int64_t>(static_cast<double>(at - begin) * ns_per_tick));
  }
};

TraceEvent to_event(const Record& record, const Calibration& clock) noexcept {
  TraceEvent event;
  event.kind = record.kind;
  event.end = record.ended;
  event.track = record.track;
  event.ticket = record.ticket;
  if (record.kind == Kind::task) {
    event.device = record.track;
    event.label = reinterpret_cast<const char*>(record.subject);
  } else {
    event.device = record.subject;
  }
  event.begin = clock.since_begin(record.begin);
  event.duration =
      std::max(clock.since_begin(record.end) - event.begin, std::chrono::nanoseconds(0));
  return event;
}

}  // namespace
}  // namespace heddle::sched::trace

namespace heddle {

void start_trace(const TraceOptions& options) {
  using namespace sched;
  constexpr std::size_t most = std::size_t{1} << 24;
  if (options.events_max == 0 || options.events_max > most) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("trace: events_max is {} (expected 1 to {})", options.events_max, most));
  }
  trace::Registry& all = trace::registry();
  std::unique_lock lock(all.mutex);
  // relaxed: pairs with the stores here and in stop_trace(), under the same lock.
  if (trace::session.load(std::memory_order_relaxed) != 0) {
    throw Error(ErrorCode::failed_precondition,
                "a trace is being recorded already; stop_trace() ends it");
  }
  [[maybe_unused]] static const bool decided = [] {
    trace::counter = trace::counter_is_even();
    pthread_atfork(nullptr, nullptr, &trace::forget_parents_trace);
    return true;
  }();
  all.options = options;
  all.refused = 0;
  all.names.clear();
  all.begin_time = trace::Clock::now();
  all.begin = trace::stamp();
  // release: pairs with the acquire in on() and put().
  trace::session.store(++all.last_session, std::memory_order_release);
  // relaxed: pairs with the load in submits_on(); a thread that records looks at the session again.
  if (options.submits) trace::submits.fetch_or(trace::submits_traced, std::memory_order_relaxed);
  lock.unlock();
  // Timelines opened after this line find the trace on.
  trace::name_open_timelines();
}

Trace stop_trace() {
  using namespace sched;
  trace::Registry& all = trace::registry();
  const std::lock_guard lock(all.mutex);
  // relaxed: pairs with the loads in on() and put(); changed under the lock, or in a forked child.
  // Later records belong to no trace.
  if (trace::session.exchange(0, std::memory_order_relaxed) == 0)
    throw Error(ErrorCode::failed_precondition, "no trace is being recorded");
  // relaxed: pairs with the load in submits_on().
  trace::submits.fetch_and(static_cast<std::uint8_t>(~trace::submits_traced),
                           std::memory_order_relaxed);
  const std::chrono::duration<double, std::nano> length = trace::Clock::now() - all.begin_time;
  const auto ticks = static_cast<double>(trace::stamp() - all.begin);
  const trace::Calibration clock{all.begin, trace::counter ? length.count() / ticks : 1.0};

  Trace result;
  const auto rings = std::move(all.rings);
  all.rings = {};
  all.left = {};
  result.dropped = all.refused;
  for (const auto& ring : rings) {
    ring->ring.read([&](const trace::Record& record) {
      result.events.push_back(trace::to_event(record, clock));
    });
    result.dropped += ring->ring.dropped();
  }
  // Events with equal stamps (some counters tick in tens of ns): tasks in their order, then events
  // inside them, long before short.
  std::ranges::sort(result.events, {}, [](const TraceEvent& each) {
    const bool is_task = each.kind == TraceEvent::Kind::task;
    return std::tuple(each.begin, !is_task, is_task ? each.ticket : 0, -each.duration, each.ticket);
  });
  result.names = std::move(all.names);
  all.names = {};
  std::set<std::uint64_t> seen;
  for (const TraceEvent& event : result.events) seen.insert({event.track, event.device});
  std::erase_if(result.names, [&](const auto& each) { return !seen.contains(each.first); });
  return result;
}

}  // namespace heddle
