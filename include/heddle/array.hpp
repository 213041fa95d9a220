// Array: a value in device memory, possibly still being computed. An immutable shared handle. A
// move copies the handle: only Array() makes a handle without a value. Thread-safe.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/device.hpp"
#include "heddle/event.hpp"
#include "heddle/host_array.hpp"
#include "heddle/status.hpp"
#include "heddle/types.hpp"

namespace heddle::rt {
struct ArrayState;
}
namespace heddle::executors {
class Result;
}

#pragma GCC visibility push(default)
namespace heddle {

class Array {
 public:
  /// An array without a value, for a variable or a member that is assigned later. defined() is
  /// false. Other members throw failed_precondition, and so do the functions of heddle that are
  /// given the array; to_string(), comparisons and copies do not.
  Array() noexcept = default;
  /// Copies `values` (row-major) to memory of `device`; the caller may reuse the source when the
  /// constructor returns. Throws invalid_argument if the number of values is not the number of
  /// elements, exhausted if there is no memory, failed_precondition if the device was finalised.
  Array(const Device& device, const HostArray& values,
        std::source_location where = std::source_location::current());
  template <class T>
    requires Element<std::remove_const_t<T>>
  Array(const Device& device, const Dims& dims, std::span<T> values,
        std::source_location where = std::source_location::current())
      : Array(device, ArrayType{dtype_of_v<std::remove_const_t<T>>, dims}, values.data(),
              values.size(), where) {}
  template <Element T>
  Array(const Device& device, const Dims& dims, const std::vector<T>& values,
        std::source_location where = std::source_location::current())
      : Array(device, ArrayType{dtype_of_v<T>, dims}, unpacked(values).data(), values.size(),
              where) {}
  /// An array with one axis.
  template <Element T>
  Array(const Device& device, const std::vector<T>& values,
        std::source_location where = std::source_location::current())
      : Array(device, Dims{values.size()}, values, where) {}
  template <class T>
    requires Element<std::remove_const_t<T>>
  Array(const Device& device, std::span<T> values,
        std::source_location where = std::source_location::current())
      : Array(device, Dims{values.size()}, values, where) {}
  /// From literal values: Array(device, {2, 2}, {1.F, 2.F, 3.F, 4.F}).
  template <Element T>
  Array(const Device& device, const Dims& dims, std::initializer_list<T> values,
        std::source_location where = std::source_location::current())
      : Array(device, dims, std::vector<T>(values), where) {}
  template <Element T>
  Array(const Device& device, std::initializer_list<T> values,
        std::source_location where = std::source_location::current())
      : Array(device, std::vector<T>(values), where) {}
  /// A scalar.
  template <Element T>
  Array(const Device& device, T value, std::source_location where = std::source_location::current())
      : Array(device, ArrayType{dtype_of_v<T>, {}}, &value, 1, where) {}
  /// Wraps memory that a task of `device` or foreign code fills; `event` marks the end of the fill
  /// (a default Event is done). Readers of the array wait for `event`, and fail if it failed.
  /// Throws invalid_argument if the device cannot address the memory.
  Array(const Device& device, const BufferView& view, const Event& event = {});
  Array(const Array&) = default;
  Array& operator=(const Array&) = default;

  /// Throws as Buffer::allocate().
  [[nodiscard]] static Array zeros(const Device& device, const ArrayType& type);

  /// false for Array() until a value is assigned.
  [[nodiscard]] bool defined() const noexcept { return state_ != nullptr; }
  [[nodiscard]] const ArrayType& type() const;
  [[nodiscard]] DType dtype() const { return type().dtype; }
  [[nodiscard]] const Dims& dims() const { return type().dims; }
  [[nodiscard]] std::int64_t num_elements() const { return *type().num_elements(); }
  [[nodiscard]] std::size_t num_bytes() const { return view().num_bytes(); }
  /// The device whose tasks fill the array.
  [[nodiscard]] const Device& device() const;
  /// The memory of the array. A write to this memory changes the array for every handle.
  [[nodiscard]] const BufferView& view() const;
  /// An event that is done when the array has been filled.
  [[nodiscard]] const Event& event() const;
  [[nodiscard]] bool done() const { return event().done(); }
  /// ok while the array is being computed and once it is complete; otherwise the error.
  [[nodiscard]] Status status() const { return event().status(); }
  /// Blocks until the array is complete or has failed; returns status().
  Status wait() const { return event().wait(); }
  /// false once its memory was donated.
  [[nodiscard]] bool live() const { return view().buffer().live(); }

  /// Waits for the array and copies it to host memory. An array that was complete before its device
  /// failed can be read even before Device::recover(). Throws the array's Error if its computation
  /// failed or did not run; failed_precondition naming the taker if the array was donated, and
  /// inside a task of its device.
  [[nodiscard]] HostArray to_host(
      std::source_location where = std::source_location::current()) const;
  /// The elements, row-major, as to_host(). Throws invalid_argument if T is not the dtype.
  template <class T>
  [[nodiscard]] std::vector<T> values(
      std::source_location where = std::source_location::current()) const {
    require(dtype_of_v<T>, false, where);
    const HostArray host = to_host(where);
    const std::span<T> found = host.template values<T>();
    return std::vector<T>(found.begin(), found.end());
  }
  /// Writes the elements, row-major, to memory of the caller, as to_host(). Throws invalid_argument
  /// if T is not the dtype, or if the span does not have as many elements as the array.
  template <Element T>
  void read(std::span<T> into, std::source_location where = std::source_location::current()) const {
    require(dtype_of_v<T>, false, where);
    read_bytes(std::as_writable_bytes(into), where);
  }
  /// The only element, as to_host(). Throws invalid_argument if the array does not have exactly one
  /// element, or if T is not the dtype.
  template <class T>
  [[nodiscard]] T item(std::source_location where = std::source_location::current()) const {
    require(dtype_of_v<T>, true, where);
    return to_host(where).template values<T>()[0];
  }

  /// Copies the values to memory of another device, of any backend. A task of `device` copies once
  /// the source is complete; the call does not wait. Returns the same array if `device` is the
  /// array's device. Throws as the constructors do, and as to_host() if the array failed or was
  /// donated.
  [[nodiscard]] Array copy_to(const Device& device,
                              std::source_location where = std::source_location::current()) const;
  /// Copies the values to other memory of the array's own device; otherwise as copy_to().
  [[nodiscard]] Array copy(std::source_location where = std::source_location::current()) const;

  /// "f32[2,2] on gccjit:0.0", then the elements, with elision, once complete, or the error.
  [[nodiscard]] std::string to_string() const;

  /// Compares identity: true for copies of one handle.
  friend bool operator==(const Array& a, const Array& b) noexcept { return a.state_ == b.state_; }

 private:
  friend struct Inside;
  friend class executors::Result;
  [[nodiscard]] const rt::ArrayState& state() const;
  [[nodiscard]] Array copied_to(const Device& device, const std::source_location& where) const;
  void read_bytes(std::span<std::byte> into, const std::source_location& where) const;
  explicit Array(std::shared_ptr<const rt::ArrayState> state) noexcept : state_(std::move(state)) {}
  Array(const Device& device, const ArrayType& type, const void* values, std::size_t count,
        std::source_location where);
  /// Elements with addresses; std::vector<bool> is packed and needs a copy.
  template <class T>
  static std::span<const T> unpacked(const std::vector<T>& values) {
    return values;
  }
  static std::vector<std::uint8_t> unpacked(const std::vector<bool>& values) {
    return {values.begin(), values.end()};
  }
  void require(DType dtype, bool one, const std::source_location& where) const;

  std::shared_ptr<const rt::ArrayState> state_;
};

}  // namespace heddle
#pragma GCC visibility pop
