// Physical and virtual devices of a backend, and buffers in their memory. All are shared handles;
// moving one copies it, so that none is ever empty. Any thread may use them.
#pragma once

#include <chrono>
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

/// Who sees to the order between uses of one memory on different devices.
enum class Sync : std::uint8_t {
  /// heddle: each use comes after those before it that it reads, or would disturb.
  automatic,
  /// The caller, by events: but for uses of a donor, which come first all the same. What a task
  /// that failed, was skipped or was cancelled has not written is read as it lies there, without a
  /// word; automatic order refuses that (D9).
  manual,
  /// As manual; and what order the caller left out is told: BackendOptions::on_missing_order. Slow.
  /// An
  /// order is given by `after`, by Device::wait(), and by what the host waited for, polled and
  /// found done, or was called back for, on whichever thread, before it submits. Inside a task only
  /// what comes after the task knows of that. What is told depends on what was submitted and
  /// awaited, never on when it ended: but for polls and callbacks, and for threads of the host that
  /// submit at once.
  check,
};
[[nodiscard]] std::string_view name(Sync sync) noexcept;

class Backend;   // heddle/backend.hpp
class Hardware;  // below
struct Touches;  // below

/// Bytes of device memory, and how transfers went, since the device was opened.
struct DeviceStatistics {
  std::uint64_t bytes_in_use = 0;  ///< of buffers that somebody has, as asked for
  std::uint64_t bytes_peak = 0;    ///< the most of these
  /// Rounded up, of buffers that are gone: kept for reuse, by the device's own tasks at once, by
  /// other devices of the backend and the memory space once all that used them has ended. Given
  /// back by trim(), and where heddle itself gets short of memory. That others in the process, or
  /// on the machine, do is not noticed.
  std::uint64_t bytes_cached = 0;
  std::uint64_t launches = 0;
  std::uint64_t copies = 0;           ///< device-to-device copies, those of merges left out
  std::uint64_t merges_copied = 0;    ///< merges whose source was copied
  std::uint64_t merges_streamed = 0;  ///< merges that read the source in place
  std::uint64_t parts = 0;            ///< of kernels that ran in several (BackendOptions::width)
};

/// Memory of one tensor on a device, or of buffers without a tensor.
struct TensorMemory {
  std::string label{};  ///< "tensor 'x' f32[4]"
  std::uint64_t bytes_in_use = 0;
  std::uint64_t bytes_peak = 0;
};

/// A virtual device: one in-order timeline of tasks on a physical device, with memory and a merge
/// buffer. The last handle lets accepted tasks end, then closes it; buffers survive.
class Device {
 public:
  Device(const Device&) = default;
  Device& operator=(const Device&) = default;

  [[nodiscard]] const std::string& name() const noexcept;  ///< "gccjit:0.1"
  [[nodiscard]] int ordinal() const noexcept;              ///< the number of the physical device
  [[nodiscard]] int subordinal() const noexcept;  ///< the number among that one's virtual devices
  [[nodiscard]] Backend backend() const;          ///< the open instance that it is of
  [[nodiscard]] Hardware physical_device() const;

  /// What runs its tasks: for all that only the scheduler's devices have, such as await_for().
  [[nodiscard]] const sched::TaskDevice& timeline() const noexcept;
  /// Host work in the order of the device's tasks; see sched::TaskDevice::submit().
  template <class F>
  Event submit(sched::Label label, F&& f, const sched::SubmitOptions& options = {}) const {
    return told(timeline().submit(label, std::forward<F>(f), options));
  }
  /// Host work that says which memory it touches, and so is ordered with other uses of that, as
  /// Sync says; and else as above. Throws Error where it is refused, as transfers are.
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  Event submit(sched::Label label, const Touches& touches, F&& f,
               const sched::SubmitOptions& options = {}) const {
    // Shared: std::function copies what it holds.
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
  /// The device waits for `event`, not the caller; see sched::TaskDevice::wait().
  Event wait(const Event& event) const noexcept { return told(timeline().wait(event)); }
  /// An event that is done once all that was submitted before has ended.
  [[nodiscard]] Event record() const noexcept { return timeline().record(); }
  /// Blocks the caller until all that was submitted before has ended. Throws Error with the
  /// device's failure, if it failed.
  void await() const;
  [[nodiscard]] bool is_idle() const noexcept { return timeline().is_idle(); }
  /// After a failure: ends what is queued as skipped, and the device works again; buffers stay.
  /// Throws Error inside one of its tasks.
  void recover() const;
  /// Ends queued tasks as cancelled. A routine that is running ends so too, within a second or so,
  /// where its kernel would go on for longer (heddle/kernel.h, stop): what it writes is incomplete
  /// then. Others run to their end.
  void cancel_pending() const noexcept { timeline().cancel_pending(); }
  /// Ends its tasks, those that take longer than `timeout` as cancel_pending() does, and takes no
  /// more: submit(), await(), recover(), allocations, links, schedules and transfers are
  /// failed_precondition from here on (D13). Buffers and contexts keep their memory, which other
  /// devices may go on to read; the merge buffer goes. Idempotent. Throws Error(deadline) when a
  /// task did not end in time: it is left to end by itself, as after sched::TaskDevice::shutdown().
  void finalize(std::chrono::nanoseconds timeout = std::chrono::seconds(60)) const;

  [[nodiscard]] DeviceStatistics statistics() const noexcept;
  /// The tensors that have memory on this device, and a thousand of those that had, most in use
  /// first. Hosted constants that are read in place take none.
  [[nodiscard]] std::vector<TensorMemory> memory() const;
  /// Gives what it keeps for reuse back to the system (DeviceStatistics::bytes_cached), where tasks
  /// use some of that yet, once they have ended.
  void trim() const noexcept;
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const Device& a, const Device& b) noexcept { return a.state_ == b.state_; }

 private:
  friend struct Inside;
  explicit Device(std::shared_ptr<rt::DeviceState> state) noexcept : state_(std::move(state)) {}
  /// A refusal says that it was finalised, where that is why.
  [[nodiscard]] Event told(Event event) const noexcept {
    return event.accepted() ? std::move(event) : refused(event);
  }
  [[nodiscard]] Event refused(const Event& event) const noexcept;
  Event submit_touching(sched::Label label, const Touches& touches, std::function<Status()> work,
                        const sched::SubmitOptions& options) const;

  std::shared_ptr<rt::DeviceState> state_;
};

/// A physical device: a core or a GPU. It has as many virtual ones as are opened.
class Hardware {
 public:
  Hardware(const Hardware&) = default;
  Hardware& operator=(const Hardware&) = default;
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  [[nodiscard]] std::string name() const;  ///< "gccjit:0"
  [[nodiscard]] Backend backend() const;   ///< the open instance that it is of
  /// Throws failed_precondition after the backend was finalised, unavailable when no thread can be
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

/// Device memory: a shared handle, freed in timeline order when the last handle is gone (D2). It
/// has one owner at any time (D17).
class Buffer {
 public:
  Buffer(const Buffer&) = default;
  Buffer& operator=(const Buffer&) = default;
  /// Zeros, which the task of its first use begins with; later ones on other devices come after
  /// that. Throws exhausted naming the bytes, their bound and the largest holders, and
  /// invalid_argument on overflow. It waits for nothing: the memory of a buffer that is gone is
  /// free for its own device at once, for others, and where other devices used it, once all tasks
  /// that use it have ended: await() these devices where memory is tight.
  [[nodiscard]] static Buffer allocate(const Device& device, const ArrayType& type);
  [[nodiscard]] std::size_t num_bytes() const noexcept;
  /// false once its memory was donated.
  [[nodiscard]] bool live() const noexcept;
  /// Gives the memory up to a new handle. What was accepted before runs normally, and uses of the
  /// new handle come after it, on the device side. When the last of it on a device ended badly, so
  /// does the first use of the new handle on each other device, and what is accepted meanwhile; but
  /// not what overwrites the memory whole, nor what comes after that. How its own uses ended is
  /// what a new owner hands on, once it had one. This handle and its copies are dead from here on:
  /// using them, and tensors and routines in them, is failed_precondition naming tensor or type,
  /// `where` and its function. Nothing is copied, nor submitted: a consumer of a merge buffer that
  /// streams the memory (load_merge()) is refused, too, until the next load. One that is to find
  /// the values is scheduled before; or the memory is taken by a routine (LinkOptions::donate),
  /// which comes after a copy. Throws failed_precondition where it is dead already, and while
  /// another thread submits a run of a Replay that uses it.
  [[nodiscard]] Buffer donate(std::source_location where = std::source_location::current()) const;
  [[nodiscard]] std::string to_string() const;
  /// Whether they are copies of one handle: a donated one is not what it became.
  friend bool operator==(const Buffer& a, const Buffer& b) noexcept { return a.state_ == b.state_; }

 private:
  friend struct Inside;
  explicit Buffer(std::shared_ptr<rt::BufferState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<rt::BufferState> state_;
};

/// An array in a buffer: offset and type.
class BufferView {
 public:
  /// Throws invalid_argument when the array does not fit at `offset` (bytes; a multiple of the
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

  /// On `device`'s timeline: copies from or to host memory, which must stay valid until the event
  /// is done, and whose order with other uses is the caller's. The byte counts must be equal and
  /// the device must share the buffer's memory space (invalid_argument).
  Event from_host(const Device& device, std::span<const std::byte> host,
                  std::source_location where = std::source_location::current()) const;
  Event to_host(const Device& device, std::span<std::byte> host,
                std::source_location where = std::source_location::current()) const;
  /// On `device`'s timeline: copies all of `source` into this view. The types must be equal; each
  /// view may be in any memory. What no queue of a device copies by itself is staged through the
  /// host, in pieces; without memory for that the copy is refused as `exhausted`. Overlapping views
  /// are copied as if `source` was read whole before.
  Event copy_from(const Device& device, const BufferView& source,
                  std::source_location where = std::source_location::current()) const;
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  Buffer buffer_;
  ArrayType type_;
  std::size_t offset_;
};

/// Memory that host work touches: Device::submit().
struct Touches {
  std::vector<BufferView> reads{}, writes{};  ///< what it writes it may read, too
  std::vector<HostArray> host_reads{}, host_writes{};
  std::optional<Sync> sync{};  ///< unset: as the backend says
};

}  // namespace heddle
#pragma GCC visibility pop
