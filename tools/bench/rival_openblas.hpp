// OpenBLAS, where its library is installed: opened, not linked. One thread.
#pragma once

#include <optional>

#include "tools/bench/compiled_kernel.hpp"

namespace heddle::bench {

/// c = a b on the setup's three square matrices, with one thread and the kernels for AVX-512 where
/// the processor has that: by itself version 0.3.21 does not know newer processors. None where the
/// library is missing.
[[nodiscard]] std::optional<Alternative> openblas();

}  // namespace heddle::bench
