// OpenBLAS, where its library is installed: opened, not linked. One thread.
#pragma once

#include "tools/bench/compiled_kernel.hpp"

namespace heddle::bench {

/// c = a b, of the first two and the last array of a setup, row-major.
struct BlasProduct {
  int rows = 0, columns = 0, terms = 0;
  bool transposed_a = false, transposed_b = false;
  int batch = 1;  ///< products, one after another
};

/// With so many threads and the kernels for AVX-512 where the processor has that: by itself version
/// 0.3.21 does not know newer processors. Prepared without the library it is `unavailable`.
[[nodiscard]] Alternative openblas(const BlasProduct& product, int threads = 1);

/// OPENBLAS_CORETYPE for this processor, where OpenBLAS by itself picks slower kernels; else null.
[[nodiscard]] const char* openblas_core();

}  // namespace heddle::bench
