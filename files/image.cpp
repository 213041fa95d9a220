// See heddle/image.hpp.
#include "heddle/image.hpp"

#include <xxhash.h>

#include <utility>

#include "files/elf.hpp"

namespace heddle {
namespace {

Checksum hash_of(const std::string& kind, const Checksum& sum,
                 const std::vector<ImageKernel>& kernels) {
  std::string text;
  const auto add = [&text](const auto& value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  add(sum);
  text += kind;
  text += '\0';
  for (const ImageKernel& kernel : kernels) {
    add(kernel.shape);
    text += kernel.symbol;
    text += '\0';
  }
  return checksum(std::as_bytes(std::span(text)));
}

}  // namespace

Checksum checksum(std::span<const std::byte> bytes) noexcept {
  const XXH128_hash_t sum = XXH3_128bits(bytes.data(), bytes.size());
  return {sum.high64, sum.low64};
}

Image::Image(std::string kind, std::vector<std::byte> bytes, const Checksum& sum,
             std::vector<ImageKernel> kernels) {
  const Checksum hash = hash_of(kind, sum, kernels);
  data_ = std::make_shared<const Data>(
      Data{std::move(kind), std::move(bytes), sum, std::move(kernels), hash});
}

Status Image::check() const {
  if (checksum(bytes()) != sum()) {
    return Status(ErrorCode::compile_failed,
                  "it was damaged on its way (its checksum differs); compile again");
  }
  if (kind() != host_image_kind()) return {};
  if (Status status = files::check_library(bytes()); !status.ok()) return status;
  return files::check_kernels(bytes(), kernels());
}

}  // namespace heddle
