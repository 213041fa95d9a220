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
  /// All arrays are defined. `donates`: the options of the executor name donated arguments.
  ExecutorKey(const executors::Arguments& arguments, const BackendState* backend, bool donates) {
    static_cast<void>(write(*this, arguments, backend, donates));
  }
  /// Tells whether `key` is the key of these arguments. Faster than to make that key.
  [[nodiscard]] static bool is(std::string_view key, const executors::Arguments& arguments,
                               const BackendState* backend, bool donates) noexcept {
    Rest rest{key.data(), key.data() + key.size()};
    return write(rest, arguments, backend, donates) && rest.at == rest.end;
  }
  /// Tells whether results may lie in the memory of large arguments. Non-temporal stores to lines
  /// that were just read are slower than plain stores, hence separate code for calls with large
  /// donations.
  [[nodiscard]] bool is_in_place() const noexcept { return bytes().back() != '\0'; }
  /// Turns the key into the key of calls that donate no large argument.
  void be_plain() noexcept { (many_.empty() ? few_[size_ - 1] : many_.back()) = '\0'; }
  [[nodiscard]] std::string_view bytes() const noexcept {
    return many_.empty() ? std::string_view(few_, size_) : std::string_view(many_);
  }
  /// The part of the bytes that tells the backend, the structure and the types.
  [[nodiscard]] static std::string_view types_in(std::string_view bytes) noexcept {
    return bytes.substr(0, bytes.size() - 1);
  }
  [[nodiscard]] std::uint64_t hash() const noexcept {
    return XXH3_64bits(bytes().data(), bytes().size());
  }

 private:
  /// Kernels that touch less memory use no non-temporal stores anyway.
  static constexpr std::int64_t large_bytes = std::int64_t{1} << 18;

  /// The rest of a key, to be compared.
  struct Rest {
    const char *at, *end;
    [[nodiscard]] bool put(const void* from, std::size_t count) noexcept {
      if (static_cast<std::size_t>(end - at) < count || std::memcmp(at, from, count) != 0)
        return false;
      at += count;
      return true;
    }
    [[nodiscard]] bool put(std::uint16_t head, std::span<const std::int64_t> dims) noexcept {
      if (static_cast<std::size_t>(end - at) < sizeof head + dims.size_bytes() ||
          std::memcmp(at, &head, sizeof head) != 0)
        return false;
      at += sizeof head;
      for (const std::int64_t extent : dims) {
        if (std::memcmp(at, &extent, sizeof extent) != 0) return false;
        at += sizeof extent;
      }
      return true;
    }
  };

  /// Writes the bytes to `to`, or compares them with those of a Rest. false: they differ, or an
  /// array is not defined.
  template <class To>
  [[nodiscard]] static bool write(To& to, const executors::Arguments& arguments,
                                  const BackendState* backend, bool donates) {
    if (!to.put(&backend, sizeof backend)) return false;
    const std::string_view structure = arguments.structure();
    if (!to.put(structure.data(), structure.size())) return false;
    bool in_place = false;
    for (const executors::Leaf& leaf : arguments.leaves()) {
      if (leaf.array != nullptr) {
        const auto& state = Inside::of(*leaf.array);
        if (state == nullptr) [[unlikely]]
          return false;
        const ArrayType& type = state->view.type();
        if (leaf.donated || donates) [[unlikely]]
          in_place = in_place || is_large(type);
        if (!write(to, type.dtype, type.dims)) return false;
      } else if (leaf.host != nullptr) {
        if (!write(to, leaf.host->type().dtype, leaf.host->type().dims)) return false;
      } else if (leaf.type != nullptr) {
        in_place = in_place || ((leaf.donated || donates) && is_large(*leaf.type));
        if (!write(to, leaf.type->dtype, leaf.type->dims)) return false;
      } else if (!write(to, leaf.dtype,
                        {&leaf.count, leaf.count < 0 ? std::size_t{0} : std::size_t{1}})) {
        return false;
      }
    }
    const char last = in_place ? '\1' : '\0';
    return to.put(&last, sizeof last);
  }
  template <class To>
  [[nodiscard]] static bool write(To& to, DType dtype, std::span<const std::int64_t> dims) {
    constexpr std::size_t rank_many = 255;
    const std::size_t rank = std::min(dims.size(), rank_many);
    const auto head = static_cast<std::uint16_t>(static_cast<unsigned>(dtype) | rank << 8U);
    const std::uint64_t whole = dims.size();
    if (rank == rank_many && !to.put(&whole, sizeof whole)) [[unlikely]]
      return false;
    return to.put(head, dims);
  }
  [[nodiscard]] static bool is_large(const ArrayType& type) noexcept {
    return type.num_bytes().value_or(0) >= large_bytes;
  }
  [[nodiscard]] bool put(const void* from, std::size_t count) {
    if (size_ + count <= sizeof few_ && many_.empty()) [[likely]] {
      std::memcpy(few_ + size_, from, count);
    } else {
      if (many_.empty()) many_.assign(few_, size_);
      many_.append(static_cast<const char*>(from), count);
    }
    size_ += count;
    return true;
  }

  [[nodiscard]] bool put(std::uint16_t head, std::span<const std::int64_t> dims) {
    return put(&head, sizeof head) && (dims.empty() || put(dims.data(), dims.size_bytes()));
  }

  char few_[512];  // NOLINT: the first size_ bytes are set
  std::size_t size_ = 0;
  std::string many_;  // replaces few_ for longer keys
};

}  // namespace heddle::rt
