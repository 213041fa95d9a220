// Launches of a small kernel on a GPU, waits for one, and chains of kernels that alternate between
// two streams, against the same kernel by the driver's functions.
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "devices/cuda_queue.hpp"
#include "heddle/routine.hpp"
#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/gpu_rows.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t numbers = 256;
std::size_t launches_at_once() { return gpu_sizes().small ? 8 : 1000; }

/// x += 1 on two virtual devices of the first GPU.
class Increments {
 public:
  Increments() : backend_(open_cuda()), code_(compile(backend_, x_)) {
    for (std::optional<Routine>* const each : {&first_, &second_}) {
      each->emplace(Context(backend_.physical_device(0).new_virtual_device()).link(code_));
      (*each)->context().write(x_, std::vector<float>(numbers, 0));
      throw_if_failed((*each)->schedule().wait());
    }
  }
  [[nodiscard]] const Code& code() const { return code_; }

  double time_launches(nanoseconds length) {
    return timed_loop(length, launches_at_once(), [&](std::size_t count) {
      for (std::size_t k = 0; k < count; ++k) first_->schedule();
      first_->context().device().await();
    });
  }
  double time_waits(nanoseconds length) {
    return timed_loop(length, 1, [&](std::size_t) { throw_if_failed(first_->schedule().wait()); });
  }
  double time_hops(nanoseconds length) {
    return timed_loop(length, launches_at_once(), [&](std::size_t count) {
      Event last = first_->schedule();
      for (std::size_t k = 1; k < count; ++k)
        last = (k % 2 == 0 ? *first_ : *second_).schedule({}, {.after = {last}});
      throw_if_failed(last.wait());
    });
  }

 private:
  static Code compile(const Backend& backend, const Tensor& x) {
    const Index i;
    Program program("increment");
    program << (x(i) += 1);
    return backend.compile(program);
  }

  const Tensor x_{"x", f32, {numbers}};
  const Backend backend_;
  const Code code_;
  std::optional<Routine> first_, second_;
};

/// The same kernel, launched by the driver's functions.
class BareIncrements {
 public:
  BareIncrements() : code_(Increments().code()), x_(gpu_, numbers * sizeof(float)) {
    const dev::cuda::Gpu::Current current(*gpu_.gpu());
    const auto& step = std::get<jit::KernelStep>(Inside::of(code_)->core->steps.front());
    throw_if_failed(
        dev::cuda::CudaModule::load(gpu_.gpu(), step.unit->image, {.name = "bare"}, &module_));
    kernel_ = &static_cast<const dev::cuda::CudaModule&>(*module_).kernel(step.index);
    other_stream_ = gpu_.new_stream();
    gpu_.require(gpu_.driver().host_allocate(&told_, 64, dev::cuda::host_memory_portable),
                 "cuMemHostAlloc");
    for (dev::cuda::Event& each : events_) {
      gpu_.require(gpu_.driver().event_create(&each, dev::cuda::event_without_time),
                   "cuEventCreate");
    }
    // The words of devices/cuda_device.hpp: the buffer, the status, the word to stop by.
    const auto told = reinterpret_cast<std::uint64_t>(told_);
    words_ = {x_.address(), told, told + sizeof(heddle_kernel_status)};
  }
  ~BareIncrements() {
    const dev::cuda::Gpu::Current current(*gpu_.gpu());
    static_cast<void>(gpu_.driver().stream_synchronize(other_stream_));
    static_cast<void>(gpu_.driver().stream_destroy(other_stream_));
    for (const dev::cuda::Event each : events_)
      static_cast<void>(gpu_.driver().event_destroy(each));
    static_cast<void>(gpu_.driver().host_release(told_));
  }
  BareIncrements(const BareIncrements&) = delete;
  BareIncrements& operator=(const BareIncrements&) = delete;

  double time_launches(nanoseconds length) {
    const dev::cuda::Gpu::Current current(*gpu_.gpu());
    return timed_loop(length, launches_at_once(), [&](std::size_t count) {
      for (std::size_t k = 0; k < count; ++k) launch(gpu_.stream());
      gpu_.wait();
    });
  }
  double time_waits(nanoseconds length) {
    const dev::cuda::Gpu::Current current(*gpu_.gpu());
    return timed_loop(length, 1, [&](std::size_t) {
      launch(gpu_.stream());
      gpu_.wait();
    });
  }
  double time_hops(nanoseconds length) {
    const dev::cuda::Gpu::Current current(*gpu_.gpu());
    const dev::cuda::Driver& driver = gpu_.driver();
    const std::array streams{gpu_.stream(), other_stream_};
    return timed_loop(length, launches_at_once(), [&](std::size_t count) {
      for (std::size_t k = 0; k < count; ++k) {
        launch(streams[k % 2]);
        gpu_.require(driver.event_record(events_[k % 2], streams[k % 2]), "cuEventRecord");
        gpu_.require(driver.stream_wait(streams[(k + 1) % 2], events_[k % 2], 0),
                     "cuStreamWaitEvent");
      }
      gpu_.require(driver.stream_synchronize(other_stream_), "cuStreamSynchronize");
      gpu_.wait();
    });
  }

 private:
  void launch(dev::cuda::Stream stream) {
    std::size_t bytes = sizeof words_;
    void* extra[] = {dev::cuda::launch_buffer, words_.data(), dev::cuda::launch_buffer_bytes,
                     &bytes, dev::cuda::launch_end};
    const auto& [groups, threads] = kernel_->shape;
    gpu_.require(
        gpu_.driver().launch(kernel_->function, groups[0], groups[1], groups[2], threads[0],
                             threads[1], threads[2], 0, stream, nullptr, extra),
        "cuLaunchKernel");
  }

  const BareGpu gpu_;
  const Code code_;
  const BareMemory x_;
  std::shared_ptr<const dev::Module> module_;
  const dev::cuda::CudaModule::Kernel* kernel_ = nullptr;
  dev::cuda::Stream other_stream_ = nullptr;
  std::array<dev::cuda::Event, 2> events_{};
  void* told_ = nullptr;
  std::array<std::uint64_t, 3> words_{};
};

/// Made by the first row that needs it.
template <class Made>
Contender timed_by(const char* name, Kind kind, std::shared_ptr<std::optional<Made>> made,
                   double (Made::*time)(nanoseconds)) {
  return {name, kind, [made = std::move(made), time](nanoseconds length, Samples&) {
            if (!*made) made->emplace();
            return (**made.*time)(length);
          }};
}

}  // namespace

void add_gpu_launch_rows(std::vector<Row>& rows) {
  const auto heddle = std::make_shared<std::optional<Increments>>();
  const auto bare = std::make_shared<std::optional<BareIncrements>>();
  const auto add = [&](const char* workload, const char* operation, const char* limit,
                       double (Increments::*subject)(nanoseconds),
                       double (BareIncrements::*anchor)(nanoseconds)) {
    rows.push_back(Case{"gpu-launches", workload, operation,
                        timed_by("heddle", Kind::heddle, heddle, subject),
                        timed_by(limit, Kind::limit, bare, anchor)});
  };
  add("GPU, launch", "launch", "bare cuLaunchKernel", &Increments::time_launches,
      &BareIncrements::time_launches);
  add("GPU, launch and wait", "launch", "bare cuStreamSynchronize", &Increments::time_waits,
      &BareIncrements::time_waits);
  add("GPU, hop to another stream", "hop", "bare events", &Increments::time_hops,
      &BareIncrements::time_hops);
}

}  // namespace heddle::bench
