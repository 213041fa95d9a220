// A vector with room for a few values. Used by one thread.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "heddle/requires.hpp"

namespace heddle::executors {

/// A vector that stores up to `few` values without an allocation.
template <class T, std::size_t few>
  requires std::is_trivially_copyable_v<T>
class Few {
 public:
  Few() noexcept {}  // NOLINT: room_ needs no initialisation
  Few(const Few&) = delete;
  Few& operator=(const Few&) = delete;
  void push_back(const T& value) {
    if (size_ == capacity_) [[unlikely]]
      grow(1);
    ::new (static_cast<void*>(data_ + size_)) T(value);
    ++size_;
  }
  /// A new last value, to be filled in its place: a copy of what was written a moment before would
  /// wait for the writes.
  T& emplace_back() {
    if (size_ == capacity_) [[unlikely]]
      grow(1);
    return *::new (static_cast<void*>(data_ + size_++)) T;
  }
  void append(const T* from, std::size_t count) {
    if (count > capacity_ - size_) [[unlikely]]
      grow(count);
    std::memcpy(static_cast<void*>(data_ + size_), from, count * sizeof(T));
    size_ += count;
  }
  [[nodiscard]] T* begin() noexcept { return data_; }
  [[nodiscard]] const T* begin() const noexcept { return data_; }
  [[nodiscard]] T* end() noexcept { return data_ + size_; }
  [[nodiscard]] const T* end() const noexcept { return data_ + size_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] T& operator[](std::size_t k) noexcept { return data_[k]; }
  [[nodiscard]] const T& operator[](std::size_t k) const noexcept { return data_[k]; }

 private:
  static_assert(alignof(T) <= alignof(std::max_align_t));

  void grow(std::size_t count) {
    const std::size_t capacity = 2 * capacity_ + count;
    auto many = std::make_unique_for_overwrite<std::byte[]>(capacity * sizeof(T));
    std::memcpy(many.get(), data_, size_ * sizeof(T));
    many_ = std::move(many);
    data_ = reinterpret_cast<T*>(many_.get());
    capacity_ = capacity;
  }

  T* data_ = reinterpret_cast<T*>(room_);  // the first size_ are values
  std::size_t size_ = 0, capacity_ = few;
  alignas(T) std::byte room_[few * sizeof(T)];
  std::unique_ptr<std::byte[]> many_;
};

}  // namespace heddle::executors
