// Whether bytes are a shared library of kernels for this machine, by its tables alone. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heddle/image.hpp"

namespace heddle::files {

/// ok, or compile_failed: whether the bytes are one complete ELF64 shared library for this machine.
/// Checks the tables against the size of the file: dlopen of a cut file ends in SIGBUS.
[[nodiscard]] Status check_library(std::span<const std::byte> bytes);
/// ok, or compile_failed: whether such a library defines these kernels, of this kernel ABI.
[[nodiscard]] Status check_kernels(std::span<const std::byte> library,
                                   const std::vector<ImageKernel>& kernels);
/// What the segments of such a library take in memory.
[[nodiscard]] std::uint64_t memory_bytes(std::span<const std::byte> library);

}  // namespace heddle::files
