// See cuda_gpu.hpp.
#include "devices/cuda_gpu.hpp"

#include <fmt/format.h>

#include <utility>

namespace heddle::dev::cuda {

std::shared_ptr<Gpu> Gpu::open(std::shared_ptr<const Driver> driver, int ordinal, Status* why) {
  if (ordinal < 0 || ordinal >= driver->devices) {
    *why = Status(ErrorCode::invalid_argument,
                  fmt::format("there is no GPU {}: the CUDA driver {} has {}, numbered from 0",
                              ordinal, driver->file, driver->devices));
    return nullptr;
  }
  std::shared_ptr<Gpu> gpu(new Gpu(std::move(driver), ordinal));
  *why = gpu->begin();
  return why->ok() ? gpu : nullptr;
}

Status Gpu::begin() {
  name_ = fmt::format("GPU {}", ordinal_);
  char told[256] = {};
  if (Status s = status(driver_->device_get(&device_, ordinal_), "cuDeviceGet", "opening");
      !s.ok()) {
    return s;
  }
  if (driver_->device_name(told, sizeof told, device_) == success)
    name_ += fmt::format(" ({})", told);
  if (Status s = status(driver_->device_bytes(&bytes_, device_), "cuDeviceTotalMem", "opening");
      !s.ok()) {
    return s;
  }
  image_kind_ =
      fmt::format("cubin-sm-{}{}", attribute(capability_major), attribute(capability_minor));
  if (attribute(memory_pools_supported) == 0) {
    return Status(ErrorCode::unavailable, [&] {
      return name_ + " has no pools of memory in stream order, which heddle needs";
    });
  }
  if (Status s = status(driver_->context_retain(&context_, device_), "cuDevicePrimaryCtxRetain",
                        "opening");
      !s.ok()) {
    return s;
  }
  return make_pool();
}

Status Gpu::make_pool() {
  const Current current(*this);
  PoolProperties properties;
  properties.location.id = device_;
  if (Status s = status(driver_->pool_create(&pool_, &properties), "cuMemPoolCreate", "opening");
      !s.ok()) {
    return s;
  }
  // Kernels and copies of every GPU that can access the pool may do so.
  for (int other = 0; other < driver_->devices; ++other) {
    Ordinal device = 0;
    int can = 0;
    if (other == ordinal_ || driver_->device_get(&device, other) != success ||
        driver_->device_reaches(&can, device, device_) != success || can == 0) {
      continue;
    }
    PoolAccess access;
    access.location.id = device;
    if (Status s = status(driver_->pool_access(pool_, &access, 1), "cuMemPoolSetAccess", "opening");
        !s.ok()) {
      return s;
    }
  }
  return status(driver_->stream_create(&stream_, stream_non_blocking), "cuStreamCreate", "opening");
}

Gpu::~Gpu() {
  if (context_ == nullptr) return;
  {
    const Current current(*this);
    if (stream_ != nullptr) {
      static_cast<void>(driver_->stream_synchronize(stream_));
      static_cast<void>(driver_->stream_destroy(stream_));
    }
    if (pool_ != nullptr) static_cast<void>(driver_->pool_destroy(pool_));
  }
  static_cast<void>(driver_->context_release(device_));
}

int Gpu::attribute(int which) const noexcept {
  int value = 0;
  return driver_->device_attribute(&value, which, device_) == success ? value : 0;
}

bool Gpu::reaches(const Gpu& other) const noexcept {
  int can = 0;
  return driver_ == other.driver_ &&
         (device_ == other.device_ ||
          (driver_->device_reaches(&can, device_, other.device_) == success && can != 0));
}

Status Gpu::allocate(std::size_t bytes, void** data) noexcept {
  const Current current(*this);
  Address at = 0;
  Status s = status(driver_->allocate(&at, bytes, pool_, stream_), "cuMemAllocFromPoolAsync",
                    "allocating");
  // Other streams use the memory at once.
  if (s.ok()) s = status(driver_->stream_synchronize(stream_), "cuStreamSynchronize", "allocating");
  *data = reinterpret_cast<void*>(at);
  if (s.code() != ErrorCode::exhausted) return s;
  return Status(
      ErrorCode::exhausted,
      [&] { return fmt::format("{} has no memory for {} bytes", name_, bytes); }, std::move(s));
}

void Gpu::release(void* data) noexcept {
  const Current current(*this);
  // After an error there is no memory to give back.
  static_cast<void>(driver_->release(reinterpret_cast<Address>(data), stream_));
}

Status Gpu::status(Result result, const char* function, const char* what) const noexcept {
  if (result == success) return {};
  try {
    return driver_->status(result, function, name_ + ", " + what);
  } catch (const std::bad_alloc&) {
    return driver_->status(result, function, {});
  }
}

}  // namespace heddle::dev::cuda
