// The meaning of each operation and conversion of the loop IR, written once for all emitters: a
// small function in a straight-line language that any machine can execute (no trap, no undefined
// behaviour). An emitter prints or builds only these primitives. Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/value/isa.hpp"
#include "jit/value/ops.hpp"

namespace heddle::jit {

/// The type of a value in generated code: f16 and bf16 are their 16 bits, other types stay.
constexpr DType machine_type(DType t) noexcept { return is_storage_only(t) ? DType::u16 : t; }

enum class PrimOp : std::uint8_t {
  constant,  ///< scalar
  add,       ///< add, sub, mul: u32, u64 (they wrap), f32, f64
  sub,
  mul,
  div,      ///< 32- and 64-bit integers whose divisor is neither 0 nor -1, f32, f64
  rem,      ///< integers, as div
  neg,      ///< f32, f64: flips the sign
  bit_and,  ///< bool, u32, u64; also bit_or
  bit_or,
  bit_xor,  ///< u32, u64
  shl,      ///< u32, u64; the count is a constant below the width
  shr,
  lt,  ///< lt, le, eq, ne: numbers of one type -> bool
  le,
  eq,
  ne,
  larger,    ///< f32, f64: second if first < second, otherwise first (NaN, equal operands)
  smaller,   ///< f32, f64: second if second < first, otherwise first
  scale,     ///< f32, f64: first times two to the power of second, a whole number; rounded once
  table,     ///< `entries`, a power of two of f32 values; for `lookup` only
  lookup,    ///< the entry of a table at a u32, modulo the number of entries
  pairs,     ///< i32, of two operands: the sum of the products of their i16 halves
  dot2,      ///< i32, of three operands: `pairs` plus the third
  dot4,      ///< i32, of three operands: the third plus products of u8 of the first and i8 of the
             ///< second
  dot_bf16,  ///< f32, of two i32 and an f32: as Op::dot_bf16
  select,    ///< (bool, T, T): the second if the first is true, otherwise the third
  cast,  ///< to `type`: integers wrap, a float is in the range of the integer, to f32 rounds once
  bits,  ///< the same bits as another type of that size
  call,  ///< `function`: a compiler builtin ("__builtin_...") or a function of the C library
  variable,  ///< a mutable value that starts as args[0]
  assign,    ///< variable args[0] becomes args[1]; no value
  loop,      ///< repeats up to its end_loop; no value
  leave_if,  ///< leaves the loop if args[0]; no value
  end_loop,
};

/// An instruction. Operands are positions: parameters first, then instructions.
struct Prim {
  PrimOp op = PrimOp::constant;
  DType type = DType::f32;  ///< of the result
  std::array<std::uint32_t, 3> args{};
  Scalar scalar;                   // constant
  std::string_view function;       // call; has static lifetime
  std::span<const float> entries;  // table; has static lifetime
};

/// The number of operands of `prim`; for a call, of its callee.
[[nodiscard]] std::uint32_t num_operands(const Prim& prim) noexcept;

struct PrimFunction {
  std::string name;  ///< "div_i32", "f16_from_f32": a C identifier, unique per meaning
  std::vector<DType> params;
  DType result = DType::f32;
  std::vector<Prim> code;
  std::uint32_t value = 0;  ///< position of the result

  /// True if the function is a single infix, prefix or conversion instruction on its parameters in
  /// order: an emitter may write the instruction in place.
  [[nodiscard]] bool is_single() const noexcept;
  /// True if the function returns its parameter `value` unchanged.
  [[nodiscard]] bool is_pass_through() const noexcept { return code.empty(); }
  [[nodiscard]] DType type_of(std::uint32_t position) const noexcept {
    return position < params.size() ? params[position] : code[position - params.size()].type;
  }
};

/// `op` on operands of type `operands` (OpTyping::operands); all types are compute types. `isa`:
/// for vectors of such a machine, whose instructions the function may use (PrimOp::scale, tables of
/// 16 entries, sums of products), with the same bits; scalar code passes Isa::none. Made once, for
/// all threads.
[[nodiscard]] const PrimFunction& op_function(Op op, DType operands, Isa isa = Isa::none);
/// The maximum of 0 and an i32 or i64, in operations on bits: GCC takes a maximum of single
/// integers to vector registers and back, which takes longer.
[[nodiscard]] const PrimFunction& least_zero_function(DType type);
/// Conversion between two different types, as convert() of value/ops.hpp; f16 and bf16 are
/// machine_type.
[[nodiscard]] const PrimFunction& cast_function(DType from, DType to);
/// f32 to f16 and back, to the same bits as the two conversions, in half of their steps: compilers
/// need proportionally less time for chains of roundings.
[[nodiscard]] const PrimFunction& half_rounding_function();

}  // namespace heddle::jit
