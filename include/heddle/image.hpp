// Image: compiled kernels, independent of any device. A compiler makes an image, caches store it,
// and a physical device loads it (heddle/devices/device.hpp). An immutable value; any thread.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/status.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// A checksum (XXH3-128) that detects damage, not malice.
struct Checksum {
  std::uint64_t high = 0, low = 0;
  friend auto operator<=>(const Checksum&, const Checksum&) = default;
};
[[nodiscard]] Checksum checksum(std::span<const std::byte> bytes) noexcept;

/// The launch shape of a kernel on a device that runs many threads at once: the numbers of groups,
/// and of threads per group. On a host the kernel is called once.
struct LaunchShape {
  std::array<std::uint32_t, 3> groups{1, 1, 1};
  std::array<std::uint32_t, 3> threads{1, 1, 1};
  friend bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

struct ImageKernel {
  std::string symbol;  ///< name of a function of type heddle_kernel_function (heddle/kernel.h)
  LaunchShape shape{};
  friend bool operator==(const ImageKernel&, const ImageKernel&) = default;
};

/// The kind of an image that is a shared library for the present machine: "elf-x86-64",
/// "elf-aarch64", ...
[[nodiscard]] std::string_view host_image_kind() noexcept;
/// The kind of an image without bytes; the kernels have no effect.
[[gnu::visibility("hidden")]] inline constexpr std::string_view null_image_kind = "null";
/// A symbol that every library of kernels defines: a uint32_t, HEDDLE_KERNEL_ABI.
[[gnu::visibility("hidden")]] inline constexpr const char* unit_abi_symbol = "heddle_unit_abi";
/// An upper bound on the size of images; a larger one is refused without being read.
inline constexpr std::size_t image_bytes_max = std::size_t{256} << 20;

/// A shared handle; a move copies the handle, so no handle is ever empty.
class Image {
 public:
  /// `sum` is the checksum of the bytes, computed as early as possible, so that check() detects
  /// later damage.
  Image(std::string kind, std::vector<std::byte> bytes, const Checksum& sum,
        std::vector<ImageKernel> kernels);
  Image(const Image&) = default;
  Image& operator=(const Image&) = default;

  [[nodiscard]] const std::string& kind() const noexcept { return data_->kind; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return data_->bytes; }
  [[nodiscard]] const Checksum& sum() const noexcept { return data_->sum; }
  /// The kernels, in the order of their launch numbers.
  [[nodiscard]] const std::vector<ImageKernel>& kernels() const noexcept { return data_->kernels; }
  /// The checksum of the whole image: equal images are loaded once.
  [[nodiscard]] const Checksum& hash() const noexcept { return data_->hash; }

  /// ok, or compile_failed with the reason: the bytes do not match the checksum; or, for kind
  /// host_image_kind(), they are not a complete shared library for the present machine, with the
  /// kernels and this kernel ABI. Neither loads nor runs code: loading a truncated library raises
  /// SIGBUS.
  [[nodiscard]] Status check() const;

 private:
  struct Data {
    std::string kind;
    std::vector<std::byte> bytes;
    Checksum sum;
    std::vector<ImageKernel> kernels;
    Checksum hash;
  };
  std::shared_ptr<const Data> data_;
};

}  // namespace heddle
#pragma GCC visibility pop
