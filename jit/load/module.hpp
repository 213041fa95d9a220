// Loaded code.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "heddle/kernel.h"

namespace heddle::jit {

/// Loaded code. Unloads when the last handle goes, so whoever may run a function holds the Module.
class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;
  /// The function of the unit's k-th kernel.
  [[nodiscard]] virtual heddle_kernel_function function(std::size_t k) const noexcept = 0;
  /// The text that was compiled: C, or loop text for gccjit.
  [[nodiscard]] virtual const std::string& source() const noexcept = 0;
  [[nodiscard]] virtual std::chrono::nanoseconds compile_time() const noexcept = 0;
};

}  // namespace heddle::jit
