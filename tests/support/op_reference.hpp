// Meaning of each operation, written without heddle's code: integers in 128 bits, floats by the
// host compiler and its C library. Operations computed by polynomials are in math_reference.hpp.
// Pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "jit/value/ops.hpp"

namespace heddle::jit::testing {

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UnsignedWide;

template <class T>
T integer_reference(Op op, T x, T y, T z) {
  const Wide a = x;
  const Wide b = y;
  const Wide c = z;
  const auto wrap = [](Wide v) { return static_cast<T>(static_cast<UnsignedWide>(v)); };
  switch (op) {
    case Op::add:
      return wrap(a + b);
    case Op::sub:
      return wrap(a - b);
    case Op::mul:
      return wrap(static_cast<Wide>(static_cast<UnsignedWide>(a) * static_cast<UnsignedWide>(b)));
    case Op::div:
      return b == 0 ? T(0) : wrap(a / b);
    case Op::mod:
      return b == 0 ? T(0) : wrap(a % b);
    case Op::pow: {
      if (b < 0) {
        const bool even = b % 2 == 0;
        return a == 1 ? T(1) : a == -1 ? (even ? T(1) : static_cast<T>(-1)) : T(0);
      }
      // a^b mod 2^k: multiply one factor at a time, with the exponent's bits from the highest.
      std::uint64_t result = 1;
      for (int bit = 63; bit >= 0; --bit) {
        result *= result;
        if ((static_cast<std::uint64_t>(b) >> bit & 1) != 0)
          result *= static_cast<std::uint64_t>(a);
      }
      return static_cast<T>(result);
    }
    case Op::relu_gate:
      return a > 0 ? y : T(0);
    case Op::satur01_gate:
      return T(0);
    case Op::relu:
      return a > 0 ? x : T(0);
    case Op::satur01:
      return a > 0 ? T(1) : T(0);
    case Op::neg:
      return wrap(-a);
    case Op::abs:
      return wrap(a < 0 ? -a : a);
    case Op::fma:
      return wrap(static_cast<Wide>(static_cast<UnsignedWide>(a) * static_cast<UnsignedWide>(b)) +
                  c);
    case Op::mul3:
      return wrap(static_cast<Wide>(static_cast<UnsignedWide>(a) * static_cast<UnsignedWide>(b) *
                                    static_cast<UnsignedWide>(c)));
    case Op::dot2: {
      Wide sum = c;
      for (const int from : {0, 16})
        sum += Wide{static_cast<std::int16_t>(a >> from)} * static_cast<std::int16_t>(b >> from);
      return wrap(sum);
    }
    case Op::dot4: {
      Wide sum = c;
      for (const int from : {0, 8, 16, 24})
        sum += Wide{static_cast<std::uint8_t>(a >> from)} * static_cast<std::int8_t>(b >> from);
      return wrap(sum);
    }
    case Op::trunc:
    case Op::floor:
    case Op::ceil:
      return x;
    default:
      throw std::logic_error("no integer reference");
  }
}

template <class T>
T floating_reference(Op op, T a, T b, T c) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::div:
      return a / b;
    case Op::mod:
      return std::fmod(a, b);
    case Op::relu_gate:
      return a > 0 ? b : T(0);
    case Op::satur01_gate:
      return 0 < a && a < 1 ? b : T(0);
    case Op::relu:
      return a < 0 ? T(0) : a;
    case Op::satur01:
      return a < 0 ? T(0) : (a > 1 ? T(1) : a);
    case Op::neg:
      return std::copysign(a, std::signbit(a) ? T(1) : T(-1));
    case Op::abs:
      return std::copysign(a, T(1));
    case Op::trunc:
      return std::trunc(a);
    case Op::floor:
      return std::floor(a);
    case Op::ceil:
      return std::ceil(a);
    case Op::sqrt:
      return std::sqrt(a);
    case Op::recip:
      return 1 / a;
    case Op::rsqrt:
      return 1 / std::sqrt(a);
    case Op::fma:
      return std::fma(a, b, c);
    case Op::mul3:
      return (a * b) * c;
    default:
      throw std::logic_error("no floating reference");
  }
}

/// Threefry-2x32 straight from the paper's description.
inline std::uint64_t threefry_reference(std::uint64_t key, std::uint64_t counter, int rounds) {
  const int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  std::uint32_t k[3] = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32), 0};
  k[2] = k[0] ^ k[1] ^ 0x1BD11BDA;
  std::uint32_t x = static_cast<std::uint32_t>(counter) + k[0];
  std::uint32_t y = static_cast<std::uint32_t>(counter >> 32) + k[1];
  for (int r = 1; r <= rounds; ++r) {
    const int d = rotations[(r - 1) % 8];
    x += y;
    y = (y << d | y >> (32 - d)) ^ x;
    if (r % 4 == 0) {
      const auto s = static_cast<std::uint32_t>(r / 4);
      x += k[s % 3];
      y += k[(s + 1) % 3] + s;
    }
  }
  return x | static_cast<std::uint64_t>(y) << 32;
}

/// The result of `op` on operands of one compute type, except `where`, whose first operand counts
/// as true when nonzero. R is the result type.
template <class R, class T>
R op_reference(Op op, T a, T b, T c) {
  const auto nan = [](T v) { return v != v; };
  switch (op) {
    case Op::max:
      return static_cast<R>(nan(a) || nan(b) ? (nan(b) ? b : a) : (a > b ? a : b));
    case Op::min:
      return static_cast<R>(nan(a) || nan(b) ? (nan(b) ? b : a) : (a < b ? a : b));
    case Op::identity:
    case Op::arg1:
      return static_cast<R>(a);
    case Op::arg2:
      return static_cast<R>(b);
    case Op::lt:
      return static_cast<R>(a < b);
    case Op::le:
      return static_cast<R>(a <= b);
    case Op::eq:
      return static_cast<R>(a == b);
    case Op::ne:
      return static_cast<R>(a != b);
    case Op::and_:
      return static_cast<R>(a != 0 && b != 0);
    case Op::or_:
      return static_cast<R>(a != 0 || b != 0);
    case Op::not_:
      return static_cast<R>(a == 0);
    case Op::where:
      return static_cast<R>(a != 0 ? b : c);
    case Op::pair_bf16:
      if constexpr (std::is_same_v<T, float>) {
        std::uint32_t low{}, high{};
        std::memcpy(&low, &a, sizeof low);
        std::memcpy(&high, &b, sizeof high);
        return static_cast<R>(static_cast<std::int32_t>(high / 65536 * 65536 + low / 65536));
      }
      throw std::logic_error("pairs are of f32");
    case Op::threefry:
    case Op::threefry_light:
      return static_cast<R>(threefry_reference(static_cast<std::uint64_t>(a),
                                               static_cast<std::uint64_t>(b),
                                               op == Op::threefry ? 20 : 12));
    case Op::uniform:
      return static_cast<R>(
          std::ldexp(static_cast<double>(static_cast<std::uint64_t>(a) >> 40), -24));
    case Op::bits:
    case Op::from_bits: {
      if (nan(a)) return static_cast<R>(sizeof(T) == 8 ? 0x7ff8000000000000 : 0x7fc00000);
      R result{};
      if constexpr (sizeof(R) == sizeof(T)) std::memcpy(&result, &a, sizeof a);
      return result;
    }
    default:
      if constexpr (std::is_floating_point_v<T>) {
        return static_cast<R>(floating_reference<T>(op, a, b, c));
      } else if constexpr (!std::is_same_v<T, bool>) {
        return static_cast<R>(integer_reference<T>(op, a, b, c));
      } else {
        throw std::logic_error("no reference for bool");
      }
  }
}

/// True where the bits are equal, or both are NaN (an operation on several NaNs may return any
/// NaN).
template <class T>
bool same_value(T a, T b) {
  if (a != a && b != b) return true;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace heddle::jit::testing
