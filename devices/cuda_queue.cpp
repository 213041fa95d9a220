// See cuda_queue.hpp.
#include "devices/cuda_queue.hpp"

#include <fmt/format.h>

#include <utility>

#include "devices/cuda_trace.hpp"

namespace heddle::dev::cuda {

CudaModule::~CudaModule() {
  if (module_ == nullptr) return;
  const Gpu::Current current(*gpu_);
  static_cast<void>(gpu_->driver().module_unload(module_));
}

Status CudaModule::load(std::shared_ptr<Gpu> gpu, const Image& image, const LoadOptions& options,
                        std::shared_ptr<const Module>* module) noexcept {
  try {
    const auto made = std::make_shared<CudaModule>(std::move(gpu));
    Status s = made->take(image, options);
    if (s.ok()) *module = made;
    return s;
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, "no host memory for a module");
  }
}

Status CudaModule::take(const Image& image, const LoadOptions& options) {
  if (image.kind() != gpu_->image_kind()) {
    return Status(ErrorCode::compile_failed,
                  fmt::format("module '{}' is of kind {}, and {} loads {}; compile it for that GPU",
                              options.name, image.kind(), gpu_->name(), gpu_->image_kind()));
  }
  if (Status s = image.check(); !s.ok()) return s;
  const Gpu::Current current(*gpu_);
  const Driver& driver = gpu_->driver();
  const Result loaded = driver.module_load(&module_, image.bytes().data(), 0, nullptr, nullptr);
  if (Status s = gpu_->status(loaded, "cuModuleLoadDataEx", "loading"); !s.ok()) {
    module_ = nullptr;
    const bool at_fault =
        loaded == invalid_image || loaded == no_binary_for_gpu || loaded == unsupported_ptx_version;
    return Status(at_fault ? ErrorCode::compile_failed : ErrorCode::unavailable,
                  fmt::format("{} does not load module '{}'", gpu_->name(), options.name), s);
  }
  for (std::size_t k = 0; k < image.kernels().size(); ++k) {
    const ImageKernel& kernel = image.kernels()[k];
    Kernel made{nullptr, kernel.shape, options.labels.empty() ? kernel.symbol : options.labels[k]};
    const Result found = driver.module_function(&made.function, module_, kernel.symbol.c_str());
    if (Status s = gpu_->status(found, "cuModuleGetFunction", "loading"); !s.ok()) {
      return Status(ErrorCode::compile_failed,
                    fmt::format("module '{}' has no kernel {}", options.name, kernel.symbol), s);
    }
    kernels_.push_back(std::move(made));
  }
  return {};
}

namespace {

/// The maximum number of a kernel's argument words: NVIDIA, "CUDA 12.1 Supports Large Kernel
/// Parameters" (2023).
std::size_t words_max(const Driver& driver) {
  constexpr int large_parameters = 12010;
  const std::size_t bytes = driver.version >= large_parameters ? 32764 : 4096;
  return bytes / sizeof(std::uint64_t);
}

class CudaQueue final : public Queue {
 public:
  CudaQueue(std::shared_ptr<Ends> ends, Stream stream, Completions& completions)
      : ends_(std::move(ends)),
        stream_(stream),
        line_(ends_->open(completions)),
        traces_(ends_->gpu()) {}
  ~CudaQueue() override {
    ends_->close(line_);
    for (const Launched& each : launched_) ends_->give_back({&each.cell, 1});
    ends_->give_back(cells_);
    const Gpu::Current current(gpu());
    static_cast<void>(gpu().driver().stream_destroy(stream_));
  }
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  Status zero(void* data, std::size_t bytes) noexcept override {
    const Gpu::Current current(gpu());
    return gpu().status(gpu().driver().fill(address(data), 0, bytes, stream_), "cuMemsetD8Async",
                        "zeroing");
  }
  Status from_host(void* data, const void* host, std::size_t bytes) noexcept override {
    return copy(data, host, bytes);
  }
  Status to_host(void* host, const void* data, std::size_t bytes) noexcept override {
    return copy(host, data, bytes);
  }
  /// A single address space covers the memory of host and GPUs: the driver knows the location of
  /// each address.
  Status copy(void* to, const void* from, std::size_t bytes) noexcept override {
    const Gpu::Current current(gpu());
    return gpu().status(gpu().driver().copy(address(to), address(from), bytes, stream_),
                        "cuMemcpyAsync", "copying");
  }
  Status launch(const Module& module, std::size_t kernel,
                const heddle_kernel_args& args) noexcept override;
  Status record(std::uint64_t number) noexcept override {
    const Gpu::Current current(gpu());
    return ends_->record(line_, stream_, number, launched_);
  }
  Status wait(const Mark& mark) noexcept override {
    const Gpu::Current current(gpu());
    return ends_->wait(stream_, *static_cast<const CudaQueue&>(*mark.queue).line_, mark.number);
  }

 private:
  [[nodiscard]] Gpu& gpu() const noexcept { return ends_->gpu(); }
  static Address address(const void* data) noexcept { return reinterpret_cast<Address>(data); }

  const std::shared_ptr<Ends> ends_;
  const Stream stream_;
  const std::shared_ptr<Line> line_;
  std::vector<Launched> launched_;    // since the last mark
  std::vector<KernelCell*> cells_;    // unused
  std::vector<std::uint64_t> words_;  // arguments of the kernel being launched
  TraceRing traces_;
};

Status CudaQueue::launch(const Module& module, std::size_t number,
                         const heddle_kernel_args& args) noexcept {
  const CudaModule::Kernel& kernel = static_cast<const CudaModule&>(module).kernel(number);
  const std::size_t count = std::size_t{args.num_buffers} + args.num_statics + 2;
  if (const std::size_t most = words_max(gpu().driver()); count > most) {
    return Status(ErrorCode::unavailable, [&] {
      return fmt::format(
          "kernel '{}' has {} buffers and {} static indices; a GPU takes {} together, by a driver "
          "of "
          "CUDA {}",
          kernel.name, args.num_buffers, args.num_statics, most - 2,
          cuda::version_text(gpu().driver().version));
    });
  }
  if (cells_.empty()) {
    if (Status s = ends_->take_cells(cells_); !s.ok()) return s;
  }
  if (args.trace != nullptr) {
    if (Status s = traces_.begin(); !s.ok()) return s;
  }
  try {
    words_.resize(count);
    launched_.push_back({cells_.back(), args.status, args.stop, &kernel.name, 0});
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, "no host memory to launch a kernel");
  }
  KernelCell* const cell = cells_.back();
  *cell = {};
  if (args.trace != nullptr) cell->traced = traces_.address();
  std::uint64_t* word = words_.data();
  for (std::uint32_t k = 0; k < args.num_buffers; ++k) *word++ = address(args.buffers[k].data);
  for (std::uint32_t k = 0; k < args.num_statics; ++k)
    *word++ = static_cast<std::uint64_t>(args.statics[k]);
  *word++ = address(&cell->status);
  *word = address(&cell->stop);
  std::size_t bytes = count * sizeof(std::uint64_t);
  void* extra[] = {launch_buffer, words_.data(), launch_buffer_bytes, &bytes, launch_end};
  const auto& [groups, threads] = kernel.shape;
  const Gpu::Current current(gpu());
  const auto alone = ends_->alone();
  Status s = gpu().status(
      gpu().driver().launch(kernel.function, groups[0], groups[1], groups[2], threads[0],
                            threads[1], threads[2], 0, stream_, nullptr, extra),
      "cuLaunchKernel", kernel.name.c_str());
  if (!s.ok()) {
    launched_.pop_back();
    return s;
  }
  cells_.pop_back();
  launched_.back().number = ends_->next_launch();
  if (args.trace == nullptr && !ends_->checks_each()) return {};
  // Two captures: std::function needs no memory for them.
  return ends_->finish(stream_, launched_.back(), [this, &args] {
    if (args.trace != nullptr) traces_.tell(args);
  });
}

}  // namespace

Status make_cuda_queue(const std::shared_ptr<Ends>& ends, Completions& completions,
                       std::unique_ptr<Queue>* queue) noexcept {
  Gpu& gpu = ends->gpu();
  const Gpu::Current current(gpu);
  Stream stream = nullptr;
  Status s = gpu.status(gpu.driver().stream_create(&stream, stream_non_blocking), "cuStreamCreate",
                        "making a queue");
  if (!s.ok()) return s;
  try {
    *queue = std::make_unique<CudaQueue>(ends, stream, completions);
    return {};
  } catch (const std::bad_alloc&) {
    static_cast<void>(gpu.driver().stream_destroy(stream));
    return Status(ErrorCode::exhausted, "no host memory for a queue");
  }
}

}  // namespace heddle::dev::cuda
