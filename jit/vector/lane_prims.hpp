// Primitive functions on vectors: the form of each instruction of value/primitives.hpp in all
// lanes. Operations that gcc's and clang's vector types lack (libgccjit's lack more) are explicit
// instructions. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "jit/loop/loop.hpp"
#include "jit/value/primitives.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// True for the element types of vectors: numbers of 4 or 8 bytes.
[[nodiscard]] bool is_lane_type(DType t);

/// True if f16 and f32 are converted in lanes (F16C), to the same bits as by
/// value/primitives_cast.cpp, NaN included, and bf16 and integers of 8 and 16 bits become f32 as
/// they are loaded. In lanes, all of them are represented by the f32 of the same value.
[[nodiscard]] inline bool has_half(const Target& target) noexcept {
  return target.isa >= Isa::avx2;
}
/// %0 = %1 converted: from f16, in memory or half a register; and to f16, to nearest even.
inline constexpr const char* widen_half = "vcvtph2ps %1, %0";
inline constexpr const char* narrow_to_half = "vcvtps2ph $0, %1, %0";
/// %0 = %1: elements of the type, from memory or a part of a register, extended to words; then the
/// words to f32, null where they are f32 already.
[[nodiscard]] const char* widening(DType t);
[[nodiscard]] const char* after_widening(DType t);
/// The type that represents a type's values in lanes. A bool is a mask, but the bytes of bools in
/// memory are loaded as f32 too, and compared with 0.
[[nodiscard]] constexpr DType in_lanes(DType t) noexcept {
  return t != DType::bool_ && size_of(t) < 4 ? DType::f32 : t;
}

enum class LaneForm : std::uint8_t {
  none,         ///< no vector form
  constant,     ///< the scalar in all lanes
  table,        ///< an entry of the table in each lane
  infix,        ///< the operator of the scalar instruction
  negate,       ///< the operator of the scalar instruction
  mask_infix,   ///< the operator of the scalar instruction, on masks: integers with a bit per lane
  same_bits,    ///< the same bits as another type
  magnitude,    ///< the sign bit cleared
  instruction,  ///< an explicit instruction, see lane_instruction()
};
[[nodiscard]] LaneForm lane_form(const Prim& prim, const PrimFunction& function,
                                 const Target& target);
/// The instruction in AT&T syntax: %0 is the result, %1, %2, %3 are the operands in order. The
/// result of a multiply-add begins as the third operand.
[[nodiscard]] std::string lane_instruction(const Prim& prim, const PrimFunction& function,
                                           const Target& target);
[[nodiscard]] bool is_multiply_add(const Prim& prim) noexcept;

/// True if all instructions of the function have a vector form, and all values except bools have
/// `bytes` bytes.
[[nodiscard]] bool is_lane_function(const PrimFunction& function, std::size_t bytes,
                                    const Target& target);

/// True if a bool is a mask register (AVX-512); otherwise it is a vector of words of all ones and
/// zeros.
[[nodiscard]] inline bool has_mask_registers(const Target& target) noexcept {
  return target.isa >= Isa::avx512;
}

/// The smallest register that holds the first bytes of an AVX-512 vector.
struct PartRegister {
  std::int64_t bytes = 0;
  char letter = 0;  ///< names the register in inline assembly; 0: the whole vector
};
[[nodiscard]] inline PartRegister part_register(const Target& target, std::int64_t bytes) noexcept {
  if (bytes <= 16) return {16, 'x'};
  if (bytes <= 32) return {32, 't'};
  return {target.vector_bytes(), '\0'};
}

/// True if PrimOp::scale is an instruction.
[[nodiscard]] inline bool has_scaling(const Target& target) noexcept {
  return target.isa >= Isa::avx512;
}

/// The integer type of lanes of `bytes` bytes.
[[nodiscard]] constexpr DType lane_word(std::size_t bytes) noexcept {
  return bytes == 8 ? DType::u64 : DType::u32;
}

/// The register class of an instruction's operand, as a constraint of inline assembly: only AVX-512
/// has mask registers, and vector registers beyond the sixteenth.
[[nodiscard]] inline const char* lane_constraint(DType type, const Target& target) noexcept {
  if (!has_mask_registers(target)) return "x";
  return type == DType::bool_ ? "Yk" : "v";
}

/// Streaming store: bypasses the caches where the address is a multiple of the vector's size. The
/// instruction requires the alignment, which views need not have. %0 is the vector in memory, %1
/// its address, %2 the stored value. Empty: the target has none.
[[nodiscard]] std::string stream_instruction(DType type, const Target& target);
/// Required before other threads are told of streamed data: streaming stores are not ordered.
inline constexpr const char* after_streaming = "sfence";
/// True if a kernel's vector code for this target has streaming stores.
[[nodiscard]] bool has_streams(const Loop& loop, const Target& target);

}  // namespace heddle::jit
