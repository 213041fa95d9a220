// Code as a device's hardware runs it, and the memory that one launch of it has. Values; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "devices/device.hpp"
#include "heddle/kernel.h"
#include "jit/code/code.hpp"

namespace heddle::rt {

struct BackendState;
struct Execution;

/// A step of code, and where it is a kernel:
struct LoadedStep {
  jit::Step step;
  std::shared_ptr<const dev::Module> module{};  ///< the device's
  std::size_t first_buffer = 0;                 ///< the place of its first one in Tables::kernels
};

struct Loaded {
  Code code;
  std::vector<LoadedStep> steps;
};

/// The steps of some code, which the device loads. Throws what that says.
[[nodiscard]] std::vector<LoadedStep> load_steps(BackendState& backend, const Execution& execution,
                                                 std::vector<jit::Step> steps);

/// Where the memory of a launch lies.
class Tables {
 public:
  /// Room for what `loaded` needs: all entries are empty. Keeps what it has.
  void begin(const Loaded& loaded);
  /// For each entry of the signature; empty for the merge entry.
  [[nodiscard]] std::vector<heddle_kernel_buffer>& entries() noexcept { return entries_; }
  [[nodiscard]] const std::vector<heddle_kernel_buffer>& entries() const noexcept {
    return entries_;
  }
  /// All entries are there: kernels find theirs.
  void end(const Loaded& loaded) noexcept;
  /// Those of a kernel, one for each of its entries.
  [[nodiscard]] const heddle_kernel_buffer* of(const LoadedStep& kernel) const noexcept {
    return kernels_.data() + kernel.first_buffer;
  }
  /// Where the scratch begins that helpers have their own of; null: they need none.
  std::byte* helpers = nullptr;

 private:
  std::vector<heddle_kernel_buffer> entries_, kernels_;
};

/// The only step of code, if that is a kernel that looks at nothing but memory and static indices.
struct PlainKernel {
  const dev::Module* module;
  std::size_t index;
  heddle_kernel_args args;  ///< but for the values of static indices and what it says
  std::uint32_t parts = 1;  ///< see jit::KernelStep
};

}  // namespace heddle::rt
