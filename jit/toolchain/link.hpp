// How both CPU compilers link kernels: for the least work of the loader, a third of what finding
// a kernel in the cache takes. Values.
#pragma once

#include <array>

namespace heddle::jit {

/// Without start files, which at unloading call what atexit() was told: kernels tell it nothing.
/// With segments that share a page, in two maps and 2 KiB, where an empty library otherwise takes
/// four maps and 15 KiB. Without pages made read-only after they were relocated: they would have
/// the addresses of functions of libm at most. Measured from memfd_create() to dlclose() on Zen 4:
/// 38 us instead of 67. GNU ld, lld and mold know these options, gold does not.
inline constexpr std::array kernel_link_options{"-nostartfiles", "-Wl,-z,noseparate-code",
                                                "-Wl,-z,norelro"};

}  // namespace heddle::jit
