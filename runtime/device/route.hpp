// How bytes get from one place to another: one table of routes for all transfers, which are tasks
// of a device each.
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

/// Where bytes lie: in the memory of a device, or the host's. Its user keeps the memory.
struct Place {
  std::shared_ptr<dev::PhysicalDevice> physical{};  ///< null: an array of the host
  std::byte* data = nullptr;
  std::shared_ptr<const std::string> device{};  ///< whose memory it is, by name

  [[nodiscard]] std::uint64_t space() const noexcept {
    return physical ? physical->properties().memory_space : dev::host_memory_space;
  }
  [[nodiscard]] bool is_in_host_memory() const noexcept {
    return space() == dev::host_memory_space;
  }
};
[[nodiscard]] Place place_of(const BufferView& view);

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

}  // namespace heddle::rt
