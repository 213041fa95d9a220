// The rivals of heddle, besides the bare limits. One thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/harness.hpp"

namespace heddle::bench {

/// A rival's contenders by workload; a contender without a slice: the rival has no equivalent.
struct Rival {
  Contender submit;
  Contender submit_by_two, submit_by_four;  ///< threads
  Contender round_trip;
  Contender parked;
  Contender posted_hop, awaited_hop;
  Contender fan;
  Contender open;
  Contender empty_loop, meeting_loop, even_loop, uneven_loop;  ///< in parts, see row_loop.hpp
};

/// The idle time of a rival's worker before the round trip in Rival::parked.
inline constexpr nanoseconds rival_pause = std::chrono::milliseconds(1);

/// State that a rival starts once for all its rows, and ends after its last row.
template <class Runtime>
[[nodiscard]] std::shared_ptr<Runtime> one_for_all_rows() {
  static std::weak_ptr<Runtime> latest;
  std::shared_ptr<Runtime> runtime = latest.lock();
  if (!runtime) latest = runtime = std::make_shared<Runtime>();
  return runtime;
}

/// The built-in rivals. A rival starts with its first slice.
[[nodiscard]] std::vector<Rival> rivals();
/// The names of rivals that are not built in.
[[nodiscard]] std::vector<std::string> rivals_left_out();

// A file per rival.
[[nodiscard]] Rival deque_rival();
[[nodiscard]] Rival asio_rival();
[[nodiscard]] Rival openmp_rival();
[[nodiscard]] Rival openmp_for_rival();
[[nodiscard]] Rival pocl_rival();
[[nodiscard]] Rival starpu_rival();
[[nodiscard]] Rival tbb_arena_rival();
[[nodiscard]] Rival tbb_flow_rival();
[[nodiscard]] Rival tbb_for_rival();

}  // namespace heddle::bench
