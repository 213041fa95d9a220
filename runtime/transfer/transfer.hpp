// Transfers: tasks of a device that move bytes between places, or write the first values of new
// memory. Any thread.
#pragma once

#include <memory>
#include <string>

#include "heddle/routine.hpp"
#include "runtime/door/submit.hpp"

namespace heddle::rt {

/// Host memory of a transfer. `array` keeps a tensor's own storage alive; otherwise null.
struct HostMemory {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const HostArray> array{};
};
/// Moves a whole view from or to host memory of the same size, on the device's timeline. The host
/// memory is touched when the task runs. `tensor`: for messages; null: unknown.
Event submit_from_host(const DeviceState& device, const BufferView& view, HostMemory host,
                       const Tensor* tensor, const SubmitOptions& options = {});
Event submit_to_host(const DeviceState& device, const BufferView& view, HostMemory host,
                     const Tensor* tensor, const SubmitOptions& options = {});
/// Copies `from` to `to`, of the same size. With a tensor, counted as a copy of the device.
Event submit_copy(const DeviceState& device, const BufferView& from, const BufferView& to,
                  const Tensor* tensor, const SubmitOptions& options);

/// Writes the current values of a host array to memory not shared yet: in the call if the memory is
/// host memory, otherwise in a task of the device. Uses on other timelines wait for the task, and a
/// skipped or cancelled task still writes the values. `constant`: the array never changes, and may
/// be read later. `where`: the call site.
void submit_first_values(const DeviceState& device, const BufferView& view, const HostArray& host,
                         const Tensor& tensor, bool constant, const std::source_location& where);
/// Like allocate(), with zeros as the first values (D2).
[[nodiscard]] std::shared_ptr<BufferState> allocate_zeros(const DeviceState& device,
                                                          std::size_t bytes,
                                                          const std::string& what,
                                                          std::uint64_t tensor = 0);

}  // namespace heddle::rt
