// See heddle/padding.hpp.
#include "heddle/padding.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/memory/array_state.hpp"
#include "runtime/transfer/transfer.hpp"

namespace heddle {
namespace {

/// An array as consecutive rows, before and after the padding.
struct Rows {
  ArrayType type;      // after the padding
  std::size_t count;   // number of rows
  std::size_t bytes;   // bytes of a row before the padding
  std::size_t padded;  // bytes of a row after the padding
};

Rows rows_of(const ArrayType& type, std::int64_t axis, const Dims& sizes) {
  const auto rank = static_cast<std::int64_t>(type.dims.size());
  if (axis < -rank || axis >= rank) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("padded: axis {} of {} (expected one of its {} axes)", axis,
                            type.to_string(), rank));
  }
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  Rows rows{type, 1, size_of(type.dtype), 0};
  rows.type.dims[at] = padded_extent(type.dims[at], sizes);
  for (std::size_t k = 0; k < at; ++k) rows.count *= static_cast<std::size_t>(type.dims[k]);
  for (std::size_t k = at + 1; k < type.dims.size(); ++k)
    rows.bytes *= static_cast<std::size_t>(type.dims[k]);
  rows.padded = rows.bytes * static_cast<std::size_t>(rows.type.dims[at]);
  rows.bytes *= static_cast<std::size_t>(type.dims[at]);
  return rows;
}

/// Checks that the type holds the value exactly, apart from the rounding of floats.
void require_held(const ArrayType& type, const HostArray& fill, double value) {
  const bool rounds = is_floating(type.dtype);
  const bool held =
      rounds ? !std::isfinite(value) || std::isfinite(fill.at(0)) : fill.at(0) == value;
  if (held) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("padded: {} is padded with {}, which {} does not hold; take a value of "
                          "that type, or cast the array to a wider one",
                          type.to_string(), value, name(type.dtype)));
}

}  // namespace

std::int64_t padded_extent(std::int64_t extent, const Dims& sizes) {
  std::int64_t least = -1;
  for (const std::int64_t size : sizes) {
    if (size >= extent && (least < 0 || size < least)) least = size;
  }
  if (extent >= 0 && least >= 0) return least;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("an extent of {} is to be padded to one of [{}] (expected one that is at "
                          "least as large)",
                          extent, fmt::join(sizes, ", ")));
}

HostArray padded(const HostArray& array, std::int64_t axis, const Dims& sizes, double value) {
  const Rows rows = rows_of(array.type(), axis, sizes);
  HostArray result(rows.type);
  if (result.num_elements() == 0) return result;
  const HostArray fill(ArrayType{rows.type.dtype, {}});
  fill.set(0, value);
  require_held(array.type(), fill, value);
  const auto* const element = static_cast<const std::byte*>(fill.data());
  const std::size_t element_bytes = fill.num_bytes();
  auto* to = static_cast<std::byte*>(result.data());
  const auto* from = static_cast<const std::byte*>(array.data());
  for (std::size_t row = 0; row < rows.count; ++row) {
    if (rows.bytes > 0) std::memcpy(to, from, rows.bytes);
    for (std::size_t at = rows.bytes; at < rows.padded; at += element_bytes)
      std::memcpy(to + at, element, element_bytes);
    to += rows.padded;
    from += rows.bytes;
  }
  return result;
}

Array padded(const Array& array, std::int64_t axis, const Dims& sizes, std::source_location where) {
  const Rows rows = rows_of(array.type(), axis, sizes);
  if (rows.type == array.type()) return array;
  const Array result = Array::zeros(array.device(), rows.type);
  if (rows.bytes == 0) return result;
  rt::SubmitOptions options = rt::without_events(where);
  options.sync = Sync::automatic;
  options.after = Inside::of(array)->awaited();
  const std::size_t element_bytes = size_of(rows.type.dtype);
  const ArrayType row{rows.type.dtype, Dims{rows.bytes / element_bytes}};
  Event last;
  for (std::size_t k = 0; k < rows.count; ++k) {
    const BufferView from(array.view().buffer(), row, array.view().offset() + k * rows.bytes);
    const BufferView to(result.view().buffer(), row, k * rows.padded);
    last = rt::submit_copy(*Inside::of(array.device()), from, to, nullptr, options);
  }
  return Array(array.device(), result.view(), last);
}

}  // namespace heddle
