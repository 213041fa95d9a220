// Physical and virtual devices of a backend, and buffers in device memory. Shared handles; a move
// copies the handle, so no handle is ever empty. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/duration.hpp"
#include "heddle/host_array.hpp"
#include "heddle/scheduler.hpp"
#include "heddle/types.hpp"

namespace heddle::rt {
struct BackendState;
struct DeviceState;
class BufferState;
}  // namespace heddle::rt

#pragma GCC visibility push(default)
namespace heddle {

/// The party that orders uses of one memory on different devices.
enum class Sync : std::uint8_t {
  /// heddle: a use waits, on the device, for earlier uses that conflict with it: write before read,
  /// read before write, write before write.
  automatic,
  /// The caller, by events; only uses of a donor still come first automatically. Values that a
  /// failed, skipped or cancelled task did not write are read as they are, without an error;
  /// automatic order refuses the read (D9).
  manual,
  /// Manual order, with reports of missing orders: BackendOptions::on_missing_order. Slow. `after`
  /// gives an order, and so does Device::wait(); so do events that the host, on any thread, waited
  /// for, polled and found done, or was called back for, before it submits. An order learned inside
  /// a task applies only to work that comes after the task. Reports depend on what was submitted
  /// and awaited, never on when tasks ended, except for polls, callbacks, and host threads that
  /// submit concurrently.
  check,
};
[[nodiscard]] std::string_view name(Sync sync) noexcept;

class Backend;   // heddle/backend.hpp
class Hardware;  // below
struct Touches;  // below

/// Device memory in bytes, and counts of launches and transfers since the device was opened.
struct DeviceStatistics {
  std::uint64_t bytes_in_use = 0;  ///< bytes of live buffers, as requested
  std::uint64_t bytes_peak = 0;    ///< the maximum of bytes_in_use
  /// Memory of freed buffers, rounded up, kept for reuse: by the device's own tasks at once; by
  /// other devices of the backend and memory space once every task that used it has ended. Returned
  /// to the system by trim(), and when heddle itself runs short of memory; shortage elsewhere in
  /// the process or on the machine is not noticed.
  std::uint64_t bytes_cached = 0;
  std::uint64_t launches = 0;
  std::uint64_t copies = 0;           ///< device-to-device copies, without those of merges
  std::uint64_t merges_copied = 0;    ///< merges whose source was copied
  std::uint64_t merges_streamed = 0;  ///< merges that read the source in place
  std::uint64_t parts = 0;  ///< parts of kernels that ran in several parts (BackendOptions::width)
};

/// Memory of one tensor on a device, or of the buffers without a tensor.
struct TensorMemory {
  std::string label{};  ///< "tensor 'x' f32[4]"
  std::uint64_t bytes_in_use = 0;
  std::uint64_t bytes_peak = 0;
};

/// A virtual device: an in-order timeline of tasks on a physical device, with memory and a merge
/// buffer. Destroying the last handle lets accepted tasks end, then closes the device; buffers
/// survive.
class Device {
 public:
  Device(const Device&) = default;
  Device& operator=(const Device&) = default;

  [[nodiscard]] const std::string& name() const noexcept;  ///< "gccjit:0.1"
  [[nodiscard]] int ordinal() const noexcept;              ///< the number of the physical device
  /// the number among the physical device's virtual devices
  [[nodiscard]] int subordinal() const noexcept;
  [[nodiscard]] Backend backend() const;  ///< the open instance that owns the device
  [[nodiscard]] Hardware physical_device() const;

  /// The scheduler's device that runs the tasks, for functions that only sched::TaskDevice has,
  /// such as await_for().
  [[nodiscard]] const sched::TaskDevice& timeline() const noexcept;
  /// Host work, in the order of the device's tasks; see sched::TaskDevice::submit().
  template <class F>
  Event submit(sched::Label label, F&& f, const sched::SubmitOptions& options = {}) const {
    return told(timeline().submit(label, std::forward<F>(f), options));
  }
  /// Host work with declared memory uses, ordered with other uses as Sync says; otherwise as above.
  /// A refused submission throws Error, as transfers do.
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  Event submit(sched::Label label, const Touches& touches, F&& f,
               const sched::SubmitOptions& options = {}) const {
    // std::function copies its target: keep the work in a shared pointer.
    const auto work = std::make_shared<std::decay_t<F>>(std::forward<F>(f));
    return submit_touching(
        label, touches,
        [work]() -> Status {
          if constexpr (std::is_void_v<std::invoke_result_t<std::decay_t<F>&>>) {
            (*work)();
            return {};
          } else {
            return (*work)();
          }
        },
        options);
  }
  /// Makes the device, not the caller, wait for `event`; see sched::TaskDevice::wait().
  Event wait(const Event& event) const noexcept { return told(timeline().wait(event)); }
  /// An event that is done once every task submitted before has ended.
  [[nodiscard]] Event record() const noexcept { return timeline().record(); }
  /// Blocks the caller until every task submitted before has ended. Throws Error with the device's
  /// failure, if the device failed.
  void await() const;
  [[nodiscard]] bool is_idle() const noexcept { return timeline().is_idle(); }
  /// After a failure: ends queued tasks as skipped and makes the device usable again; buffers stay.
  /// Throws Error inside a task of the device, and Error(unavailable) if the hardware runs nothing
  /// any more: a GPU after an illegal address, for example, until its backend is opened anew.
  void recover() const;
  /// Ends queued tasks as cancelled. A running routine whose kernel would run for long also ends as
  /// cancelled, within a second or so (heddle/kernel.h, stop); its output is then incomplete. Other
  /// running tasks finish.
  void cancel_pending() const noexcept { timeline().cancel_pending(); }
  /// Waits for the device's tasks, cancels those that take longer than `timeout` as
  /// cancel_pending() does, and refuses new work: submit(), await(), recover(), allocations, links,
  /// schedules and transfers are failed_precondition from here on (D13). Buffers and contexts keep
  /// their memory, for other devices to read; the merge buffer is freed. Idempotent. Throws
  /// Error(deadline) if a task did not end in time: the task is left running, as after
  /// sched::TaskDevice::shutdown().
  void finalize(std::chrono::nanoseconds timeout = std::chrono::seconds(60)) const;

  [[nodiscard]] DeviceStatistics statistics() const noexcept;
  /// Tensors with memory on this device, and up to a thousand that had some, in descending order of
  /// bytes in use. Hosted constants that are read in place use no memory.
  [[nodiscard]] std::vector<TensorMemory> memory() const;
  /// Returns memory kept for reuse (DeviceStatistics::bytes_cached) to the system; memory that
  /// tasks still use follows once they have ended.
  void trim() const noexcept;
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const Device& a, const Device& b) noexcept { return a.state_ == b.state_; }

 private:
  friend struct Inside;
  explicit Device(std::shared_ptr<rt::DeviceState> state) noexcept : state_(std::move(state)) {}
  /// Rewrites a refusal to say that the device was finalised, if it was.
  [[nodiscard]] Event told(Event event) const noexcept {
    return event.accepted() ? std::move(event) : refused(event);
  }
  [[nodiscard]] Event refused(const Event& event) const noexcept;
  Event submit_touching(sched::Label label, const Touches& touches, std::function<Status()> work,
                        const sched::SubmitOptions& options) const;

  std::shared_ptr<rt::DeviceState> state_;
};

/// A physical device: a core or a GPU. Any number of virtual devices may be opened on it.
class Hardware {
 public:
  Hardware(const Hardware&) = default;
  Hardware& operator=(const Hardware&) = default;
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  [[nodiscard]] std::string name() const;  ///< "gccjit:0"
  [[nodiscard]] Backend backend() const;   ///< the open instance that owns the device
  /// Throws failed_precondition after the backend was finalised, unavailable if no thread can be
  /// started.
  [[nodiscard]] Device new_virtual_device() const;
  friend bool operator==(const Hardware& a, const Hardware& b) noexcept {
    return a.backend_ == b.backend_ && a.ordinal_ == b.ordinal_;
  }

 private:
  friend struct Inside;
  Hardware(std::shared_ptr<rt::BackendState> backend, int ordinal) noexcept
      : backend_(std::move(backend)), ordinal_(ordinal) {}
  std::shared_ptr<rt::BackendState> backend_;
  int ordinal_;
};

/// Device memory: a shared handle; the memory is freed in timeline order after the last handle is
/// destroyed (D2). The memory has one owner at any time (D17).
class Buffer {
 public:
  Buffer(const Buffer&) = default;
  Buffer& operator=(const Buffer&) = default;
  /// A zero-filled buffer. The task of its first use writes the zeros; uses on other devices wait
  /// for the task. Throws exhausted naming the bytes, their bound and the largest holders, and
  /// invalid_argument on overflow. Does not wait: a freed buffer's memory is available to its own
  /// device at once. For other devices, or after uses by other devices, the memory is available
  /// only once every task that uses it has ended. If memory is tight, await() the devices
  /// concerned.
  [[nodiscard]] static Buffer allocate(const Device& device, const ArrayType& type);
  [[nodiscard]] std::size_t num_bytes() const noexcept;
  /// false once the memory was donated.
  [[nodiscard]] bool live() const noexcept;
  /// Moves the memory to a new handle. Accepted uses run normally, and uses of the new handle wait
  /// for them, on the device.
  ///
  /// If the last accepted use on a device ends badly (failed, skipped or cancelled), the first use
  /// of the new handle on every other device ends badly too, and so do uses accepted meanwhile; a
  /// use that overwrites the whole memory, and uses after it, run normally. When the new owner
  /// donates the memory in turn, the outcomes of its own uses are passed on, if it had any.
  ///
  /// After the call, the handle and its copies are dead: using the buffer through them, or through
  /// tensors and routines that contain them, is failed_precondition naming the tensor or type,
  /// `where` and its function. Nothing is copied or submitted: the consumer of a merge buffer that
  /// streams the memory (load_merge()) is refused until the next load. To preserve the streamed
  /// values, schedule the consumer before the call, or let a routine take the memory
  /// (LinkOptions::donate), which copies it first. Throws failed_precondition if the handle is dead
  /// already, and while another thread submits a run of a Replay that uses the buffer.
  [[nodiscard]] Buffer donate(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] std::string to_string() const;
  /// Compares identity: true for copies of one handle; a donated handle differs from its successor.
  friend bool operator==(const Buffer& a, const Buffer& b) noexcept { return a.state_ == b.state_; }

 private:
  friend struct Inside;
  explicit Buffer(std::shared_ptr<rt::BufferState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<rt::BufferState> state_;
};

/// An array in a buffer: offset and type.
class BufferView {
 public:
  /// Throws invalid_argument if the array does not fit at `offset` (in bytes; a multiple of the
  /// element size).
  BufferView(Buffer buffer, ArrayType type, std::size_t offset = 0);
  BufferView(const BufferView&) = default;
  BufferView& operator=(const BufferView&) = default;
  [[nodiscard]] const Buffer& buffer() const noexcept { return buffer_; }
  [[nodiscard]] const ArrayType& type() const noexcept { return type_; }
  [[nodiscard]] std::size_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::size_t num_bytes() const noexcept {
    return static_cast<std::size_t>(*type_.num_bytes());
  }

  /// Copies from or to host memory, on the timeline of `device`. The host memory must stay valid
  /// until the event is done; the caller orders other uses of the host memory. Byte counts must be
  /// equal, and the device must share the buffer's memory space (invalid_argument).
  Event from_host(const Device& device, std::span<const std::byte> host,
                  std::source_location where = std::source_location::current()) const;
  Event to_host(const Device& device, std::span<std::byte> host,
                std::source_location where = std::source_location::current()) const;
  /// Copies `source` into this view, on the timeline of `device`. The types must be equal; the
  /// views may be in any memory. Copies that no device queue can do by itself are staged through
  /// the host, in pieces; if memory for staging is lacking, the copy is refused as `exhausted`.
  /// Overlapping views are copied as if `source` were read completely first.
  Event copy_from(const Device& device, const BufferView& source,
                  std::source_location where = std::source_location::current()) const;
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  Buffer buffer_;
  ArrayType type_;
  std::size_t offset_;
};

/// The memory that host work uses: Device::submit().
struct Touches {
  std::vector<BufferView> reads{}, writes{};  ///< the work may also read written memory
  std::vector<HostArray> host_reads{}, host_writes{};
  std::optional<Sync> sync{};  ///< unset: the backend's default
};

}  // namespace heddle
#pragma GCC visibility pop
