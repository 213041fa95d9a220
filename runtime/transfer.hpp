// How bytes get from one place to another: one table of routes for all transfers, which are tasks
// of a device each.
#pragma once

#include <memory>
#include <string>

#include "devices/device.hpp"
#include "heddle/routine.hpp"
#include "runtime/staging.hpp"
#include "runtime/submit.hpp"

namespace heddle::rt {

/// Where bytes lie: in the memory of a device, or the host's. Its user keeps the memory.
struct Place {
  std::shared_ptr<dev::PhysicalDevice> physical{};  ///< null: an array of the host
  std::byte* data = nullptr;
  std::shared_ptr<const std::string> device{};  ///< whose memory it is, by name

  [[nodiscard]] std::uint64_t space() const noexcept {
    return physical ? physical->properties().memory_space : dev::host_memory_space;
  }
};
[[nodiscard]] Place place_of(const BufferView& view);
/// Whether a byte is in both.
[[nodiscard]] bool overlap(const BufferView& a, const BufferView& b) noexcept;

enum class Route : std::uint8_t {
  none,    ///< the same bytes, or no bytes
  fill,    ///< zeros, from nowhere
  shared,  ///< one memory space: a queue that reaches it copies
  peer,    ///< two spaces, and a queue of one reaches both
  pinned,  ///< between the host's memory and a device's, whose queue takes that as it is
  staged,  ///< through host memory of the runtime's: each side by a queue that reaches it
};
/// Decided by the two devices and, where they are one, by whether the bytes overlap.
[[nodiscard]] Route route(const Place& from, const Place& to, std::size_t bytes) noexcept;

/// A queue that reaches a device's memory: the own one of `by` where that does. Throws `exhausted`,
/// or what the device says that makes no queue.
[[nodiscard]] std::shared_ptr<Stream> queue_for(Execution& by, const Place& place);

/// A transfer with all that it takes, decided and taken when it is submitted.
struct Move {
  Route route = Route::none;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<Stream> own{};     ///< that of the device that it was made for
  std::shared_ptr<Stream> reader{};  ///< brings bytes to the host's memory; null: does not
  std::shared_ptr<Stream> writer{};  ///< brings them where they go; null: `reader` does
  std::shared_ptr<const StagingMemory> staging{};

  /// In a task of the device that it was made for. The bytes are there when what was asked of its
  /// own queue is done.
  [[nodiscard]] Status run() const noexcept;

 private:
  [[nodiscard]] Status ask(dev::Queue& queue) const noexcept;
  [[nodiscard]] Status stage() const noexcept;
};

/// A move in a task of `by`. Throws `exhausted` where the host has no memory to stage it, or what
/// the device says that makes no queue, naming `what`, the tensor if one is known, and both sides.
[[nodiscard]] Move plan_move(Execution& by, const Place& from, const Place& to, std::size_t bytes,
                             std::string_view what, const Tensor* tensor = nullptr);

/// First values that were asked for in the place of a task that was not to run: waits for them. So
/// it went, which nobody else is told of.
void log_missing(Execution& execution, Status status) noexcept;

/// Host memory of a transfer; `array` keeps it when it is a tensor's own.
struct HostMemory {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const HostArray> array{};
};
/// On the device's timeline: all of the view from or to host memory of as many bytes, touched when
/// the task runs. `tensor`: for messages; null where none is known.
Event submit_from_host(const DeviceState& device, const BufferView& view, HostMemory host,
                       const Tensor* tensor, const SubmitOptions& options = {});
Event submit_to_host(const DeviceState& device, const BufferView& view, HostMemory host,
                     const Tensor* tensor, const SubmitOptions& options = {});
/// All of `from` into `to`, which is as large. A tensor's are counted as copies of the device.
Event submit_copy(const DeviceState& device, const BufferView& from, const BufferView& to,
                  const Tensor* tensor, const SubmitOptions& options);

/// A copy between contexts.
struct CopyPlan {
  std::shared_ptr<const BufferView> from, to;
  std::string nothing{};  ///< why there is nothing to do; else empty
};
/// Throws not_found where the source lacks it, failed_precondition where the destination's memory
/// must not be written, or its device was finalised.
[[nodiscard]] CopyPlan plan_copy(const Tensor& tensor, const Context& source,
                                 const Context& destination);

/// What a context gives: its view of the tensor. Throws not_found, naming tensor and context.
[[nodiscard]] std::shared_ptr<const BufferView> require_source(const Tensor& tensor,
                                                               const Context& source,
                                                               std::string_view what);

/// Gives memory that nobody knows yet the values of a host array as they are now: at once where it
/// is the host's, else in a task of the device. Then uses on other timelines come after that, and a
/// task that is skipped or cancelled puts them there all the same. `constant`: nobody changes the
/// array, so it can be read later. Asked for at `where`.
void submit_first_values(const DeviceState& device, const BufferView& view, const HostArray& host,
                         const Tensor& tensor, bool constant, const std::source_location& where);
/// As allocate(); it begins with zeros (D2).
[[nodiscard]] std::shared_ptr<BufferState> allocate_zeros(const DeviceState& device,
                                                          std::size_t bytes,
                                                          const std::string& what,
                                                          std::uint64_t tensor = 0);

}  // namespace heddle::rt
