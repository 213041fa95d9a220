// See machine/pairs.hpp.
#include "jit/machine/pairs.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "scheduler/threads/team.hpp"

namespace heddle::jit {
namespace {

using PairClock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr nanoseconds pairing_time{50'000'000};
/// A thread that waits longer gives up: the two threads do not run at once. Less than a time slice
/// of the system's scheduler, after which two threads of one processor would meet, and more than
/// any two processors need.
constexpr nanoseconds meeting_time_max{500'000};

/// A helper thread that polls for work, and its team. Needs two processors.
class Pair {
 public:
  Pair() { crew_.assign(0, &team_); }
  ~Pair() { crew_.assign(0, nullptr); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  /// Runs body(part) as part 0 on this thread and as part 1 on the helper, if both begin.
  template <class Body>
  void run(Body& body) {
    team_.run(
        2,
        [](void* context, std::uint32_t part, std::uint32_t) noexcept {
          (*static_cast<Body*>(context))(part);
        },
        &body);
  }

 private:
  static constexpr nanoseconds spin_{10'000'000};
  sched::Team team_{spin_};
  sched::Crew crew_{"heddle-tune", 1, {}, spin_};
};

/// Two threads that pass a number back and forth; a round goes both ways.
struct PingPong {
  static constexpr std::uint64_t rounds = 100;
  alignas(64) std::atomic<std::uint64_t> ping{0};
  alignas(64) std::atomic<std::uint64_t> pong{0};
  std::atomic<bool> lost{false};
  nanoseconds took{};

  void operator()(std::uint32_t part) noexcept {
    const PairClock::time_point begin = PairClock::now(), end = begin + meeting_time_max;
    for (std::uint64_t k = 1; k <= rounds; ++k) {
      // release: pairs with the acquire in seen() of the other part.
      if (part == 0) ping.store(k, std::memory_order_release);
      if (!seen(part == 0 ? pong : ping, k, end)) return;
      // release: as above.
      if (part == 1) pong.store(k, std::memory_order_release);
    }
    if (part == 0) took = PairClock::now() - begin;
  }
  bool seen(const std::atomic<std::uint64_t>& other, std::uint64_t number,
            PairClock::time_point end) noexcept {
    for (std::uint64_t looks = 1;; ++looks) {
      // acquire: pairs with the release of the other part.
      if (other.load(std::memory_order_acquire) == number) return true;
      // relaxed: a hint to give up; pairs with the store below.
      if (looks % 1024 == 0 && (lost.load(std::memory_order_relaxed) || PairClock::now() > end)) {
        lost.store(true, std::memory_order_relaxed);  // relaxed: see above
        return false;
      }
    }
  }
};

/// Parts that end once both have begun.
struct Meeting {
  std::atomic<std::uint32_t> here{0};
  std::atomic<bool> lost{false};

  void operator()(std::uint32_t) noexcept {
    // relaxed: only a count; pairs with the load below.
    here.fetch_add(1, std::memory_order_relaxed);
    const PairClock::time_point end = PairClock::now() + meeting_time_max;
    // relaxed: see above.
    for (std::uint64_t looks = 1; here.load(std::memory_order_relaxed) < 2; ++looks) {
      if (looks % 1024 != 0 || PairClock::now() <= end) continue;
      lost.store(true, std::memory_order_relaxed);  // relaxed: read after the join
      return;
    }
  }
};

}  // namespace

/// The best time of all games: a disturbance only makes games slower.
double measure_line_transfer_ns() {
  Pair pair;
  nanoseconds best = nanoseconds::max();
  for (const auto end = PairClock::now() + pairing_time; PairClock::now() < end;) {
    PingPong game;
    pair.run(game);
    // relaxed: both parts have ended.
    if (!game.lost.load(std::memory_order_relaxed)) best = std::min(best, game.took);
  }
  if (best == nanoseconds::max()) return std::numeric_limits<double>::infinity();
  return static_cast<double>(best.count()) / static_cast<double>(2 * PingPong::rounds);
}

/// The median of all meetings: the best times occur when the helper happens to poll. Few meetings
/// mean that the helper had no processor most of the time.
double measure_part_ns() {
  constexpr std::size_t meetings_max = 10'000, meetings_min = 1'000;
  Pair pair;
  std::vector<nanoseconds> took;
  for (const auto end = PairClock::now() + pairing_time;
       PairClock::now() < end && took.size() < meetings_max;) {
    Meeting meeting;
    const PairClock::time_point begin = PairClock::now();
    pair.run(meeting);
    // relaxed: both parts have ended.
    if (!meeting.lost.load(std::memory_order_relaxed)) took.push_back(PairClock::now() - begin);
  }
  if (took.size() < meetings_min) return std::numeric_limits<double>::infinity();
  const auto middle = took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2);
  std::ranges::nth_element(took, middle);
  return static_cast<double>(middle->count());
}

}  // namespace heddle::jit
