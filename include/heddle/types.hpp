// Element types, dimensions and ArrayType: the description of arrays used by tensors, buffers,
// signatures, caches and messages. Plain values; any thread.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/requires.hpp"

namespace heddle {
/// Gives heddle's own code access to the state behind a handle. No installed header defines Inside:
/// this state is not part of the API.
struct Inside;
}  // namespace heddle

#pragma GCC visibility push(default)
namespace heddle {

/// Element types. The numeric values are part of the text form and never change.
enum class DType : std::uint8_t {
  bool_ = 0,
  u8,
  i8,
  u16,
  i16,
  i32,
  u32,
  i64,
  u64,
  f16,   ///< IEEE 754 binary16: stored in 2 bytes, computed in f32
  bf16,  ///< upper half of binary32: stored in 2 bytes, computed in f32
  f32,
  f64,
};
inline constexpr std::size_t dtype_count = 13;

inline constexpr DType bool_ = DType::bool_;
inline constexpr DType u8 = DType::u8, i8 = DType::i8, u16 = DType::u16, i16 = DType::i16;
inline constexpr DType u32 = DType::u32, i32 = DType::i32, u64 = DType::u64, i64 = DType::i64;
inline constexpr DType f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32, f64 = DType::f64;

namespace dtypes {
struct Info {
  std::string_view name;
  std::uint8_t bytes;
  bool floating;
  bool is_signed;
};
[[gnu::visibility("hidden")]] inline constexpr std::array<Info, dtype_count> table{
    {{"bool", 1, false, false},
     {"u8", 1, false, false},
     {"i8", 1, false, true},
     {"u16", 2, false, false},
     {"i16", 2, false, true},
     {"i32", 4, false, true},
     {"u32", 4, false, false},
     {"i64", 8, false, true},
     {"u64", 8, false, false},
     {"f16", 2, true, true},
     {"bf16", 2, true, true},
     {"f32", 4, true, true},
     {"f64", 8, true, true}}};
/// The result of info() for a number that is not a DType. Calls that take a DType refuse such a
/// number (invalid_argument).
[[gnu::visibility("hidden")]] inline constexpr Info unknown{"unknown", 0, false, false};
}  // namespace dtypes

/// True if `t` is a DType: a number that was cast to DType may be invalid.
constexpr bool is_dtype(DType t) noexcept { return static_cast<std::size_t>(t) < dtype_count; }
constexpr const dtypes::Info& info(DType t) noexcept {
  return is_dtype(t) ? dtypes::table[static_cast<std::size_t>(t)] : dtypes::unknown;
}
constexpr std::string_view name(DType t) noexcept { return info(t).name; }
constexpr std::size_t size_of(DType t) noexcept { return info(t).bytes; }
constexpr bool is_floating(DType t) noexcept { return info(t).floating; }
constexpr bool is_integer(DType t) noexcept {
  return is_dtype(t) && !info(t).floating && t != DType::bool_;
}
/// f16 and bf16: types that are only stored; arithmetic happens in f32.
constexpr bool is_storage_only(DType t) noexcept { return t == DType::f16 || t == DType::bf16; }
/// The type in which `t` is computed: f32 for f16 and bf16, else `t`.
constexpr DType compute_type(DType t) noexcept { return is_storage_only(t) ? DType::f32 : t; }
/// The type with the name `text` (see name()); nullopt if there is none.
constexpr std::optional<DType> parse_dtype(std::string_view text) noexcept {
  for (std::size_t i = 0; i < dtype_count; ++i) {
    if (dtypes::table[i].name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

/// IEEE 754 binary16 bits. Conversions round to nearest even; NaN stays NaN, overflow is infinity.
struct Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float value) noexcept;
  explicit operator float() const noexcept;
  friend bool operator==(Float16, Float16) = default;  ///< compares bits
};

/// bfloat16 bits: the upper half of a binary32, rounded to nearest even.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) noexcept;
  explicit operator float() const noexcept;
  friend bool operator==(BFloat16, BFloat16) = default;  ///< compares bits
};

/// The 64-bit integer types other than std::int64_t and std::uint64_t: `long long` on Linux.
using OtherInt64 = std::conditional_t<std::same_as<std::int64_t, long>, long long, long>;
using OtherUint64 = std::make_unsigned_t<OtherInt64>;

/// The DType of a C++ element type. Other C++ types do not compile; the error lists the element
/// types.
template <class T>
struct dtype_of {
  static_assert(sizeof(T) == 0,
                "this C++ type is no element type; these are: bool, std::uint8_t, std::int8_t, "
                "std::uint16_t, std::int16_t, std::int32_t, std::uint32_t, std::int64_t, "
                "std::uint64_t, heddle::Float16, heddle::BFloat16, float and double");
  static constexpr DType value = DType::bool_;  // prevents further errors
};
// clang-format off
template <> struct dtype_of<bool> { static constexpr DType value = DType::bool_; };
template <> struct dtype_of<std::uint8_t> { static constexpr DType value = DType::u8; };
template <> struct dtype_of<std::int8_t> { static constexpr DType value = DType::i8; };
template <> struct dtype_of<std::uint16_t> { static constexpr DType value = DType::u16; };
template <> struct dtype_of<std::int16_t> { static constexpr DType value = DType::i16; };
template <> struct dtype_of<std::int32_t> { static constexpr DType value = DType::i32; };
template <> struct dtype_of<std::uint32_t> { static constexpr DType value = DType::u32; };
template <> struct dtype_of<std::int64_t> { static constexpr DType value = DType::i64; };
template <> struct dtype_of<std::uint64_t> { static constexpr DType value = DType::u64; };
template <> struct dtype_of<OtherInt64> { static constexpr DType value = DType::i64; };
template <> struct dtype_of<OtherUint64> { static constexpr DType value = DType::u64; };
template <> struct dtype_of<Float16> { static constexpr DType value = DType::f16; };
template <> struct dtype_of<BFloat16> { static constexpr DType value = DType::bf16; };
template <> struct dtype_of<float> { static constexpr DType value = DType::f32; };
template <> struct dtype_of<double> { static constexpr DType value = DType::f64; };
// clang-format on
/// A C++ type of elements.
template <class T>
concept Element =
    std::same_as<T, bool> || std::same_as<T, std::uint8_t> || std::same_as<T, std::int8_t> ||
    std::same_as<T, std::uint16_t> || std::same_as<T, std::int16_t> ||
    std::same_as<T, std::uint32_t> || std::same_as<T, std::int32_t> ||
    std::same_as<T, std::uint64_t> || std::same_as<T, std::int64_t> ||
    std::same_as<T, OtherInt64> || std::same_as<T, OtherUint64> || std::same_as<T, Float16> ||
    std::same_as<T, BFloat16> || std::same_as<T, float> || std::same_as<T, double>;

template <class T>
inline constexpr DType dtype_of_v = dtype_of<T>::value;

/// The C++ integer types except bool and character types.
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                  !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                  !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

/// One extent, made from any integer type. A number above 2^63 - 1, such as n - 1 for a std::size_t
/// n = 0, becomes negative: calls that take extents refuse negative extents, and name array and
/// axis.
struct Extent {
  std::int64_t value;
  template <Integer T>
  constexpr Extent(T extent) noexcept  // NOLINT: {n, m}
      : value(static_cast<std::int64_t>(extent)) {}
};

/// Extents, outermost first. Empty Dims are a scalar's (one element); an array with an extent of 0
/// has no elements. Made from integers of any type, {64, n}, or from a range of integers.
class Dims : public std::vector<std::int64_t> {
 public:
  Dims() = default;
  Dims(std::initializer_list<Extent> extents) {
    reserve(extents.size());
    for (const Extent extent : extents) push_back(extent.value);
  }
  template <class Range>
    requires(!std::derived_from<Range, Dims> &&
             Integer<std::remove_cvref_t<decltype(*std::begin(std::declval<const Range&>()))>>)
  Dims(const Range& extents) {  // NOLINT: a std::vector<std::size_t> is a shape
    for (const auto extent : extents) push_back(Extent(extent).value);
  }
  /// `rank` axes of the same extent.
  explicit Dims(std::size_t rank, Extent extent = 0) : vector(rank, extent.value) {}
};

/// The order of elements in memory. Only row-major exists so far.
enum class Layout : std::uint8_t { row_major };

/// dtype, dims and layout: a hashable value.
struct ArrayType {
  DType dtype = DType::f32;
  Dims dims{};
  Layout layout = Layout::row_major;

  friend bool operator==(const ArrayType&, const ArrayType&) = default;

  /// The number of elements. nullopt if an extent is negative, or if no extent is 0 and the product
  /// exceeds 2^63 - 1.
  [[nodiscard]] std::optional<std::int64_t> num_elements() const noexcept {
    std::int64_t product = 1;
    bool empty = false, fits = true;
    for (const std::int64_t extent : dims) {
      if (extent < 0) return std::nullopt;
      empty = empty || extent == 0;
      fits = fits && !__builtin_mul_overflow(product, extent, &product);
    }
    if (empty) return 0;
    return fits ? std::optional(product) : std::nullopt;
  }
  /// The number of bytes. nullopt if num_elements() is nullopt, the number exceeds 2^63 - 1, or
  /// dtype is not a DType.
  [[nodiscard]] std::optional<std::int64_t> num_bytes() const noexcept {
    const auto elements = num_elements();
    std::int64_t bytes = 0;
    if (!elements || !is_dtype(dtype) ||
        __builtin_mul_overflow(*elements, static_cast<std::int64_t>(size_of(dtype)), &bytes)) {
      return std::nullopt;
    }
    return bytes;
  }
  /// The type with the text `text`, as to_string() writes it; nullopt if there is none.
  [[nodiscard]] static std::optional<ArrayType> parse(std::string_view text);
  /// "f32[64,128]"; a scalar is "f32[]".
  [[nodiscard]] std::string to_string() const {
    std::string text(name(dtype));
    text += '[';
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (i > 0) text += ',';
      text += std::to_string(dims[i]);
    }
    return text + ']';
  }
};

}  // namespace heddle

template <>
struct std::hash<heddle::ArrayType> {
  std::size_t operator()(const heddle::ArrayType& type) const noexcept {
    // FNV-1a over the fields: cheap, and equal types hash equal in every process.
    std::uint64_t h = 0xcbf29ce484222325u;
    const auto mix = [&h](std::uint64_t v) { h = (h ^ v) * 0x100000001b3u; };
    mix(static_cast<std::uint64_t>(type.dtype));
    mix(static_cast<std::uint64_t>(type.layout));
    for (const std::int64_t extent : type.dims) mix(static_cast<std::uint64_t>(extent));
    return static_cast<std::size_t>(h);
  }
};
#pragma GCC visibility pop
