// Gpu: one GPU of a driver: the primary context, shared with other users in this process, and
// memory from heddle's own pool. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "devices/cuda_driver.hpp"
#include "heddle/status.hpp"

namespace heddle::dev::cuda {

class Gpu {
 public:
  /// Opens GPU `ordinal` of the driver. Null on failure, with the error in `why`.
  [[nodiscard]] static std::shared_ptr<Gpu> open(std::shared_ptr<const Driver> driver, int ordinal,
                                                 Status* why);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu();

  /// Makes the GPU's context current on the calling thread during its lifetime, then restores the
  /// previous context.
  class Current {
   public:
    explicit Current(const Gpu& gpu) noexcept : gpu_(gpu) {
      pushed_ = gpu.driver_->context_push(gpu.context_) == success;
    }
    ~Current() {
      Context context = nullptr;
      if (pushed_) static_cast<void>(gpu_.driver_->context_pop(&context));
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const Gpu& gpu_;
    bool pushed_ = false;
  };

  [[nodiscard]] const Driver& driver() const noexcept { return *driver_; }
  /// "GPU 0 (NVIDIA H200)"
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The kind of images that the GPU loads: "cubin-sm-90"
  [[nodiscard]] const std::string& image_kind() const noexcept { return image_kind_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] int attribute(int which) const noexcept;
  /// True if kernels and copies on this GPU can access the memory of `other`.
  [[nodiscard]] bool reaches(const Gpu& other) const noexcept;

  [[nodiscard]] Status allocate(std::size_t bytes, void** data) noexcept;
  void release(void* data) noexcept;
  /// ok for success; otherwise an error that names the GPU, its action `what`, and `function`,
  /// which returned `result`.
  [[nodiscard]] Status status(Result result, const char* function, const char* what) const noexcept;

 private:
  Gpu(std::shared_ptr<const Driver> driver, int ordinal)
      : driver_(std::move(driver)), ordinal_(ordinal) {}
  [[nodiscard]] Status begin();
  [[nodiscard]] Status make_pool();

  const std::shared_ptr<const Driver> driver_;
  const int ordinal_;
  Ordinal device_ = 0;
  std::string name_, image_kind_;
  std::size_t bytes_ = 0;
  Context context_ = nullptr;
  Pool pool_ = nullptr;
  Stream stream_ = nullptr;  // for allocations and releases
};

}  // namespace heddle::dev::cuda
