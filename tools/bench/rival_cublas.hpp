// cuBLAS, where it is installed. One thread.
#pragma once

#include <cstdint>

#include "tools/bench/gpu_rows.hpp"

namespace heddle::bench {

/// Products of square f32 matrices without TF32, in the stream of a bare GPU.
class Cublas {
 public:
  /// Throws unavailable where there is no cuBLAS, or where it does not start.
  explicit Cublas(const BareGpu& gpu);
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  ~Cublas();

  /// c = a b, row-major, n x n. Returns once issued.
  void multiply(int n, const BareMemory& a, const BareMemory& b, const BareMemory& c) const;

 private:
  const BareGpu& gpu_;
  void* handle_ = nullptr;
};

}  // namespace heddle::bench
