// Conversions between binary32 and the 16-bit floating storage types; texts of array types. Pure
// functions.
// Source: IEEE 754-2019 section 4.3.1 (roundTiesToEven); bfloat16 as the upper half of binary32.
#include <bit>
#include <charconv>
#include <cstdint>
#include <system_error>

#include "heddle/types.hpp"

namespace heddle {
namespace {

std::uint16_t to_half(float value) noexcept {
  const auto x = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((x >> 16) & 0x8000u);
  const std::uint32_t magnitude = x & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: quiet, upper payload bits kept
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to inf
  if (magnitude >= 0x38800000u) {  // normal: drop 13 bits, ties to even; a carry moves the exponent
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  if (magnitude < 0x33000000u) return sign;  // below half of the smallest subnormal
  const std::uint32_t exponent = magnitude >> 23;
  const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t shift = 126u - exponent;  // 14..24 bits are dropped
  const std::uint32_t kept = mantissa >> shift;
  const std::uint32_t rest = mantissa & ((1u << shift) - 1u);
  const std::uint32_t half = 1u << (shift - 1u);
  const std::uint32_t up = (rest > half || (rest == half && (kept & 1u) != 0)) ? 1u : 0u;
  return static_cast<std::uint16_t>(sign | (kept + up));
}

float from_half(std::uint16_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1fu) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
  }
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  // Subnormal or zero: mantissa * 2^-24 is exact in binary32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

std::uint16_t to_bfloat(float value) noexcept {
  const auto x = std::bit_cast<std::uint32_t>(value);
  if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((x >> 16) | 0x40u);
  return static_cast<std::uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
}

}  // namespace

Float16::Float16(float value) noexcept : bits(to_half(value)) {}
Float16::operator float() const noexcept { return from_half(bits); }
BFloat16::BFloat16(float value) noexcept : bits(to_bfloat(value)) {}
BFloat16::operator float() const noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::optional<ArrayType> ArrayType::parse(std::string_view text) {
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos || !text.ends_with(']')) return std::nullopt;
  const std::optional<DType> found = parse_dtype(text.substr(0, open));
  if (!found) return std::nullopt;
  ArrayType type{*found};
  const char* at = text.data() + open + 1;
  const char* const end = text.data() + text.size() - 1;
  while (at != end) {
    if (!type.dims.empty() && *at++ != ',') return std::nullopt;
    std::int64_t extent = 0;
    const auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc() || extent < 0) return std::nullopt;
    type.dims.push_back(extent);
    at = next;
  }
  return type.to_string() == text ? std::optional(type) : std::nullopt;  // not 007, nor -0
}

}  // namespace heddle
