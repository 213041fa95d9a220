// What each operation and conversion of the loop IR means, written once for every emitter: a small
// function in a straight-line language that any machine can do (no trap, nothing undefined). An
// emitter prints or builds only these primitives. Pure functions; any thread.
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

/// The type a value has in generated code: f16 and bf16 are their 16 bits, everything else is
/// itself.
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
  larger,    ///< f32, f64: the second where the first < it, else the first (NaN, equal ones)
  smaller,   ///< f32, f64: the second where it < the first, else the first
  scale,     ///< f32, f64: the first times two to the second, a whole number; rounded once
  table,     ///< `entries`, as many as a power of two, of f32; for `lookup` alone
  lookup,    ///< the entry of a table at an u32, modulo their number
  pairs,     ///< i32, of two: the sum of the products of their halves, each an i16
  dot2,      ///< i32, of three: that, and the third
  dot4,      ///< i32, of three: the third, and the products of u8 of the first and i8 of the second
  dot_bf16,  ///< f32, of two i32 and an f32: as Op::dot_bf16
  select,    ///< (bool, T, T): the second if the first, else the third
  cast,  ///< to `type`: integers wrap, a float is in the range of the integer, to f32 rounds once
  bits,  ///< the same bits as another type of that size
  call,  ///< `function`: a compiler builtin ("__builtin_...") or a function of the C library
  variable,  ///< a mutable value that starts as args[0]
  assign,    ///< variable args[0] becomes args[1]; no value
  loop,      ///< repeats up to its end_loop; no value
  leave_if,  ///< leaves the loop if args[0]; no value
  end_loop,
};

/// One instruction. Operands are positions: parameters first, then instructions.
struct Prim {
  PrimOp op = PrimOp::constant;
  DType type = DType::f32;  ///< the result's
  std::array<std::uint32_t, 3> args{};
  Scalar scalar;                   // constant
  std::string_view function;       // call; has static lifetime
  std::span<const float> entries;  // table; has static lifetime
};

/// How many operands `op` takes; of a call, what its callee takes.
[[nodiscard]] std::uint32_t num_operands(const Prim& prim) noexcept;

struct PrimFunction {
  std::string name;  ///< "div_i32", "f16_from_f32": a C identifier, unique per meaning
  std::vector<DType> params;
  DType result = DType::f32;
  std::vector<Prim> code;
  std::uint32_t value = 0;  ///< position of the result

  /// The function is one infix, prefix or conversion instruction on its parameters in order: an
  /// emitter may write it in place.
  [[nodiscard]] bool is_single() const noexcept;
  /// The function returns its parameter `value` untouched.
  [[nodiscard]] bool is_pass_through() const noexcept { return code.empty(); }
  [[nodiscard]] DType type_of(std::uint32_t position) const noexcept {
    return position < params.size() ? params[position] : code[position - params.size()].type;
  }
};

/// `op` on operands of type `operands` (OpTyping::operands); all types are compute types. `isa`:
/// for vectors of that machine, whose instructions it may have (PrimOp::scale, tables of 16
/// entries, sums of products), to the same bits; scalars see none of them. Made once, for all
/// threads.
[[nodiscard]] const PrimFunction& op_function(Op op, DType operands, Isa isa = Isa::none);
/// Conversion between two different types, as convert() of value/ops.hpp; f16 and bf16 are
/// machine_type.
[[nodiscard]] const PrimFunction& cast_function(DType from, DType to);
/// f32 to f16 and back, to the same bits as both conversions in half of their steps: compilers take
/// as much less time over chains of roundings.
[[nodiscard]] const PrimFunction& half_rounding_function();

}  // namespace heddle::jit
