// See value/literal.hpp.
#include "jit/value/literal.hpp"

namespace heddle::jit {

DType literal_type(DType strong, DType literal) noexcept {
  if (is_floating(literal)) return is_floating(strong) ? strong : DType::f32;
  if (literal == DType::bool_) return strong;
  return strong == DType::bool_ ? DType::i32 : strong;
}

bool fits(DType type, const Scalar& integer) noexcept {
  if (integer.dtype == DType::u64) return type == DType::u64;  // too large for the other types
  if (type == DType::u64) return integer.i >= 0;
  return Scalar::of_int(type, integer.i).i == integer.i;
}

}  // namespace heddle::jit
