// fmt formatters for every heddle type with to_string(): handles, events, errors. Needs fmt
// (libfmt-dev), unlike the other headers of heddle. The text is bounded, whatever the size of the
// value.
#pragma once

#include <fmt/format.h>

#include <string>

#include "heddle/printable.hpp"

template <heddle::Printable T>
struct fmt::formatter<T> : fmt::formatter<fmt::string_view> {
  template <class FormatContext>
  auto format(const T& value, FormatContext& context) const {
    const std::string text = value.to_string();
    return fmt::formatter<fmt::string_view>::format(fmt::string_view(text), context);
  }
};
