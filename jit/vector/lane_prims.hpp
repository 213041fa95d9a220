// Primitive functions on vectors: how each instruction of value/primitives.hpp is done in all
// lanes. What gcc's and clang's vector types lack (and libgccjit's all the more) are instructions
// spelt out. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "jit/loop/loop.hpp"
#include "jit/value/primitives.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// Types of which vectors are made: numbers of 4 or 8 bytes.
[[nodiscard]] bool is_lane_type(DType t);

/// Whether f16 and f32 are converted in lanes (F16C): to the same bits as by
/// value/primitives_cast.cpp, NaN included; and whether bf16 becomes f32 in lanes. There both are
/// the f32 of the same value.
[[nodiscard]] inline bool has_half(const Target& target) noexcept {
  return target.isa >= Isa::avx2;
}
/// %0 becomes %1 converted: from f16, in memory or half a register, and to f16, to nearest even.
inline constexpr const char* widen_half = "vcvtph2ps %1, %0";
inline constexpr const char* narrow_to_half = "vcvtps2ph $0, %1, %0";
/// %0 becomes %1, bf16 likewise, as the low half of words; then these become f32.
inline constexpr const char* widen_bf16 = "vpmovzxwd %1, %0";
inline constexpr const char* raise_bf16 = "vpslld $16, %1, %0";
/// What values of a type are in lanes.
[[nodiscard]] constexpr DType in_lanes(DType t) noexcept {
  return t == DType::f16 || t == DType::bf16 ? DType::f32 : t;
}

enum class LaneForm : std::uint8_t {
  none,         ///< there is no vector form
  constant,     ///< the scalar in all lanes
  table,        ///< an entry in each lane
  infix,        ///< the operator of the scalar instruction
  negate,       ///< likewise
  mask_infix,   ///< likewise, on masks: integers with a bit per lane
  same_bits,    ///< another type for the same bits
  magnitude,    ///< the sign bit cleared
  instruction,  ///< spelt out, see lane_instruction()
};
[[nodiscard]] LaneForm lane_form(const Prim& prim, const PrimFunction& function,
                                 const Target& target);
/// The instruction in AT&T syntax: %0 is the result, %1, %2, %3 are the operands in order. The
/// result of a multiply-add begins as the third operand.
[[nodiscard]] std::string lane_instruction(const Prim& prim, const PrimFunction& function,
                                           const Target& target);
[[nodiscard]] bool is_multiply_add(const Prim& prim) noexcept;

/// All instructions of the function have a vector form, and all values but bools this size.
[[nodiscard]] bool is_lane_function(const PrimFunction& function, std::size_t bytes,
                                    const Target& target);

/// A bool is a mask register with AVX-512, else a vector of words of all ones and zeros.
[[nodiscard]] inline bool has_mask_registers(const Target& target) noexcept {
  return target.isa >= Isa::avx512;
}

/// Whether PrimOp::scale is an instruction.
[[nodiscard]] inline bool has_scaling(const Target& target) noexcept {
  return target.isa >= Isa::avx512;
}

/// What lanes of that many bytes are as integers.
[[nodiscard]] constexpr DType lane_word(std::size_t bytes) noexcept {
  return bytes == 8 ? DType::u64 : DType::u32;
}

/// Where an operand of an instruction lies, as a constraint of inline assembly: only AVX-512 has
/// mask registers, and vector registers beyond the sixteenth.
[[nodiscard]] inline const char* lane_constraint(DType type, const Target& target) noexcept {
  if (!has_mask_registers(target)) return "x";
  return type == DType::bool_ ? "Yk" : "v";
}

/// Streaming stores: past the caches where the address is a multiple of the vector's size, which
/// the instruction wants and views need not keep. %0 is the vector in memory, %1 its address, %2
/// what is stored. Empty: the target has none.
[[nodiscard]] std::string stream_instruction(DType type, const Target& target);
/// Before others are told of what was streamed: such stores keep no order of their own.
inline constexpr const char* after_streaming = "sfence";
/// Whether a kernel's vector code for this target streams.
[[nodiscard]] bool has_streams(const Loop& loop, const Target& target);

}  // namespace heddle::jit
