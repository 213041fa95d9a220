// A stand-in for NVIDIA's driver, for machines without a GPU: a library with the driver functions
// that heddle calls. Streams are threads with random delays. GPU memory is host memory at addresses
// that the host cannot touch; an access outside an allocation is illegal. A "CUBIN" is a shared
// library whose kernels are StandinKernel. The stand-in proves logic, not speed. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::cuda_standin {

inline constexpr unsigned a_copy = ~0U;
/// GPU memory is out of the host's reach: GPU addresses have an extra bit, and with that bit no
/// address belongs to the host.
inline constexpr std::uint64_t not_of_host = std::uint64_t{1} << 47U;

/// The barrier of a group's threads. The code that nvrtc.cpp puts before kernels has the same
/// structure.
struct Meeting {
  /// Waits until every thread of the group is at this line. Returns the OR of the votes.
  int (*wait)(Meeting*, unsigned line, int vote);
  /// Waits until every thread of the caller's warp is at this line.
  void (*wait_in_warp)(Meeting*, unsigned line);
  /// Reports that two threads touched an element of shared memory and at least one of them wrote;
  /// or that a thread touched an element to which a copy goes on, for a_copy as the other thread.
  void (*accuse)(Meeting*, const char* name, unsigned long long element, unsigned one,
                 unsigned other);
  unsigned long long epoch;            ///< changes after each meeting, unique to the group
  unsigned long long warp_epochs[32];  ///< of each warp, change after each meeting of the warp
};

/// Thread and group index of a kernel call; both have one axis. `meeting` is null for kernels of
/// libraries without `standin_meets`, whose threads do not wait for one another.
struct Place {
  unsigned group, groups, thread, threads;
  Meeting* meeting;
};

/// One thread of a kernel. Returns a CUresult; a result other than 0 becomes the result of every
/// later call.
using StandinKernel = int (*)(const std::uint64_t* words, const Place* place);

/// Properties of the driver from the next opening on.
struct Look {
  int version = 12040;
  int devices = 2;
  int init_result = 0;
  const char* missing = nullptr;             ///< a function absent from the driver
  bool pools = true;                         ///< has memory in stream order
  std::size_t bytes = std::size_t{1} << 30;  ///< of memory, each device
  bool peers = true;                         ///< the devices can access each other's memory
  /// Allocations of host memory wait for the work asked for before: the Programming Guide of CUDA
  /// 11 lists them under Implicit Synchronization.
  bool host_memory_waits = false;
};

/// Exports besides the driver's functions, under the name `cuda_standin`.
struct Controls {
  void (*look)(const Look&);
  /// Makes the call of `function` after `after` earlier calls return `result`, once.
  void (*fail)(const char* function, std::size_t after, int result);
  /// While held, no stream proceeds.
  void (*hold)(bool held);
  /// Ends the outstanding work of a GPU with `result`, which later calls return too.
  void (*lose)(int device, int result);
  /// Keeps a GPU's primary context, as another user of the GPU in this process does.
  void (*keep_context)(int device, bool kept);
  /// Each copy takes so much longer.
  void (*slow_copies)(int milliseconds);
  /// Forgets errors, faults, holds and slowness.
  void (*reset)();
  std::size_t (*live_allocations)();
  /// Streams and events that were created and not destroyed.
  std::size_t (*live_handles)();
  /// Contexts that the calling thread has pushed and not popped.
  std::size_t (*pushed_contexts)();
  std::size_t (*calls)(const char* function);
  /// Text of the last kernel failure, valid until the next failure.
  const char* (*fault)();
};

}  // namespace heddle::cuda_standin
