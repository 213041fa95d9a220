// See cuda_trace.hpp.
#include "devices/cuda_trace.hpp"

namespace heddle::dev::cuda {

TraceRing::~TraceRing() {
  if (ring_ == nullptr) return;
  const Gpu::Current current(gpu_);
  static_cast<void>(gpu_.driver().host_release(ring_));
}

Status TraceRing::begin() noexcept {
  if (ring_ == nullptr) {
    const Gpu::Current current(gpu_);
    void* data = nullptr;
    if (Status s =
            gpu_.status(gpu_.driver().host_allocate(&data, sizeof(Ring), host_memory_portable),
                        "cuMemHostAlloc", "making room for traced values");
        !s.ok())
      return s;
    ring_ = static_cast<Ring*>(data);
  }
  ring_->written = ring_->taken = 0;
  return {};
}

void TraceRing::tell(const heddle_kernel_args& args) noexcept {
  const std::atomic_ref written(ring_->written), taken(ring_->taken);
  // acquire: pairs with the kernel's __threadfence_system() before it counts an entry up.
  const std::uint64_t end = written.load(std::memory_order_acquire);
  // relaxed: no other thread writes the count.
  for (std::uint64_t k = taken.load(std::memory_order_relaxed); k < end; ++k) {
    const Entry entry = ring_->entries[k % capacity];
    args.trace(args.trace_context, entry.statement, entry.entry, entry.offset, entry.before,
               entry.after);
    // release: pairs with the kernel's read of the count, after which it writes the entry again.
    taken.store(k + 1, std::memory_order_release);
  }
}

}  // namespace heddle::dev::cuda
