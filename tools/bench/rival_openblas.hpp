// OpenBLAS, where its library is installed: opened, not linked. One thread.
#pragma once

#include "tools/bench/compiled_kernel.hpp"

namespace heddle::bench {

/// c = a b, of the first two arrays and the last array of a setup, row-major.
struct BlasProduct {
  int rows = 0, columns = 0, terms = 0;
  bool transposed_a = false, transposed_b = false;
  int batch = 1;  ///< products, one after another
};

/// With the given number of threads and the AVX-512 kernels where the processor supports them:
/// version 0.3.21 does not detect newer processors. Preparing without the library throws
/// `unavailable`.
[[nodiscard]] Alternative openblas(const BlasProduct& product, int threads = 1);

/// OPENBLAS_CORETYPE for this processor, where OpenBLAS would choose slower kernels; else null.
[[nodiscard]] const char* openblas_core();

}  // namespace heddle::bench
