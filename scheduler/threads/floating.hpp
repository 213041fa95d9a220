// What a thread computes with: a host may round otherwise, flush what is tiny to zero (programs
// that are linked with -ffast-math do so from their start), or have exceptions of floating
// operations stop it, and threads inherit that from those that start them. Descriptions, folds,
// texts and kernels have nothing of it: whoever makes them begins with a DefaultFloating.
#pragma once

#include <immintrin.h>

namespace heddle::sched {

/// While it lives, the calling thread's floating operations are IEEE 754's: rounded to nearest
/// even, nothing flushed to zero, nothing stopped. Then it computes as before. Costs a nanosecond
/// where the host's are the same. The x87 unit stays as it is: nothing of heddle uses it.
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
  // Bits of MXCSR (Intel SDM 1, 10.2.3): what has happened so far; all exceptions masked.
  static constexpr unsigned seen = 0x3f, defaults = 0x1f80;
  const unsigned before_;
};

}  // namespace heddle::sched
