// Floating-point environments of hosts that differ from heddle's.
#pragma once

#include <immintrin.h>

#include <array>

namespace heddle {

struct HostFloating {
  const char* name;
  unsigned control;  ///< MXCSR
};
/// Traps as of feenableexcept(), and the trap for subnormal operands; no host traps inexact
/// results, which the C++ library itself computes.
inline constexpr unsigned trapping = 0x1000;
inline constexpr std::array host_floatings{
    HostFloating{"rounds down", 0x1f80 | _MM_ROUND_DOWN},
    HostFloating{"rounds up", 0x1f80 | _MM_ROUND_UP},
    HostFloating{"rounds to zero", 0x1f80 | _MM_ROUND_TOWARD_ZERO},
    HostFloating{"flushes", 0x1f80 | 0x8040},
    HostFloating{"traps", trapping},
    HostFloating{"rounds up, flushes and traps", trapping | _MM_ROUND_UP | 0x8040}};

/// Sets the environment of the calling thread during its lifetime.
class UnusualHost {
 public:
  explicit UnusualHost(const HostFloating& floating)
      : before_(_mm_getcsr()), control_(floating.control) {
    _mm_setcsr(control_);
  }
  ~UnusualHost() { _mm_setcsr(before_); }
  UnusualHost(const UnusualHost&) = delete;
  UnusualHost& operator=(const UnusualHost&) = delete;
  [[nodiscard]] bool is_as_before() const { return (_mm_getcsr() & ~0x3fU) == control_; }

 private:
  const unsigned before_, control_;
};

}  // namespace heddle
