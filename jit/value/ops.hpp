// The operations of heddle's expressions: names, arity, result types and their exact meaning per
// dtype. Pure functions over tables; callable from any thread.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "heddle/types.hpp"

namespace heddle::jit {

// X(name, arity, class). heddle/expr.hpp, the users' header, defines each operation for each dtype;
// ne is true with NaN, the other tests false. Classes decide operand and result types, see
// type_op().
//  arith : operands of type T (not bool: bool operands become i32), result T
//  order : operands of type T (bool too), result T
//  test  : operands of type T, result bool
//  logic : operands converted to bool (nonzero), result bool
//  real  : floating T only (integer and bool operands become f32), result T; README.md lists the
//          errors of operations that are not correctly rounded (and of pow on floats)
//  bits  : u64 operands, u64 result
//  words : integers converted to i32, result i32, unless stated otherwise; made by schedules only,
//          never in programs. dot_bf16: the third operand plus the products of two bf16 each, the
//          high ones first; each product is added with a single rounding, and subnormal numbers
//          count as 0
//  other : stated at the op
#define HEDDLE_OPS(X)                                                                            \
  X(add, 2, arith)                                                                               \
  X(sub, 2, arith)                                                                               \
  X(mul, 2, arith)                                                                               \
  X(div, 2, arith)                                                                               \
  X(mod, 2, arith)                                                                               \
  X(pow, 2, arith)                                                                               \
  X(max, 2, order)                                                                               \
  X(min, 2, order)                                                                               \
  X(relu_gate, 2, arith)                                                                         \
  X(satur01_gate, 2, arith)                                                                      \
  X(arg1, 2, order)                                                                              \
  X(arg2, 2, order)                                                                              \
  X(lt, 2, test)                                                                                 \
  X(le, 2, test)                                                                                 \
  X(eq, 2, test)                                                                                 \
  X(ne, 2, test)                                                                                 \
  X(and_, 2, logic)                                                                              \
  X(or_, 2, logic)                                                                               \
  X(threefry, 2, bits)                                                                           \
  X(threefry_light, 2, bits)                                                                     \
  X(identity, 1, order)                                                                          \
  X(relu, 1, arith)                                                                              \
  X(satur01, 1, arith)                                                                           \
  X(neg, 1, arith)                                                                               \
  X(abs, 1, arith)                                                                               \
  X(trunc, 1, arith)                                                                             \
  X(floor, 1, arith)                                                                             \
  X(ceil, 1, arith)                                                                              \
  X(not_, 1, logic)                                                                              \
  X(exp, 1, real)                                                                                \
  X(log, 1, real)                                                                                \
  X(exp2, 1, real)                                                                               \
  X(log2, 1, real)                                                                               \
  X(sin, 1, real)                                                                                \
  X(cos, 1, real)                                                                                \
  X(tanh, 1, real)                                                                               \
  X(erf, 1, real)                                                                                \
  X(sqrt, 1, real)                                                                               \
  X(recip, 1, real)                                                                              \
  X(rsqrt, 1, real)                                                                              \
  X(uniform, 1, other)   /* u64 -> f32 */                                                        \
  X(bits, 1, other)      /* f32 -> u32, f64 -> u64 */                                            \
  X(from_bits, 1, other) /* u32 -> f32, u64 -> f64 */                                            \
  X(where, 3, other)     /* (bool, T, T) -> T */                                                 \
  X(fma, 3, arith)                                                                               \
  X(mul3, 3, arith)                                                                              \
  X(dot2, 3, words) /* the third, and the sum of the products of two i16 each, low ones first */ \
  X(dot4, 3, words) /* likewise, of four u8 each of the first and i8 of the second */            \
  X(pair_bf16, 2, words) /* (f32, f32) -> i32: their high 16 bits, those of the first below */   \
  X(dot_bf16, 3, words)  /* (i32, i32, f32) -> f32, see above */

enum class Op : std::uint8_t {
#define HEDDLE_OP_ENUM(name, arity, cls) name,
  HEDDLE_OPS(HEDDLE_OP_ENUM)
#undef HEDDLE_OP_ENUM
};
inline constexpr std::size_t op_count = static_cast<std::size_t>(Op::dot_bf16) + 1;

enum class OpClass : std::uint8_t { arith, order, test, logic, real, bits, words, other };

struct OpInfo {
  std::string_view name;  ///< as in the text form: without the trailing underscore
  std::uint8_t arity;
  OpClass op_class;
};

[[nodiscard]] const OpInfo& op_info(Op op) noexcept;
[[nodiscard]] std::span<const OpInfo> all_ops() noexcept;
[[nodiscard]] std::optional<Op> parse_op(std::string_view name) noexcept;

/// The common type of two operands, nullopt when there is none (u64 with a signed integer).
/// bool < integers < floating; integers meet in the smallest type that holds both; any integer with
/// a floating type gives the floating type; f16 with bf16 gives f32.
[[nodiscard]] std::optional<DType> promote(DType a, DType b) noexcept;

/// The types of an operation: operands are converted to `operands`, and the result has type
/// `result`. f16 and bf16 operands compute in f32.
struct OpTyping {
  DType operands;  ///< type of the operands, except where operand_type() differs
  DType result;
};
/// The type that operand `k` is converted to.
[[nodiscard]] DType operand_type(Op op, DType operands, std::size_t k) noexcept;
/// nullopt when the operand types are incompatible.
[[nodiscard]] std::optional<OpTyping> type_op(Op op, std::span<const DType> args) noexcept;

/// A scalar of a compute type. Integers and bool live in `i` (u64 as its bits), floats in `f`
/// (f32 values are exactly representable in it).
struct Scalar {
  DType dtype = DType::f32;
  std::int64_t i = 0;
  double f = 0;

  static Scalar of_int(DType dtype, std::int64_t value) noexcept;  ///< wraps into dtype
  static Scalar of_float(DType dtype, double value) noexcept;  ///< rounds to f32 if dtype is f32
  /// Bit equality: NaN equals itself, -0 differs from 0.
  friend bool operator==(const Scalar& a, const Scalar& b) noexcept {
    return a.dtype == b.dtype && a.i == b.i &&
           std::bit_cast<std::uint64_t>(a.f) == std::bit_cast<std::uint64_t>(b.f);
  }
};

/// The value of an op on constants of its operand type, bit for bit the result of compiled code
/// (any NaN for a NaN).
[[nodiscard]] Scalar fold_op(Op op, std::span<const Scalar> args);
/// Conversion as in compiled code: float to integer truncates and saturates (NaN is 0), integers
/// wrap, to bool is "nonzero", conversions to f16/bf16 go through f32 and round to nearest even
/// (the Scalar then holds the rounded value).
[[nodiscard]] Scalar convert(const Scalar& value, DType to) noexcept;
/// The neutral element of an accumulation: add 0, mul 1, max lowest, min highest, and true, or
/// false.
[[nodiscard]] std::optional<Scalar> neutral(Op op, DType dtype) noexcept;

}  // namespace heddle::jit
