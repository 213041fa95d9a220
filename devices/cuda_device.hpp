// NVIDIA GPUs as heddle's devices: a virtual device is a stream, each GPU's memory is a separate
// memory space, and one thread per GPU reports ends. Any thread.
//
// A kernel is launched with words of 8 bytes: the address of each buffer's data, in the order of
// its signature; the values of the static indices; the address of a heddle_kernel_status; the
// address of a uint32_t that is not 0 once the kernel may return early.
#pragma once

#include <memory>
#include <string>

#include "devices/cuda_driver.hpp"
#include "devices/device.hpp"

namespace heddle::dev {

/// GPU `ordinal` of the driver. Null on failure, with the error in `why`: invalid_argument if there
/// is no such GPU, unavailable if the GPU has no memory pools, device_failed or exhausted with the
/// driver's message. `check_each`: the GPU runs one kernel at a time, launch() waits for its end,
/// and an error that ends the GPU names the kernel that caused it.
[[nodiscard]] std::shared_ptr<PhysicalDevice> make_cuda_device(
    std::shared_ptr<const cuda::Driver> driver, int ordinal, Status* why, bool check_each = false);

/// The compute capability of a GPU of the driver: 90 for 9.0; 0 if the driver does not report one.
[[nodiscard]] int cuda_capability(const cuda::Driver& driver, int ordinal) noexcept;

}  // namespace heddle::dev
