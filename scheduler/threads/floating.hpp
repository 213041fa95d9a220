// The floating-point environment of a thread: a host may change rounding, flush tiny values to zero
// (programs linked with -ffast-math do so from the start), or unmask floating-point exceptions, and
// threads inherit the environment from the thread that starts them. Descriptions, folds, texts and
// kernels must not depend on it: code that makes them begins with a DefaultFloating.
#pragma once

#include <immintrin.h>

namespace heddle::sched {

/// During its lifetime, the calling thread's floating-point operations follow IEEE 754's defaults:
/// round to nearest even, no flush to zero, exceptions masked. The destructor restores the previous
/// environment. Costs a nanosecond where the host uses the defaults. The x87 unit is not changed:
/// heddle does not use it.
class DefaultFloating {
 public:
  DefaultFloating() noexcept : before_(_mm_getcsr()) {
    if ((before_ & ~seen) != defaults) [[unlikely]]
      _mm_setcsr(defaults);
  }
  ~DefaultFloating() {
    if ((before_ & ~seen) != defaults) [[unlikely]]
      _mm_setcsr(before_);
  }
  DefaultFloating(const DefaultFloating&) = delete;
  DefaultFloating& operator=(const DefaultFloating&) = delete;

 private:
  // Bits of MXCSR (Intel SDM 1, 10.2.3): flags of past exceptions; all exceptions masked.
  static constexpr unsigned seen = 0x3f, defaults = 0x1f80;
  const unsigned before_;
};

}  // namespace heddle::sched
