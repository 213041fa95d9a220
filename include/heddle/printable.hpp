// The types of heddle with a bounded text, to_string(): handles, values, events, errors. Owns no
// data.
#pragma once

#include <concepts>
#include <string>

#include "heddle/heddle.hpp"

namespace heddle {

/// A heddle type with to_string(). The text is bounded, whatever the size of the value.
template <class T>
concept Printable =
    requires(const T& value) {
      { value.to_string() } -> std::convertible_to<std::string>;
    } && (std::same_as<T, Backend> || std::same_as<T, Device> || std::same_as<T, Context> ||
          std::same_as<T, Routine> || std::same_as<T, Code> || std::same_as<T, Tensor> ||
          std::same_as<T, Program> || std::same_as<T, Buffer> || std::same_as<T, BufferView> ||
          std::same_as<T, HostArray> || std::same_as<T, Array> || std::same_as<T, Node> ||
          std::same_as<T, ArrayType> || std::same_as<T, Event> || std::same_as<T, Status> ||
          std::same_as<T, sched::Snapshot>);

}  // namespace heddle
