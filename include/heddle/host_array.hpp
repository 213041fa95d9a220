// HostArray: an array in host memory, owned or borrowed, with initialisers.
// A shared handle; copies share the memory, and whoever writes it must order that with the readers.
// Moving one copies it, so that none is ever empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/types.hpp"

namespace heddle {

class HostArray {
 public:
  /// Zero-filled, 64-byte aligned. Throws invalid_argument on overflow and for a number that is no
  /// DType, as all of these do, and exhausted without memory.
  explicit HostArray(ArrayType type);
  HostArray(const HostArray&) = default;
  HostArray& operator=(const HostArray&) = default;

  /// Copies of `values`, row-major. The count must equal the elements of `dims`.
  template <class T>
  static HostArray of(Dims dims, std::span<const T> values) {
    return copy_of(ArrayType{dtype_of_v<T>, std::move(dims)}, values.data(), values.size());
  }
  template <class T>
  static HostArray of(Dims dims, const std::vector<T>& values) {
    return of<T>(std::move(dims), std::span<const T>(values));
  }
  /// Borrows memory that the caller keeps alive and large enough while any tensor uses it (D4).
  static HostArray borrow(ArrayType type, void* data);

  /// Fills with `values` (converted to the dtype), row-major. strict: the counts must match, else
  /// invalid_argument; otherwise the values repeat from the start.
  static HostArray fill(ArrayType type, std::span<const double> values, bool strict = false);
  /// Element k of the row-major order is k (converted to the dtype).
  static HostArray range(ArrayType type);
  /// Uniform in [0, 1) from Threefry-2x32-20 with this seed: the same everywhere. Floating dtypes
  /// only.
  static HostArray uniform(ArrayType type, std::uint64_t seed);
  /// Maps a file of raw row-major elements, copy-on-write. Throws not_found, or invalid_argument
  /// when the byte size is not that of the type (both sizes named).
  static HostArray map_file(ArrayType type, const std::filesystem::path& path);

  [[nodiscard]] const ArrayType& type() const noexcept { return type_; }
  [[nodiscard]] void* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t num_bytes() const noexcept {
    return static_cast<std::size_t>(*type_.num_bytes());
  }
  [[nodiscard]] std::int64_t num_elements() const noexcept { return *type_.num_elements(); }

  /// The elements; throws invalid_argument when T is not the dtype.
  template <class T>
  [[nodiscard]] std::span<T> values() const {
    require(dtype_of_v<T>);
    return {static_cast<T*>(data()), static_cast<std::size_t>(num_elements())};
  }
  /// Element k in row-major order, converted to double. Out of range: invalid_argument.
  [[nodiscard]] double at(std::int64_t k) const;
  /// Sets element k from a double (converted as compiled code converts).
  void set(std::int64_t k, double value) const;

  /// Rows and columns with elision: bounded text whatever the size.
  [[nodiscard]] std::string to_string() const;

 private:
  HostArray(ArrayType type, std::shared_ptr<void> data);
  static HostArray copy_of(ArrayType type, const void* data, std::size_t count);
  void require(DType dtype) const;

  ArrayType type_;
  std::shared_ptr<void> data_;
};

/// Renders row-major elements with elision: at most `edge` items at each end of an axis. Throws
/// invalid_argument for a type that no array has.
[[nodiscard]] std::string render_array(const ArrayType& type, const void* data, int edge = 3);

}  // namespace heddle
