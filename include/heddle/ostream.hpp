// Output of heddle's types to streams of the standard library: std::cout << array.
#pragma once

#include <ostream>

#include "heddle/printable.hpp"

namespace heddle {

/// Writes value.to_string(), and throws as to_string() does. Reading an Array waits for the values.
template <Printable T>
std::ostream& operator<<(std::ostream& out, const T& value) {
  return out << value.to_string();
}

}  // namespace heddle
