// Code as loaded on a device, and the memory of one launch. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "devices/device.hpp"
#include "heddle/kernel.h"
#include "jit/code/code.hpp"
#include "runtime/memory/range.hpp"

namespace heddle::rt {

struct BackendState;
struct Execution;
class Memory;

/// A step of code. The other members are set if the step is a kernel.
struct LoadedStep {
  jit::Step step;
  std::shared_ptr<const dev::Module> module{};  ///< loaded on the device
  std::size_t first_buffer = 0;                 ///< index of the first buffer in Tables::kernels_
};

/// The only step of code, if the step is a kernel with no inputs but memory and static indices, and
/// Queue::launch() returns after the kernel's end.
struct SingleKernel {
  const dev::Module* module;
  std::size_t index;
  std::uint32_t parts;  ///< see jit::KernelStep; 1: the device has no helpers
  bool fits_any_stack;  ///< has local blocks of few bytes
};

/// Code as loaded on a device. Made once, by load().
struct Loaded {
  Code code;
  std::vector<LoadedStep> steps;
  std::size_t num_buffers;  ///< sum over the kernels
  bool calls_host;          ///< a step calls host code
  std::optional<SingleKernel> single;
};

/// Loads the steps of `code` on the device. Throws the device's error.
[[nodiscard]] Loaded load(BackendState& backend, const Execution& execution, const Code& code,
                          std::vector<jit::Step> steps);

/// Tells whether an entry is a tensor with memory in a context.
[[nodiscard]] bool is_stored(const jit::CodeData& code, std::size_t entry) noexcept;
/// The entry of a tensor; nullopt: the code does not use the tensor.
[[nodiscard]] std::optional<std::size_t> entry_of(const jit::CodeData& code, const Tensor& tensor);

/// The use of a signature's entry by a launch.
[[nodiscard]] Use use_of(const jit::SignatureEntry& entry) noexcept;

/// A table of the signature's entries with the addresses of scratch filled in, and the other
/// entries empty. `scratch`: null if the code has none.
[[nodiscard]] std::vector<heddle_kernel_buffer> scratch_entries(const jit::CodeData& code,
                                                                const Memory* scratch);

/// Addresses of a launch's memory.
class Tables {
 public:
  /// Allocates the tables for `loaded`, with the entries of scratch_entries().
  void begin(const Loaded& loaded, const Memory* scratch);
  /// One per entry of the signature; empty for the merge entry.
  [[nodiscard]] std::vector<heddle_kernel_buffer>& entries() noexcept { return entries_; }
  [[nodiscard]] const std::vector<heddle_kernel_buffer>& entries() const noexcept {
    return entries_;
  }
  /// Called when every entry is set: fills the kernels' tables.
  void end(const Loaded& loaded) noexcept;
  /// The buffers of a kernel, one per entry of the kernel.
  [[nodiscard]] const heddle_kernel_buffer* of(const LoadedStep& kernel) const noexcept {
    return kernels_.data() + kernel.first_buffer;
  }
  /// The buffers of a single kernel.
  [[nodiscard]] const heddle_kernel_buffer* of_single() const noexcept { return kernels_.data(); }
  /// Start of the scratch private to helpers; null: helpers need none.
  std::byte* helpers = nullptr;

 private:
  std::vector<heddle_kernel_buffer> entries_, kernels_;
};

}  // namespace heddle::rt
