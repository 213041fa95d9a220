// Checks of element types, and element access by dtype.
#include "jit/value/element.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <string>

#include "heddle/status.hpp"

namespace heddle::jit {
namespace {

template <class T>
T load(const void* data, std::size_t k) noexcept {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + k * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(void* data, std::size_t k, T value) noexcept {
  std::memcpy(static_cast<char*>(data) + k * sizeof(T), &value, sizeof(T));
}

}  // namespace

std::string dtype_problem(DType dtype) {
  if (is_dtype(dtype)) return {};
  std::string known;
  for (const auto& row : dtypes::table)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  return fmt::format("{} is no dtype (expected one of {})", static_cast<unsigned>(dtype), known);
}

void require_dtype(std::string_view what, DType dtype) {
  const std::string problem = dtype_problem(dtype);
  if (problem.empty()) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", what, problem));
}

Scalar load_element(DType dtype, const void* data, std::size_t k) noexcept {
  switch (dtype) {
    case DType::bool_:
    case DType::u8:
      return Scalar::of_int(dtype, load<std::uint8_t>(data, k));
    case DType::i8:
      return Scalar::of_int(dtype, load<std::int8_t>(data, k));
    case DType::u16:
      return Scalar::of_int(dtype, load<std::uint16_t>(data, k));
    case DType::i16:
      return Scalar::of_int(dtype, load<std::int16_t>(data, k));
    case DType::i32:
      return Scalar::of_int(dtype, load<std::int32_t>(data, k));
    case DType::u32:
      return Scalar::of_int(dtype, load<std::uint32_t>(data, k));
    case DType::i64:
    case DType::u64:
      return Scalar::of_int(dtype, load<std::int64_t>(data, k));
    case DType::f16:
      return Scalar::of_float(dtype, static_cast<float>(load<Float16>(data, k)));
    case DType::bf16:
      return Scalar::of_float(dtype, static_cast<float>(load<BFloat16>(data, k)));
    case DType::f32:
      return Scalar::of_float(dtype, load<float>(data, k));
    case DType::f64:
      return Scalar::of_float(dtype, load<double>(data, k));
  }
  return {};
}

void store_element(DType dtype, void* data, std::size_t k, const Scalar& value) noexcept {
  const Scalar v = convert(value, dtype);
  switch (dtype) {
    case DType::bool_:
    case DType::u8:
    case DType::i8:
      return store(data, k, static_cast<std::uint8_t>(v.i));
    case DType::u16:
    case DType::i16:
      return store(data, k, static_cast<std::uint16_t>(v.i));
    case DType::i32:
    case DType::u32:
      return store(data, k, static_cast<std::uint32_t>(v.i));
    case DType::i64:
    case DType::u64:
      return store(data, k, v.i);
    case DType::f16:
      return store(data, k, Float16(static_cast<float>(v.f)));
    case DType::bf16:
      return store(data, k, BFloat16(static_cast<float>(v.f)));
    case DType::f32:
      return store(data, k, static_cast<float>(v.f));
    case DType::f64:
      return store(data, k, v.f);
  }
}

}  // namespace heddle::jit
