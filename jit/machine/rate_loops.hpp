// Loops that reach a processor's limits; rates.cpp times the loops.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::jit {

/// See rate_loops.inc. `bytes` is a multiple of four vectors; memory is aligned to one vector.
struct RateLoops {
  float (*multiply_add)(const float* from, std::size_t rounds);
  std::uint64_t (*read_all)(const void* from, std::size_t bytes);
  void (*copy_all)(void* to, const void* from, std::size_t bytes);
  std::size_t vector_bytes;
};

/// For every processor of this architecture.
extern const RateLoops basic_rate_loops;
#if defined(__x86_64__)
extern const RateLoops avx2_rate_loops;    // with FMA
extern const RateLoops avx512_rate_loops;  // AVX-512F
#endif

}  // namespace heddle::jit
