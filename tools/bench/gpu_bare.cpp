// See gpu_rows.hpp.
#include <cstdlib>
#include <utility>

#include "heddle/status.hpp"
#include "tools/bench/gpu_rows.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {

GpuSizes& gpu_sizes() {
  static GpuSizes sizes;
  return sizes;
}

Backend open_cuda() {
  const Unpinned while_starting;
  BackendOptions options;
  options.name = "cuda";
  return Backend::open(options);
}

BareGpu::BareGpu() {
  const char* const file = std::getenv("HEDDLE_CUDA_DRIVER");
  Status why;
  const auto driver = dev::cuda::open_driver(file == nullptr ? "" : file, &why);
  throw_if_failed(why);
  gpu_ = dev::cuda::Gpu::open(driver, 0, &why);
  throw_if_failed(why);
  stream_ = new_stream();
}

BareGpu::~BareGpu() {
  const dev::cuda::Gpu::Current current(*gpu_);
  static_cast<void>(driver().stream_destroy(stream_));
}

dev::cuda::Stream BareGpu::new_stream() const {
  const dev::cuda::Gpu::Current current(*gpu_);
  dev::cuda::Stream stream = nullptr;
  require(driver().stream_create(&stream, dev::cuda::stream_non_blocking), "cuStreamCreate");
  return stream;
}

void BareGpu::wait() const { require(driver().stream_synchronize(stream_), "cuStreamSynchronize"); }

void BareGpu::require(dev::cuda::Result result, const char* function) const {
  throw_if_failed(gpu_->status(result, function, "the bare limit"));
}

BareMemory::BareMemory(const BareGpu& gpu, std::size_t bytes) : gpu_(gpu.gpu()) {
  throw_if_failed(gpu_->allocate(bytes, &data_));
}

BareMemory::~BareMemory() { gpu_->release(data_); }

}  // namespace heddle::bench
