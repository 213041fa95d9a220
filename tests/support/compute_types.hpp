// The types of kernel arithmetic, and the host's types for them. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/types.hpp"

namespace heddle::jit::testing {

/// Calls f with a value of the C++ type of a compute type.
template <class F>
auto with_type(DType t, F&& f) {
  switch (t) {
    case DType::bool_:
      return f(bool{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::u16:
      return f(std::uint16_t{});
    case DType::i16:
      return f(std::int16_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::u32:
      return f(std::uint32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::u64:
      return f(std::uint64_t{});
    case DType::f64:
      return f(double{});
    default:
      return f(float{});
  }
}

inline const std::vector<DType> compute_types{bool_, u8,  i8,  u16, i16, i32,
                                              u32,   i64, u64, f32, f64};

}  // namespace heddle::jit::testing
