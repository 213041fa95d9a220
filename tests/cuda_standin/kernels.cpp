// Kernels for the GPU stand-in: StandinKernel of standin.hpp. Argument words as in
// devices/cuda_device.hpp.
#include <atomic>
#include <cstdint>
#include <thread>

#include "heddle/kernel.h"
#include "tests/cuda_standin/standin.hpp"

using heddle::cuda_standin::Place;

namespace {

template <class T>
T* at(std::uint64_t word) {
  return reinterpret_cast<T*>(word);
}

}  // namespace

extern "C" {

/// x[i] += a, for buffer x and static a, in groups of 4.
[[gnu::visibility("default")]] int add(const std::uint64_t* words, const Place* place) {
  at<std::int32_t>(words[0])[place->group * 4 + place->thread] +=
      static_cast<std::int32_t>(words[1]);
  return 0;
}

/// Returns a failure; the kernel has neither buffers nor statics.
[[gnu::visibility("default")]] int fails(const std::uint64_t* words, const Place* /*place*/) {
  at<heddle_kernel_status>(words[0])->code = 7;
  at<heddle_kernel_status>(words[0])->detail = 41;
  return 0;
}

[[gnu::visibility("default")]] int breaks_the_gpu(const std::uint64_t* /*words*/,
                                                  const Place* /*place*/) {
  return 700;
}

/// Runs until the host sets `stop`.
[[gnu::visibility("default")]] int runs_on(const std::uint64_t* words, const Place* /*place*/) {
  const std::atomic_ref stop(*at<std::uint32_t>(words[1]));
  // relaxed: no pair; no data is read after the load.
  while (stop.load(std::memory_order_relaxed) == 0) std::this_thread::yield();
  at<heddle_kernel_status>(words[0])->code = HEDDLE_KERNEL_STOPPED;
  return 0;
}
}
