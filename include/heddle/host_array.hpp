// HostArray: an array in host memory, owned or borrowed, with initialisers. A shared handle: copies
// share the memory. A move copies the handle, so no handle is without memory. The runtime orders
// transfers of different devices from and to a HostArray (Context::from_host(),
// Context::to_host()); the host orders its own accesses with transfers by waiting for their events.
// Sync::check checks accesses by at(), set(), set_written(), to_string() and values() (counted as a
// read of the whole array at the time of the call), but not accesses through data().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "heddle/types.hpp"

namespace heddle::jit {
struct HostStorage;
}

#pragma GCC visibility push(default)
namespace heddle {

class HostArray {
 public:
  /// An array without elements, f32[0], for a variable or a member that is assigned later.
  HostArray() : HostArray(ArrayType{f32, {0}}) {}
  /// Zero-filled, 64-byte aligned. The constructor and the functions below throw invalid_argument
  /// if the size overflows and for a number that is no DType, and exhausted if there is no memory.
  explicit HostArray(ArrayType type);
  HostArray(const HostArray&) = default;
  HostArray& operator=(const HostArray&) = default;

  /// A copy of `values`, row-major. Their number must be the number of elements.
  template <class T>
  static HostArray of(Dims dims, std::span<const T> values) {
    return copy_of(ArrayType{dtype_of_v<T>, std::move(dims)}, values.data(), values.size());
  }
  template <class T>
  static HostArray of(Dims dims, const std::vector<T>& values) {
    return of<T>(std::move(dims), std::span<const T>(values));
  }
  /// Borrows memory that the caller keeps alive and large enough while any tensor uses it (D4).
  /// heddle does not detect two arrays that borrow the same bytes: the caller orders their uses.
  static HostArray borrow(ArrayType type, void* data);

  /// An array of `values` (converted to the dtype), row-major, repeated from the start if they are
  /// fewer than the elements. `strict`: throws invalid_argument if their number is not the number
  /// of elements.
  static HostArray fill(ArrayType type, std::span<const double> values, bool strict = false);
  /// An array whose element k, in row-major order, is k (converted to the dtype).
  static HostArray range(ArrayType type);
  /// Random numbers, uniform in [0, 1), from Threefry-2x32-20 with this seed: the same on every
  /// machine. Floating dtypes only.
  static HostArray uniform(ArrayType type, std::uint64_t seed);
  /// Maps a regular file of raw row-major elements, copy-on-write. Throws not_found, or
  /// invalid_argument if the path is not a regular file or if its byte size is not that of the type
  /// (names both sizes). If another program truncates the file later, reading a missing page raises
  /// SIGBUS, as with mmap(): if a file may be truncated, read its content into an array instead.
  static HostArray map_file(ArrayType type, const std::string& path);

  [[nodiscard]] const ArrayType& type() const noexcept { return type_; }
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t num_bytes() const noexcept {
    return static_cast<std::size_t>(*type_.num_bytes());
  }
  [[nodiscard]] std::int64_t num_elements() const noexcept { return *type_.num_elements(); }

  /// The elements; throws invalid_argument when T is not the dtype.
  template <class T>
  [[nodiscard]] std::span<T> values(
      std::source_location where = std::source_location::current()) const {
    require(dtype_of_v<T>, where);
    return {static_cast<T*>(data()), static_cast<std::size_t>(num_elements())};
  }
  /// Element k in row-major order, converted to double. Out of range: invalid_argument.
  [[nodiscard]] double at(std::int64_t k,
                          std::source_location where = std::source_location::current()) const;
  /// Sets element k from a double (converted as compiled code converts).
  void set(std::int64_t k, double value,
           std::source_location where = std::source_location::current()) const;
  /// Declares that the host has rewritten the whole array: values missing after a transfer that
  /// ended badly count as present again (D9).
  void set_written(std::source_location where = std::source_location::current()) const noexcept;

  /// Rows and columns with elision: bounded text for arrays of any size.
  [[nodiscard]] std::string to_string(
      std::source_location where = std::source_location::current()) const;

 private:
  friend struct Inside;
  HostArray(ArrayType type, std::shared_ptr<void> data);
  static HostArray copy_of(ArrayType type, const void* data, std::size_t count);
  void require(DType dtype, const std::source_location& where) const;
  void look(bool writes, const std::source_location& where) const noexcept;

  ArrayType type_;
  std::shared_ptr<jit::HostStorage> state_;
  void* data_;  // the storage's memory
};

/// Renders row-major elements with elision: at most `edge` items at each end of an axis, and about
/// 8,192 characters; the whole array if `edge` is the largest int. Throws invalid_argument for a
/// type that no array can have.
[[nodiscard]] std::string render_array(const ArrayType& type, const void* data, int edge = 3);

}  // namespace heddle
#pragma GCC visibility pop
