// TraceRing: the values that a traced kernel tells while it runs, in host memory that the GPU can
// access. The kernel (jit/emit/cuda.cpp) writes entries and waits while the ring is full; the host
// takes them out. One queue at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "devices/cuda_gpu.hpp"
#include "heddle/kernel.h"

namespace heddle::dev::cuda {

class TraceRing {
 public:
  /// `gpu` must outlive the ring.
  explicit TraceRing(const Gpu& gpu) noexcept : gpu_(gpu) {}
  TraceRing(const TraceRing&) = delete;
  TraceRing& operator=(const TraceRing&) = delete;
  ~TraceRing();

  /// Begins an empty ring for the next kernel. On the first call also allocates the memory.
  [[nodiscard]] Status begin() noexcept;
  /// The address that the kernel finds in its cell.
  [[nodiscard]] std::uint64_t address() const noexcept {
    return reinterpret_cast<std::uint64_t>(ring_);
  }
  /// Calls args.trace for each entry that the kernel has written and the host has not yet taken.
  void tell(const heddle_kernel_args& args) noexcept;

 private:
  static constexpr std::uint64_t capacity = 1024;
  struct Entry {
    std::uint32_t statement, entry;
    std::int64_t offset;
    double before, after;
  };
  struct Ring {
    std::uint64_t written;  // entries, since begin(); only the kernel counts up
    std::uint64_t taken;    // only the host counts up
    Entry entries[capacity];
  };
  static_assert(sizeof(Entry) == 32 && offsetof(Ring, entries) == 16);

  const Gpu& gpu_;
  Ring* ring_ = nullptr;
};

}  // namespace heddle::dev::cuda
