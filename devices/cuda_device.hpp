// GPUs of NVIDIA as heddle's devices: a virtual device is a stream, a GPU's memory a space of its
// own, and one thread for each GPU says what ended. Any thread.
//
// A kernel is launched with words of 8 bytes: the address of each buffer's data, in the order of
// its signature; the values of the static indices; the address of a heddle_kernel_status; the
// address of a uint32_t that is not 0 once it may return early.
#pragma once

#include <memory>
#include <string>

#include "devices/cuda_driver.hpp"
#include "devices/device.hpp"

namespace heddle::dev {

/// GPU `ordinal` of the driver's; null with `why`: invalid_argument where there is no such GPU,
/// device_failed or exhausted with what the driver said.
[[nodiscard]] std::shared_ptr<PhysicalDevice> make_cuda_device(
    std::shared_ptr<const cuda::Driver> driver, int ordinal, Status* why);

/// The compute capability of a GPU that the driver has: 90 for 9.0; 0 where it does not say.
[[nodiscard]] int cuda_capability(const cuda::Driver& driver, int ordinal) noexcept;

}  // namespace heddle::dev
