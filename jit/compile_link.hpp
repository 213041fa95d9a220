// How both CPU compilers link kernels: for the loader's least work, which is half of what finding
// a kernel in the cache takes. Values.
#pragma once

#include <array>

namespace heddle::jit {

/// No start files: they run constructors, of which kernels have none. Segments that share pages:
/// two maps of a file of 2 KiB instead of four of 15. No page made read-only after it was
/// relocated: it would have the addresses of functions of libm at most. Measured from memfd_create
/// to dlclose on Zen 4: 38 us instead of 67.
inline constexpr std::array kernel_link_options{"-nostartfiles", "-Wl,-z,noseparate-code",
                                                "-Wl,-z,norelro"};

}  // namespace heddle::jit
