// Transfers: tasks of a device that bring bytes from one place to another, or first values to new
// memory. Any thread.
#pragma once

#include <memory>
#include <string>

#include "heddle/routine.hpp"
#include "runtime/door/submit.hpp"

namespace heddle::rt {

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
