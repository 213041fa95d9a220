// Code as a device's hardware runs it, and the memory that one launch of it has. Values; any
// thread.
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

/// A step of code, and where it is a kernel:
struct LoadedStep {
  jit::Step step;
  std::shared_ptr<const dev::Module> module{};  ///< the device's
  std::size_t first_buffer = 0;                 ///< the place of its first one in Tables::kernels
};

/// The only step of code, where that is a kernel that looks at nothing but memory and static
/// indices, and is done when it was launched.
struct SingleKernel {
  const dev::Module* module;
  std::size_t index;
  std::uint32_t parts;  ///< see jit::KernelStep; 1 where nobody helps the device
};

/// Code as a device has loaded it: made once, by load().
struct Loaded {
  Code code;
  std::vector<LoadedStep> steps;
  std::size_t num_buffers;  ///< of all kernels together
  bool calls_host;          ///< a step does
  std::optional<SingleKernel> single;
};

/// These steps of the code. Throws what the device says that loads them.
[[nodiscard]] Loaded load(BackendState& backend, const Execution& execution, const Code& code,
                          std::vector<jit::Step> steps);

/// How a launch uses an entry of its signature.
[[nodiscard]] Use use_of(const jit::SignatureEntry& entry) noexcept;

/// The entries of a signature, of which those of scratch lie in that memory, and all others are
/// empty. `scratch`: null where the code has none.
[[nodiscard]] std::vector<heddle_kernel_buffer> scratch_entries(const jit::CodeData& code,
                                                                const Memory* scratch);

/// Where the memory of a launch lies.
class Tables {
 public:
  /// Room for what `loaded` needs, with the entries of scratch_entries().
  void begin(const Loaded& loaded, const Memory* scratch);
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
  /// Those of the kernel, where it is a single one.
  [[nodiscard]] std::span<const heddle_kernel_buffer> of_single() const noexcept {
    return kernels_;
  }
  /// Where the scratch begins that helpers have their own of; null: they need none.
  std::byte* helpers = nullptr;

 private:
  std::vector<heddle_kernel_buffer> entries_, kernels_;
};

}  // namespace heddle::rt
