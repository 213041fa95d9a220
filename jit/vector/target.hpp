// What schedules and emitters know of the processor: vectors, registers, cache sizes. A value: part
// of the compile options, and of what identifies compiled code. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "heddle/profile.hpp"
#include "heddle/types.hpp"

namespace heddle::jit {

/// What memory is moved by, on all processors that kernels are scheduled for.
inline constexpr std::int64_t cache_line_bytes = 64;

/// Instructions that emitters may spell themselves; everything else is left to the compiler.
enum class Isa : std::uint8_t {
  none,      ///< no vectors at all: lanes loops run as plain loops
  portable,  ///< vector types of 16 bytes; SSE2, NEON and others
  avx2,      ///< with FMA
  avx512,    ///< F, BW, DQ and VL
};

struct Target {
  Isa isa = Isa::none;
  std::int64_t l1_bytes = 32 << 10;   ///< data cache of a core
  std::int64_t l2_bytes = 512 << 10;  ///< a core's
  std::int64_t l3_bytes = 8 << 20;    ///< as one core sees it
  KernelProfile profile{};

  [[nodiscard]] std::int64_t vector_bytes() const noexcept;
  [[nodiscard]] std::int64_t vector_registers() const noexcept;
  /// Whether a vector multiply-add rounded once is one instruction.
  [[nodiscard]] bool has_fma() const noexcept { return isa == Isa::avx2 || isa == Isa::avx512; }
  /// Elements of a vector of `type`; 0 without vectors.
  [[nodiscard]] std::int64_t lanes(DType type) const noexcept {
    return vector_bytes() / static_cast<std::int64_t>(size_of(type));
  }
  /// "avx512 49152 2097152 33554432", and behind it the profile where it is not the usual one.
  [[nodiscard]] std::string to_string() const;
  /// Inverse of to_string(); nullopt for other texts.
  [[nodiscard]] static std::optional<Target> parse(std::string_view text);
  friend bool operator==(const Target&, const Target&) = default;
};

/// The processor that this process runs on.
[[nodiscard]] const Target& native_target();
/// Throws invalid_argument naming the value that is none, and what was expected.
void check(const KernelProfile& profile);
/// The same with the instructions called `isa`: "portable", "avx2" or "avx512". Throws
/// invalid_argument for other names, and for instructions that the processor lacks.
[[nodiscard]] Target narrowed_target(std::string_view isa);
/// `target` with the instructions of `isa`. For tests: narrower ones than the machine has.
[[nodiscard]] Target with_isa(Target target, Isa isa) noexcept;
[[nodiscard]] std::string_view name(Isa isa) noexcept;

}  // namespace heddle::jit
