// JAX on the CPU, in a Python process of its own with the same data: a rival of the kernel rows.
// One thread.
#pragma once

#include <filesystem>
#include <optional>

#include "tools/bench/compiled_kernel.hpp"

namespace heddle::bench {

/// Which Python has it; before the rows are made. Empty: no rows.
void use_jax_of(std::filesystem::path python);
/// Programs that it has no words for, and pythons without it, are `unavailable` when they are
/// prepared.
[[nodiscard]] std::optional<Alternative> jax_alternative();

}  // namespace heddle::bench
