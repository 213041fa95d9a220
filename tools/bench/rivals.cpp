// See rivals.hpp. Which rivals there are is for the build to find out.
#include "tools/bench/rivals.hpp"

namespace heddle::bench {

std::vector<Rival> rivals() {
  return {
#ifdef HEDDLE_BENCH_TBB
      tbb_arena_rival(), tbb_flow_rival(),   tbb_for_rival(),
#endif
#ifdef HEDDLE_BENCH_OPENMP
      openmp_rival(),    openmp_for_rival(),
#endif
#ifdef HEDDLE_BENCH_ASIO
      asio_rival(),
#endif
// StarPU looks for OpenCL devices when it starts: PoCL must start first, with its own settings.
#ifdef HEDDLE_BENCH_POCL
      pocl_rival(),
#endif
#ifdef HEDDLE_BENCH_STARPU
      starpu_rival(),
#endif
      deque_rival(),
  };
}

std::vector<std::string> rivals_left_out() {
  return {
#ifndef HEDDLE_BENCH_TBB
      "oneTBB",
#endif
#ifndef HEDDLE_BENCH_OPENMP
      "OpenMP",
#endif
#ifndef HEDDLE_BENCH_ASIO
      "Boost.Asio",
#endif
#ifndef HEDDLE_BENCH_STARPU
      "StarPU",
#endif
#ifndef HEDDLE_BENCH_POCL
      "PoCL",
#endif
  };
}

}  // namespace heddle::bench
