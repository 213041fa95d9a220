// fmt formatters for every heddle type with to_string(): handles, events, errors. Needs fmt
// (libfmt-dev), unlike the other headers of heddle. The text is bounded, whatever the size of the
// value.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <type_traits>

#include "heddle/heddle.hpp"

namespace heddle {

/// A heddle type with to_string().
template <class T>
concept Printable =
    requires(const T& value) {
      { value.to_string() } -> std::convertible_to<std::string>;
    } && (std::same_as<T, Backend> || std::same_as<T, Device> || std::same_as<T, Context> ||
          std::same_as<T, Routine> || std::same_as<T, Code> || std::same_as<T, Tensor> ||
          std::same_as<T, Program> || std::same_as<T, Buffer> || std::same_as<T, BufferView> ||
          std::same_as<T, HostArray> || std::same_as<T, ArrayType> || std::same_as<T, Event> ||
          std::same_as<T, Status> || std::same_as<T, sched::Snapshot>);

}  // namespace heddle

template <heddle::Printable T>
struct fmt::formatter<T> : fmt::formatter<fmt::string_view> {
  template <class FormatContext>
  auto format(const T& value, FormatContext& context) const {
    const std::string text = value.to_string();
    return fmt::formatter<fmt::string_view>::format(fmt::string_view(text), context);
  }
};
