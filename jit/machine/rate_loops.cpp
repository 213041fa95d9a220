// See jit/machine/rate_loops.hpp. meson.build optimises this file in every build and excludes the
// file from sanitizers, because the loops must reach the processor's limits.
#include "jit/machine/rate_loops.hpp"

#include <cstddef>
#include <cstdint>

namespace heddle::jit {
namespace {

namespace basic {
#define RATE_TARGET
#define RATE_BYTES 16
#include "jit/machine/rate_loops.inc"
#undef RATE_TARGET
#undef RATE_BYTES
}  // namespace basic

#if defined(__x86_64__)
namespace avx2 {
#define RATE_TARGET [[gnu::target("avx2,fma")]]
#define RATE_BYTES 32
#include "jit/machine/rate_loops.inc"
#undef RATE_TARGET
#undef RATE_BYTES
}  // namespace avx2

namespace avx512 {
#define RATE_TARGET [[gnu::target("avx512f")]]
#define RATE_BYTES 64
#include "jit/machine/rate_loops.inc"
#undef RATE_TARGET
#undef RATE_BYTES
}  // namespace avx512
#endif

}  // namespace

const RateLoops basic_rate_loops = basic::loops;
#if defined(__x86_64__)
const RateLoops avx2_rate_loops = avx2::loops;
const RateLoops avx512_rate_loops = avx512::loops;
#endif

}  // namespace heddle::jit
