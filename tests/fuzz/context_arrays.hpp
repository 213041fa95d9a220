// The arrays of a context, whatever their types.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "heddle/heddle.hpp"

namespace heddle::jit::testing {

/// Calls f.operator()<T>() for the T of `dtype`.
template <class F>
void with_element(DType dtype, const F& f) {
  const auto one = [&]<class T>() {
    if (dtype == dtype_of_v<T>) f.template operator()<T>();
  };
  [&]<class... T>(std::tuple<T...>*) {
    (one.template operator()<T>(), ...);
  }(static_cast<
      std::tuple<bool, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t,
                 std::int32_t, std::uint64_t, std::int64_t, Float16, BFloat16, float, double>*>(
      nullptr));
}

inline void write(const Context& context, const Tensor& tensor, const HostArray& array) {
  with_element(array.type().dtype, [&]<class T>() {
    context.write(tensor, std::span(static_cast<const T*>(array.data()),
                                    static_cast<std::size_t>(array.num_elements())));
  });
}

inline HostArray read(const Context& context, const Tensor& tensor) {
  HostArray array(tensor.type());
  with_element(tensor.type().dtype, [&]<class T>() {
    const std::vector<T> values = context.read<T>(tensor);
    std::copy(values.begin(), values.end(), static_cast<T*>(array.data()));
  });
  return array;
}

}  // namespace heddle::jit::testing
