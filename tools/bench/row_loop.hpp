// A loop over rows shared by two threads, the host's and a second one: the loop that heddle and
// rivals run in parts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tools/bench/harness.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {

enum class RowCost : std::uint8_t {
  none,     ///< two empty rows: measures starting the rows and detecting their end
  meeting,  ///< the same, but each row waits until the other row has begun: needs two threads
  even,     ///< 1024 rows, some 200 ns each
  uneven,   ///< as many rows with the same total, from 0 to twice the mean each
};

class RowLoop {
 public:
  explicit RowLoop(RowCost cost)
      : cost_(cost), ran_(cost == RowCost::none || cost == RowCost::meeting ? 2 : 1024) {}

  [[nodiscard]] std::size_t rows() const { return ran_.size(); }
  /// Any thread; each row once per loop.
  void run(std::size_t row) {
    std::uint64_t value = row + 1;
    for (std::size_t left = steps(row); left > 0; --left)
      value = value * 6364136223846793005U + 1442695040888963407U;
    ran_[row] += 1 + (value == 0 ? 1 : 0);  // never 0, but compilers do not know
    if (cost_ == RowCost::meeting) meet(2 * ran_[row]);
  }
  void run(std::size_t from, std::size_t to) {
    for (std::size_t row = from; row < to; ++row) run(row);
  }
  /// Number of complete runs of all rows.
  [[nodiscard]] std::uint64_t ran() const {
    std::uint64_t sum = 0;
    for (const std::uint32_t each : ran_) sum += each;
    return sum;
  }

 private:
  [[nodiscard]] std::size_t steps(std::size_t row) const {
    constexpr std::size_t even = 150;
    if (cost_ == RowCost::none || cost_ == RowCost::meeting) return 0;
    return cost_ == RowCost::even ? even : 2 * even * row / rows();
  }

  void meet(std::uint32_t begun) {
    // relaxed, both: counters only.
    met_.fetch_add(1, std::memory_order_relaxed);
    while (met_.load(std::memory_order_relaxed) < begun) spin_pause();
  }

  const RowCost cost_;
  std::vector<std::uint32_t> ran_;
  alignas(64) std::atomic<std::uint32_t> met_{0};  // rows begun, over all loops
};

/// Runs loops by `share`, which takes the loop and returns once all rows have run.
template <class Share>
double timed_loops(const char* name, RowCost cost, nanoseconds length, Samples& samples,
                   const Share& share) {
  RowLoop loop(cost);
  std::uint64_t loops = 0;
  const double ns = timed_operations(length, samples, [&] {
    share(loop);
    ++loops;
  });
  require_all_ran(name, loop.ran(), loops * loop.rows());
  return ns;
}

}  // namespace heddle::bench
