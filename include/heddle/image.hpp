// Image: compiled kernels, free of any device. A compiler makes it, caches hold it, and a physical
// device loads it (heddle/devices/device.hpp). An immutable value; any thread.
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

/// A sum (XXH3-128) that finds damage, not malice.
struct Checksum {
  std::uint64_t high = 0, low = 0;
  friend auto operator<=>(const Checksum&, const Checksum&) = default;
};
[[nodiscard]] Checksum checksum(std::span<const std::byte> bytes) noexcept;

/// What a kernel is launched as on a device that runs many threads at once: how many groups there
/// are, and how many threads in each. On a host it is called once.
struct LaunchShape {
  std::array<std::uint32_t, 3> groups{1, 1, 1};
  std::array<std::uint32_t, 3> threads{1, 1, 1};
  friend bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

struct ImageKernel {
  std::string symbol;  ///< names a function of type heddle_kernel_function (heddle/kernel.h)
  LaunchShape shape{};
  friend bool operator==(const ImageKernel&, const ImageKernel&) = default;
};

/// The kind of an image that is a shared library for this machine: "elf-x86-64", "elf-aarch64", ...
[[nodiscard]] std::string_view host_image_kind() noexcept;
/// The kind of an image without bytes, whose kernels do nothing.
[[gnu::visibility("hidden")]] inline constexpr std::string_view null_image_kind = "null";
/// The symbol that a library of kernels defines besides them: a uint32_t, HEDDLE_KERNEL_ABI.
[[gnu::visibility("hidden")]] inline constexpr const char* unit_abi_symbol = "heddle_unit_abi";
/// No image comes near this; a larger one is refused rather than read.
inline constexpr std::size_t image_bytes_max = std::size_t{256} << 20;

/// A shared handle that moving copies, so that none is ever empty.
class Image {
 public:
  /// `sum` is that of the bytes, taken as early as possible, so that check() finds what befell them
  /// since.
  Image(std::string kind, std::vector<std::byte> bytes, const Checksum& sum,
        std::vector<ImageKernel> kernels);
  Image(const Image&) = default;
  Image& operator=(const Image&) = default;

  [[nodiscard]] const std::string& kind() const noexcept { return data_->kind; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return data_->bytes; }
  [[nodiscard]] const Checksum& sum() const noexcept { return data_->sum; }
  /// The kernels, in the order by which launches number them.
  [[nodiscard]] const std::vector<ImageKernel>& kernels() const noexcept { return data_->kernels; }
  /// The checksum of all of it: equal images are loaded once.
  [[nodiscard]] const Checksum& hash() const noexcept { return data_->hash; }

  /// ok, or compile_failed saying what is wrong: the bytes are not those of the sum; or, of kind
  /// host_image_kind(), they are no whole shared library for this machine with its kernels, of this
  /// kernel ABI. Loads and runs nothing: loading a library that was cut short ends in SIGBUS.
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
