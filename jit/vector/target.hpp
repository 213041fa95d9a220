// The properties of the processor that schedules and emitters use: vectors, registers, cache sizes.
// A value: part of the compile options, and of the key of compiled code. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "heddle/profile.hpp"
#include "heddle/types.hpp"
#include "jit/value/isa.hpp"

namespace heddle::jit {

/// The unit of memory transfers, on all processors that kernels are scheduled for.
inline constexpr std::int64_t cache_line_bytes = 64;

/// The usual sum_bytes, on all machines.
inline constexpr std::int64_t sum_bytes_usual = std::int64_t{128} << 10;

/// A value of a KernelProfile, in the order of a target's text.
struct KernelValue {
  const char* name;
  std::int64_t KernelProfile::* value;
  std::int64_t most;  ///< the least is 1
};
inline constexpr KernelValue kernel_values[] = {
    {"terms_ahead", &KernelProfile::terms_ahead, 1 << 10},
    {"lines_fetched", &KernelProfile::lines_fetched, 64},
    {"lines_written", &KernelProfile::lines_written, 64},
    {"lines_ahead", &KernelProfile::lines_ahead, 1 << 10},
    {"rows_together", &KernelProfile::rows_together, 64},
    {"unrolled_steps", &KernelProfile::unrolled_steps, 1 << 12},
    {"cached_bytes_max", &KernelProfile::cached_bytes_max, std::int64_t{1} << 50},
    {"part_bytes", &KernelProfile::part_bytes, std::int64_t{1} << 50}};

struct Target {
  Isa isa = Isa::none;
  std::int64_t l1_bytes = 32 << 10;   ///< data cache of a core
  std::int64_t l2_bytes = 512 << 10;  ///< per core
  std::int64_t l3_bytes = 8 << 20;    ///< as seen by a core
  /// Bytes loaded by a block of a long sum; blocks may run in parallel. The order of a sum follows
  /// from the value, so it is the same on all machines (W1); tests use small values.
  std::int64_t sum_bytes = sum_bytes_usual;
  KernelProfile profile{};
  /// The compute capability of an NVIDIA GPU, in place of a processor: 90 for 9.0; 0: a processor.
  int sm = 0;

  [[nodiscard]] bool is_gpu() const noexcept { return sm != 0; }
  [[nodiscard]] std::int64_t vector_bytes() const noexcept;
  [[nodiscard]] std::int64_t vector_registers() const noexcept;
  /// True if a vector multiply-add with a single rounding is one instruction.
  [[nodiscard]] bool has_fma() const noexcept { return isa >= Isa::avx2; }
  /// Elements of a vector of `type`; 0 without vectors.
  [[nodiscard]] std::int64_t lanes(DType type) const noexcept {
    return vector_bytes() / static_cast<std::int64_t>(size_of(type));
  }
  /// "avx512 49152 2097152 33554432", followed by unusual values of sum_bytes and the profile. A
  /// GPU's text begins with "sm_90".
  [[nodiscard]] std::string to_string() const;
  /// Inverse of to_string(); nullopt for other texts.
  [[nodiscard]] static std::optional<Target> parse(std::string_view text);
  friend bool operator==(const Target&, const Target&) = default;
};

/// The processor on which the process runs.
[[nodiscard]] const Target& native_target();
/// An NVIDIA GPU, by its compute capability: 90 for 9.0.
[[nodiscard]] Target gpu_target(int sm) noexcept;
/// Throws invalid_argument naming the invalid value, and the expected range.
void check(const KernelProfile& profile);
/// The native target with the instructions called `isa`: "portable", "avx2" or "avx512". Throws
/// invalid_argument for other names, and for instructions that the processor lacks.
[[nodiscard]] Target narrowed_target(std::string_view isa);
/// `target` with the instructions of `isa`. For tests with fewer instructions than the machine has.
[[nodiscard]] Target with_isa(Target target, Isa isa) noexcept;
[[nodiscard]] std::string_view name(Isa isa) noexcept;

}  // namespace heddle::jit
