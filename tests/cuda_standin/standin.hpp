// A stand-in for NVIDIA's driver, for machines without a GPU: a library with the functions that
// heddle asks for. Streams are threads, which are late now and then; a GPU's memory is the host's
// at addresses that the host cannot touch, and what is outside of its allocations is illegal.
// "CUBIN" is a shared library whose kernels are StandinKernel. It proves logic, not speed. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::cuda_standin {

/// Where the threads of a group meet. What nvrtc.cpp puts before kernels has the same structure.
struct Meeting {
  /// Until all of them are at this line of the text. All their votes, or-ed.
  int (*wait)(Meeting*, unsigned line, int vote);
  /// Two threads touched an element of memory that they share, one of them to write it.
  void (*accuse)(Meeting*, const char* name, unsigned long long element, unsigned one,
                 unsigned other);
  unsigned long long epoch;  ///< another number after each meeting, and in each group
};

/// Which thread of which group a kernel is called as; both have one axis. `meeting` is null for
/// kernels of libraries that do not say, as `standin_meets`, that threads wait for each other.
struct Place {
  unsigned group, groups, thread, threads;
  Meeting* meeting;
};

/// One thread of a kernel. What it returns is a CUresult, which all later calls answer, too, unless
/// it is 0.
using StandinKernel = int (*)(const std::uint64_t* words, const Place* place);

/// How the driver shows itself from the next opening on.
struct Look {
  int version = 12040;
  int devices = 2;
  int init_result = 0;
  const char* missing = nullptr;  ///< a function that it lacks
  bool pools = true;              ///< memory in stream order
};

/// What the library exports besides the driver's functions, as `cuda_standin`.
struct Controls {
  void (*look)(const Look&);
  /// The call of `function` after `after` others answers `result`, once.
  void (*fail)(const char* function, std::size_t after, int result);
  /// While held no stream goes on.
  void (*hold)(bool held);
  /// Forgets errors, faults and holds.
  void (*reset)();
  std::size_t (*live_allocations)();
  /// Streams and events that were made and not destroyed.
  std::size_t (*live_handles)();
  /// Contexts that the calling thread has pushed and not popped.
  std::size_t (*pushed_contexts)();
  std::size_t (*calls)(const char* function);
  /// What was wrong in the last kernel that failed, for as long as none fails.
  const char* (*fault)();
};

}  // namespace heddle::cuda_standin
