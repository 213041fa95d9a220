// Array: a value in the memory of a device, perhaps still being computed. A shared handle that
// never changes: moving one copies it, so that none is ever empty. Any thread may use it.
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
  /// A copy of the values as they are now, in memory of the device: what is given is the caller's
  /// again when this returns. Row-major. Throws invalid_argument where the number of values is not
  /// that of the elements, exhausted without memory, failed_precondition on a device that was
  /// finalised.
  Array(const Device& device, const HostArray& values,
        std::source_location where = std::source_location::current());
  template <Element T>
  Array(const Device& device, const Dims& dims, std::span<const T> values,
        std::source_location where = std::source_location::current())
      : Array(device, ArrayType{dtype_of_v<T>, dims}, values.data(), values.size(), where) {}
  template <Element T>
  Array(const Device& device, const Dims& dims, const std::vector<T>& values,
        std::source_location where = std::source_location::current())
      : Array(device, ArrayType{dtype_of_v<T>, dims}, unpacked(values).data(), values.size(),
              where) {}
  /// One axis.
  template <Element T>
  Array(const Device& device, const std::vector<T>& values,
        std::source_location where = std::source_location::current())
      : Array(device, Dims{values.size()}, values, where) {}
  /// The same of values that are written there: Array(device, {2, 2}, {1.F, 2.F, 3.F, 4.F}).
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
  /// What lies in memory that something else fills, a task of `device` or foreign code: `event` is
  /// its end, or done. Whoever reads the array comes after that, and fails where it did. Throws
  /// invalid_argument where the device cannot address it.
  Array(const Device& device, const BufferView& view, const Event& event = {});
  Array(const Array&) = default;
  Array& operator=(const Array&) = default;

  /// Throws as Buffer::allocate().
  [[nodiscard]] static Array zeros(const Device& device, const ArrayType& type);

  [[nodiscard]] const ArrayType& type() const noexcept;
  [[nodiscard]] DType dtype() const noexcept { return type().dtype; }
  [[nodiscard]] const Dims& dims() const noexcept { return type().dims; }
  [[nodiscard]] std::int64_t num_elements() const noexcept { return *type().num_elements(); }
  [[nodiscard]] std::size_t num_bytes() const noexcept { return view().num_bytes(); }
  /// Whose tasks fill it.
  [[nodiscard]] const Device& device() const noexcept;
  /// Where it lies. What is written there changes the array for all who have it.
  [[nodiscard]] const BufferView& view() const noexcept;
  /// The end of what fills it.
  [[nodiscard]] const Event& event() const noexcept;
  [[nodiscard]] bool done() const noexcept { return event().done(); }
  /// ok while it is being computed and once it is there; else why it is not.
  [[nodiscard]] Status status() const noexcept { return event().status(); }
  /// Blocks until it is there, or not to come: then status().
  Status wait() const noexcept { return event().wait(); }
  /// false once its memory was donated.
  [[nodiscard]] bool live() const noexcept { return view().buffer().live(); }

  /// A copy in host memory, once it is there. What came before its device failed is read all the
  /// same, before Device::recover() too. Throws Error with what became of it where it did not come,
  /// failed_precondition naming the taker where it was donated, and inside a task of its device.
  [[nodiscard]] HostArray to_host(
      std::source_location where = std::source_location::current()) const;
  /// The elements, row-major, as to_host(). Throws invalid_argument where T is not the dtype.
  template <class T>
  [[nodiscard]] std::vector<T> values(
      std::source_location where = std::source_location::current()) const {
    require(dtype_of_v<T>, false, where);
    const HostArray host = to_host(where);
    const std::span<T> found = host.template values<T>();
    return std::vector<T>(found.begin(), found.end());
  }
  /// The only element, as to_host(). Throws invalid_argument where there is another number of them,
  /// or T is not the dtype.
  template <class T>
  [[nodiscard]] T item(std::source_location where = std::source_location::current()) const {
    require(dtype_of_v<T>, true, where);
    return to_host(where).template values<T>()[0];
  }

  /// The same values in memory of another device, of any backend: a copy that its timeline makes,
  /// after what fills this one; nobody waits for it here. Itself where it is of that device. Throws
  /// as its constructors do, and as to_host() where it did not come, or was donated.
  [[nodiscard]] Array copy_to(const Device& device,
                              std::source_location where = std::source_location::current()) const;
  /// The same values in other memory of its own device; otherwise as copy_to().
  [[nodiscard]] Array copy(std::source_location where = std::source_location::current()) const;

  /// "f32[2,2] on gccjit:0.0", and the elements with elision, once they are there; or why not.
  [[nodiscard]] std::string to_string() const;

  /// Whether they are copies of one handle.
  friend bool operator==(const Array& a, const Array& b) noexcept { return a.state_ == b.state_; }

 private:
  friend struct Inside;
  friend class executors::Result;
  [[nodiscard]] Array copied_to(const Device& device, const std::source_location& where) const;
  explicit Array(std::shared_ptr<const rt::ArrayState> state) noexcept : state_(std::move(state)) {}
  Array(const Device& device, const ArrayType& type, const void* values, std::size_t count,
        std::source_location where);
  /// The elements of std::vector<bool> have no addresses.
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
