// The key that tells entries of an executor apart. Values; any thread.
#pragma once

#define XXH_INLINE_ALL  // the keys are short: a function call would cost more than the hash
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "heddle/executor_arguments.hpp"
#include "jit/system/inside.hpp"
#include "runtime/memory/array_state.hpp"

namespace heddle::rt {

struct BackendState;

[[nodiscard]] inline ArrayType type_of(const executors::Leaf& leaf) {
  if (leaf.array != nullptr) return leaf.array->type();
  if (leaf.host != nullptr) return leaf.host->type();
  if (leaf.type != nullptr) return *leaf.type;
  return {leaf.dtype, leaf.count < 0 ? Dims{} : Dims{leaf.count}};
}

/// The bytes of the key: the backend, the structure, and the type of each leaf.
class ExecutorKey {
 public:
  /// `donates`: the options of the executor name donated arguments.
  ExecutorKey(const executors::Arguments& arguments, const BackendState* backend, bool donates) {
    put(&backend, sizeof backend);
    const std::string_view structure = arguments.structure();
    put(structure.data(), structure.size());
    for (const executors::Leaf& leaf : arguments.leaves()) {
      if (leaf.array != nullptr) {
        if (leaf.donated || donates) [[unlikely]]
          is_in_place_ = is_in_place_ || leaf.array->type().num_bytes().value_or(0) >= large_bytes;
        add(Inside::of(*leaf.array)->view.type());
      } else if (leaf.host != nullptr) {
        add(leaf.host->type());
      } else if (leaf.type != nullptr) {
        is_in_place_ = is_in_place_ || ((leaf.donated || donates) &&
                                        leaf.type->num_bytes().value_or(0) >= large_bytes);
        add(*leaf.type);
      } else {
        add(leaf.dtype, {&leaf.count, leaf.count < 0 ? std::size_t{0} : std::size_t{1}});
      }
    }
    put(&is_in_place_, sizeof is_in_place_);
  }
  /// Tells whether results may lie in the memory of large arguments. Non-temporal stores to lines
  /// that were just read are slower than plain stores, hence separate code for calls with large
  /// donations.
  [[nodiscard]] bool is_in_place() const noexcept { return is_in_place_; }
  /// Turns the key into the key of calls that donate no large argument.
  void be_plain() noexcept {
    is_in_place_ = false;
    char* const end = many_.empty() ? few_ + size_ : many_.data() + many_.size();
    std::memcpy(end - sizeof is_in_place_, &is_in_place_, sizeof is_in_place_);
  }
  [[nodiscard]] std::string_view bytes() const noexcept {
    return many_.empty() ? std::string_view(few_, size_) : std::string_view(many_);
  }
  /// The part of the bytes that tells the backend, the structure and the types.
  [[nodiscard]] static std::string_view types_in(std::string_view bytes) noexcept {
    return bytes.substr(0, bytes.size() - sizeof is_in_place_);
  }
  [[nodiscard]] std::uint64_t hash() const noexcept {
    return XXH3_64bits(bytes().data(), bytes().size());
  }

 private:
  /// Kernels that touch less memory use no non-temporal stores anyway.
  static constexpr std::int64_t large_bytes = std::int64_t{1} << 18;

  void put(const void* from, std::size_t count) {
    if (size_ + count <= sizeof few_ && many_.empty()) [[likely]] {
      std::memcpy(few_ + size_, from, count);
    } else {
      if (many_.empty()) many_.assign(few_, size_);
      many_.append(static_cast<const char*>(from), count);
    }
    size_ += count;
  }
  void add(const ArrayType& type) { add(type.dtype, type.dims); }
  void add(DType dtype, std::span<const std::int64_t> dims) {
    constexpr std::size_t rank_many = 255;
    const std::size_t rank = std::min(dims.size(), rank_many);
    const auto head = static_cast<std::uint16_t>(static_cast<unsigned>(dtype) | rank << 8U);
    const std::size_t bytes = sizeof head + rank * sizeof(std::int64_t);
    // Usual types, in one step. The key stays short, as the hash takes twice as long for more than
    // 240 bytes in total.
    if (size_ + bytes <= sizeof few_ && rank < rank_many && many_.empty()) [[likely]] {
      char* to = few_ + size_;
      std::memcpy(to, &head, sizeof head);
      to += sizeof head;
      for (const std::int64_t extent : dims) {
        std::memcpy(to, &extent, sizeof extent);
        to += sizeof extent;
      }
      size_ += bytes;
      return;
    }
    put(&head, sizeof head);
    if (const std::uint64_t whole = dims.size(); rank == rank_many) put(&whole, sizeof whole);
    for (const std::int64_t extent : dims) put(&extent, sizeof extent);
  }

  char few_[512];  // NOLINT: the first size_ bytes are set
  std::size_t size_ = 0;
  bool is_in_place_ = false;
  std::string many_;  // replaces few_ for longer keys
};

}  // namespace heddle::rt
