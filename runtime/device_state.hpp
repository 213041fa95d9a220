// What is behind Device and Buffer: the part that tasks use (Execution) apart from the part that
// owns the timeline, so that a task never holds the device that runs it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "devices/device.hpp"
#include "devices/memory_pool.hpp"
#include "heddle/code.hpp"
#include "heddle/device.hpp"
#include "heddle/program.hpp"

namespace heddle::rt {

struct BackendState;

/// Memory of one buffer. The block goes back to the pool with the last handle.
struct BufferState {
  std::shared_ptr<dev::MemoryPool> pool;          ///< null: borrowed from a host array
  std::shared_ptr<dev::PhysicalDevice> physical;  ///< whose memory it is
  std::optional<HostArray> host;                  ///< keeps borrowed host memory
  mutable std::mutex mutex;
  void* data = nullptr;  // guarded by mutex: donation takes it
  std::size_t bytes = 0;
  bool live = true;      // guarded by mutex
  std::string constant;  ///< the hosted constant that it holds, which nobody may write; else empty

  BufferState() = default;
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;
  ~BufferState();
  /// The address; throws nothing: null once donated.
  [[nodiscard]] void* address() const noexcept;
};

/// The tensor in a device's merge buffer. Touched by tasks of that device only.
struct MergeSlot {
  std::optional<Tensor> holder;
  MergeMode mode = MergeMode::copy;  ///< as asked for, whether or not memory is shared
  std::optional<BufferView> view;    ///< borrowed (streamed), or in `own`
  std::shared_ptr<BufferState> own;  ///< grow-only
};

/// What tasks of a device use. Queue and merge slot: its tasks only, one at a time.
struct Execution {
  std::string name;
  std::shared_ptr<dev::PhysicalDevice> physical;
  std::unique_ptr<dev::Queue> queue;
  std::shared_ptr<dev::MemoryPool> pool;
  MergeSlot merge;
  std::atomic<std::uint64_t> launches{0}, copies{0}, merges_copied{0}, merges_streamed{0};
};

struct DeviceState {
  std::shared_ptr<BackendState> backend;
  int ordinal = 0;
  int subordinal = 0;
  std::shared_ptr<Execution> execution;
  std::optional<sched::Device> timeline;  ///< set once, when opened
};

/// Throws invalid_argument when the device cannot address the view: memory of another space.
void require_reach(const BufferView& view, const Execution& execution);

/// Throws failed_precondition, naming the tensor, when the view is into a hosted constant.
void require_writable(const BufferView& view);

/// Contents undefined. Throws exhausted, naming `what`, the bytes, what bounds them and who has
/// most. `tensor`: the id of the one that it is for.
[[nodiscard]] std::shared_ptr<BufferState> allocate(const Execution& execution, std::size_t bytes,
                                                    const std::string& what,
                                                    std::uint64_t tensor = 0);
/// Puts zeroing of the buffer on the device's timeline.
void zero_fill(const DeviceState& device, const std::shared_ptr<BufferState>& buffer);
/// Throws the refusal of an event that was not accepted.
Event require_accepted(Event event);

/// Host memory of a transfer; `array` keeps it when it is a tensor's own.
struct HostMemory {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const HostArray> array{};
};
/// On the device's timeline: all of the view from or to host memory of as many bytes, touched when
/// the task runs.
Event submit_from_host(const sched::Device& timeline, const std::shared_ptr<Execution>& execution,
                       const BufferView& view, HostMemory host,
                       const sched::SubmitOptions& options = {});
Event submit_to_host(const sched::Device& timeline, const std::shared_ptr<Execution>& execution,
                     const BufferView& view, HostMemory host,
                     const sched::SubmitOptions& options = {});

/// How bytes get from one buffer to another: one table for all transfers.
enum class Route : std::uint8_t { same_buffer, same_space, staged };
[[nodiscard]] Route route(const BufferState& from, const BufferState& to) noexcept;
/// Copies `bytes` on the calling task's device (`queue` is that device's).
[[nodiscard]] Status copy_bytes(dev::Queue& queue, const BufferState& to, std::size_t to_offset,
                                const BufferState& from, std::size_t from_offset,
                                std::size_t bytes) noexcept;

}  // namespace heddle::rt
