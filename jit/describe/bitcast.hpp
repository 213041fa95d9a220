// bitcast() of expressions and of nodes, built from operations that exist for both.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "heddle/types.hpp"
#include "jit/value/ops.hpp"

namespace heddle::jit {

/// True if every bit pattern of `from` is a value of `to`: the sizes are equal, and `to` is bool
/// only where `from` is bool.
[[nodiscard]] inline bool can_bitcast(DType from, DType to) noexcept {
  return size_of(from) == size_of(to) && (to != DType::bool_ || from == DType::bool_);
}

/// The advice of an error message where can_bitcast() is false.
[[nodiscard]] inline std::string bitcast_cure(DType from, DType to) {
  if (to == DType::bool_) return "not all bits are those of a bool; compare with 0";
  return fmt::format("it has {} bytes, not {}; convert with cast(x, dtype) first", size_of(to),
                     size_of(from));
}

/// Builds values of the kind that `Maker` makes: maker.apply(op, x) is an operation of one operand,
/// maker.at(x) makes an operand.
template <class Value, class Maker>
class Bitcast {
 public:
  explicit Bitcast(const Maker& maker) : maker_(maker) {}

  /// The bits of `x` as a value of type `to`. Requires can_bitcast().
  Value make(const Value& x, DType from, DType to) const {
    if (from == to) return x;
    const std::size_t bytes = size_of(from);
    const DType bits = bytes == 8 ? DType::u64 : bytes == 4 ? DType::u32 : DType::u16;
    if (is_floating(from)) return make(bits_of(x, from), bits, to);
    return is_floating(to) ? of_bits(make(x, from, bits), to) : as(x, to);
  }

 private:
  using U32 = std::uint32_t;

  auto at(const Value& x) const { return maker_.at(x); }
  Value as(const Value& x, DType to) const { return cast(at(x), to); }

  Value bits_of(const Value& x, DType from) const {
    if (from == DType::f16) return bits_of_f16(x);
    const Value bits = maker_.apply(Op::bits, as(x, compute_type(from)));
    return from == DType::bf16 ? as(at(bits) / U32{0x10000}, DType::u16) : bits;
  }
  Value of_bits(const Value& bits, DType to) const {
    if (to == DType::f16) return f16_of_bits(bits);
    if (to != DType::bf16) return maker_.apply(Op::from_bits, bits);
    return as(maker_.apply(Op::from_bits, at(as(bits, DType::u32)) * U32{0x10000}), to);
  }

  /// binary16, computed as f32: the fraction is 13 bits shorter, the exponent bias is lower by 112,
  /// and numbers below 2^-14 have only a fraction.
  Value bits_of_f16(const Value& x) const {
    const Value bits = maker_.apply(Op::bits, as(x, DType::f32));
    const Value magnitude = at(bits) % U32{0x80000000};
    const Value fraction = as(at(maker_.apply(Op::from_bits, magnitude)) * 0x1p24F, DType::u32);
    const Value whole = at(at(magnitude) / U32{0x2000}) - U32{0x1c000};
    const Value finite = where(at(at(magnitude) < U32{0x38800000}), fraction, whole);
    const Value other =
        as(where(at(at(magnitude) == U32{0x7f800000}), U32{0x7c00}, U32{0x7e00}), DType::u32);
    const Value sign = at(at(bits) / U32{0x80000000}) * U32{0x8000};
    const Value all = where(at(at(magnitude) < U32{0x7f800000}), finite, other);
    return as(at(sign) + all, DType::u16);
  }
  Value f16_of_bits(const Value& x) const {
    const Value bits = as(x, DType::u32);
    const Value magnitude = at(bits) % U32{0x8000};
    const Value bias =
        as(where(at(at(magnitude) < U32{0x7c00}), U32{0x38000000}, U32{0x70000000}), DType::u32);
    const Value shifted = at(at(magnitude) * U32{0x2000}) + bias;
    const Value value =
        where(at(at(magnitude) < U32{0x400}), at(as(magnitude, DType::f32)) * 0x1p-24F,
              maker_.apply(Op::from_bits, shifted));
    return as(where(at(at(bits) < U32{0x8000}), value, -at(value)), DType::f16);
  }

  const Maker& maker_;
};

}  // namespace heddle::jit
