// Shared code of the rows of a GPU: the sizes of arrays, and the GPU by its driver alone, which the
// limits use. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "devices/cuda_gpu.hpp"
#include "heddle/backend.hpp"
#include "tools/bench/harness.hpp"

namespace heddle::bench {

/// A large array exceeds the caches of every GPU; a small one only shows that the row runs.
struct GpuSizes {
  bool small = false;
  [[nodiscard]] std::int64_t side() const { return small ? 64 : 8192; }  ///< of a matrix
  [[nodiscard]] std::int64_t product() const { return small ? 64 : 4096; }
  [[nodiscard]] std::size_t calls() const { return small ? 1 : 16; }  ///< between two waits
};
[[nodiscard]] GpuSizes& gpu_sizes();

/// A device of the first GPU, by the variables HEDDLE_CUDA_DRIVER and HEDDLE_NVRTC. Throws
/// unavailable.
[[nodiscard]] Backend open_cuda();

/// The first GPU, and a stream there. Calls throw Error.
class BareGpu {
 public:
  /// Throws unavailable.
  BareGpu();
  BareGpu(const BareGpu&) = delete;
  BareGpu& operator=(const BareGpu&) = delete;
  ~BareGpu();

  [[nodiscard]] const std::shared_ptr<dev::cuda::Gpu>& gpu() const { return gpu_; }
  [[nodiscard]] const dev::cuda::Driver& driver() const { return gpu_->driver(); }
  [[nodiscard]] dev::cuda::Stream stream() const { return stream_; }
  [[nodiscard]] dev::cuda::Stream new_stream() const;
  void wait() const;
  void require(dev::cuda::Result result, const char* function) const;

 private:
  std::shared_ptr<dev::cuda::Gpu> gpu_;
  dev::cuda::Stream stream_ = nullptr;
};

/// Memory of the GPU.
class BareMemory {
 public:
  BareMemory(const BareGpu& gpu, std::size_t bytes);
  BareMemory(const BareMemory&) = delete;
  BareMemory& operator=(const BareMemory&) = delete;
  ~BareMemory();
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] dev::cuda::Address address() const {
    return reinterpret_cast<dev::cuda::Address>(data_);
  }

 private:
  const std::shared_ptr<dev::cuda::Gpu> gpu_;
  void* data_ = nullptr;
};

}  // namespace heddle::bench
