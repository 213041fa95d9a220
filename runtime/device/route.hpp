// Routes of bytes between two places: one table for every transfer. A transfer is a task of a
// device. route() and plan_move(): any thread; Move::run(): in a task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "devices/device.hpp"
#include "heddle/tensor.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/queue/staging.hpp"
#include "runtime/queue/stream.hpp"

namespace heddle::rt {

/// Location of bytes: memory of a device or of the host. The user keeps the memory alive.
struct Place {
  std::shared_ptr<dev::PhysicalDevice> physical{};  ///< null: an array of the host
  std::byte* data = nullptr;
  std::shared_ptr<const std::string> device{};  ///< name of the memory's device

  [[nodiscard]] std::uint64_t space() const noexcept {
    return physical ? physical->properties().memory_space : dev::host_memory_space;
  }
  [[nodiscard]] bool is_in_host_memory() const noexcept {
    return space() == dev::host_memory_space;
  }
};
[[nodiscard]] Place place_of(const BufferView& view);

enum class Route : std::uint8_t {
  none,    ///< the same address, or no bytes
  fill,    ///< writes zeros; no source
  shared,  ///< one memory space: a queue of the space copies
  peer,    ///< two spaces: a queue of one reaches both
  pinned,  ///< between host memory and a device's: the device's queue copies directly
  staged,  ///< through staging memory of the host; each side by a queue that reaches it
};
/// Depends on the two devices, and, within one space, on overlap of the bytes.
[[nodiscard]] Route route(const Place& from, const Place& to, std::size_t bytes) noexcept;

/// A queue that reaches the memory of `place`: the queue of `by`, if possible. Throws `exhausted`,
/// or the error of the device that fails to make a queue.
[[nodiscard]] std::shared_ptr<Stream> queue_for(Execution& by, const Place& place);

/// A transfer, with the route and resources chosen at submission.
struct Move {
  Route route = Route::none;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<Stream> own{};     ///< queue of the device whose task runs the move
  std::shared_ptr<Stream> reader{};  ///< copies to host memory; null: unused
  std::shared_ptr<Stream> writer{};  ///< copies to the destination; null: `reader` does
  std::shared_ptr<const StagingMemory> staging{};

  /// Called in a task of the device passed to plan_move(). The bytes have arrived when the work
  /// issued to `own` is done.
  [[nodiscard]] Status run() const noexcept;

 private:
  [[nodiscard]] Status ask(dev::Queue& queue) const noexcept;
  [[nodiscard]] Status stage() const noexcept;
};

/// Plans a move for a task of `by`. Throws `exhausted` if the host lacks memory for staging, or the
/// error of the device that fails to make a queue, naming `what`, the tensor if known, and both
/// sides.
[[nodiscard]] Move plan_move(Execution& by, const Place& from, const Place& to, std::size_t bytes,
                             std::string_view what, const Tensor* tensor = nullptr);

/// Called when a task that should have written a buffer's initial values was skipped. Waits for the
/// copy and logs a failure, which no event carries.
void log_missing(Execution& execution, Status status) noexcept;

}  // namespace heddle::rt
