// The method of measurement: ratios of a subject to an anchor, in one process and in the same
// seconds.
//
// On shared machines processors move and clocks vary: absolute times of two runs do not compare.
// Subject and anchor therefore run in slices of some 10 ms, in alternation; a spin ping-pong
// between two processors gauges the machine around each pair, and pairs during which the gauge
// changed are dropped. The result is the median of the pairs' ratios. A quantity without an anchor
// (memory, processor time at rest) is read several times: a gauge. One thread drives.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace heddle::bench {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

[[nodiscard]] inline double ns_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::nano>(to - from).count();
}

/// Times of single operations, in ns, for percentiles. The times include reading the clock (some 20
/// to 40 ns).
class Samples {
 public:
  void add(double ns) {
    if (values_.size() < samples_max) values_.push_back(ns);
  }
  /// 0 <= share <= 1; 0 when there are no samples.
  [[nodiscard]] double percentile(double share) const;
  [[nodiscard]] double mean() const;

 private:
  static constexpr std::size_t samples_max = 4'000'000;
  std::vector<double> values_;
};

/// The relation of a contender to heddle.
enum class Kind : std::uint8_t {
  heddle,
  limit,         ///< the bare mechanism: a lower bound
  rival,         ///< does the same work on another thread
  helped_rival,  ///< also runs tasks on the submitting thread: saves the hand-over
};

/// One way to do some work. `slice` works for about the given time and returns ns per operation;
/// before it returns, it ends the threads that it started or puts them to sleep, so that other
/// slices have the machine to themselves.
struct Contender {
  std::string name;
  Kind kind = Kind::heddle;
  std::function<double(nanoseconds length, Samples& samples)> slice;
};

/// Two contenders, compared.
struct Case {
  std::string name;  ///< the command line chooses the row by this name: "submit"
  std::string workload;
  std::string operation;  ///< the timed operation: "task", "hop", "call"
  Contender subject;
  Contender anchor;
  nanoseconds slice = std::chrono::milliseconds(20);
  std::string line{}, column{};  ///< of the table of ratios at the end; empty: not in the table
  double seconds_max = 3600;     ///< where the plan has more
  /// The times depend on the processors: pairs during which these moved are dropped.
  bool gauged = true;
};

enum class Unit : std::uint8_t { ns, bytes, percent, ratio, count };

/// A quantity of heddle's without an anchor.
struct Gauge {
  std::string name;
  std::string workload;
  std::string operation;
  std::string subject;
  Unit unit = Unit::ns;
  std::function<double()> read;
  int readings = 5;
};

/// A row of the table.
using Row = std::variant<Case, Gauge>;

struct Plan {
  double seconds_max = 4;  ///< per row
  int pairs_wanted = 30;   ///< undisturbed pairs; fewer when the time is up
};

struct Figure {
  double median = 0, low = 0, high = 0;  ///< over slices, pairs or readings; quartiles
  double p99 = 0;  ///< over single operations; 0 when single operations are not timed
};

struct Result {
  std::string name, workload, operation, subject, anchor{};  ///< no anchor: a gauge
  Kind anchor_kind = Kind::limit;
  Unit unit = Unit::ns;  ///< of both figures; the ratio has no unit
  Figure subject_figure{}, anchor_figure{};
  Figure ratio{};  ///< subject / anchor
  int pairs = 0, dropped = 0;
  Figure ping_pong{};  ///< the gauge during the row, ns: shows the placement; 0 with one processor
  std::string line{}, column{};  ///< see Case
};

/// Round trip of a flag between two pinned spinning threads, ns: shows how far apart the two
/// processors are at the moment. 0 with one processor.
[[nodiscard]] double gauge_ping_pong();

/// Throughput of two threads of arithmetic over that of one: about 2 on two cores, 1 on one shared
/// core.
[[nodiscard]] double gauge_scaling();

/// Identifies a row before its measurement.
[[nodiscard]] Result head_of(const Case& which);
[[nodiscard]] Result head_of(const Gauge& which);

[[nodiscard]] Result measure(const Case& which, const Plan& plan);
[[nodiscard]] Result measure(const Gauge& which, const Plan& plan);

/// Throws internal unless the contender ran all of its tasks; without this check its time means
/// little.
void require_all_ran(const char* contender, std::uint64_t ran, std::uint64_t expected);

/// Spins: sleeping takes 50 us at least, and yields the processor.
void pause_for(double ns);

/// Calls body(count) until `length` is over; returns ns per operation.
template <class Body>
double timed_loop(nanoseconds length, std::size_t count, const Body& body) {
  const auto start = Clock::now();
  std::size_t done = 0;
  Clock::time_point now;
  do {
    body(count);
    done += count;
    now = Clock::now();
  } while (now - start < length);
  return ns_between(start, now) / static_cast<double>(done);
}

/// As above for single operations: most of the slice is timed as a whole, the rest one by one into
/// `samples`.
template <class Operation>
double timed_operations(nanoseconds length, Samples& samples, const Operation& operation) {
  const double mean = timed_loop(length * 3 / 4, 16, [&operation](std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) operation();
  });
  const auto end = Clock::now() + length / 4;
  for (auto from = Clock::now(); from < end;) {
    operation();
    const auto to = Clock::now();
    samples.add(ns_between(from, to));
    from = to;
  }
  return mean;
}

}  // namespace heddle::bench
