// Functions of the driver that heddle does not call, and that tests of the driver's rules need.
#pragma once

#include "devices/cuda_driver.hpp"

namespace heddle::cuda_standin {

/// A CUhostFn.
using HostFunction = void (*)(void* argument);

// As HEDDLE_CUDA_FUNCTIONS. Memory kinds, attributes and access are int in place of enumerations.
// clang-format off
#define CUDA_STANDIN_FURTHER_FUNCTIONS(each) \
  each(context_current, cuCtxGetCurrent, 4000, (dev::cuda::Context* context)) \
  each(event_synchronize, cuEventSynchronize, 2000, (dev::cuda::Event event)) \
  each(host_function, cuLaunchHostFunc, 10000, \
       (dev::cuda::Stream stream, HostFunction function, void* argument)) \
  each(pointer_attribute, cuPointerGetAttribute, 4000, \
       (void* value, int attribute, dev::cuda::Address data)) \
  each(pool_attribute, cuMemPoolGetAttribute, 11020, \
       (dev::cuda::Pool pool, int attribute, void* value)) \
  each(set_pool_attribute, cuMemPoolSetAttribute, 11020, \
       (dev::cuda::Pool pool, int attribute, void* value)) \
  each(pool_trim, cuMemPoolTrimTo, 11020, (dev::cuda::Pool pool, std::size_t bytes)) \
  each(pool_access_of, cuMemPoolGetAccess, 11020, \
       (int* access, dev::cuda::Pool pool, dev::cuda::Location* location))
// clang-format on

/// Results beyond those that heddle checks.
inline constexpr dev::cuda::Result invalid_value = 1, invalid_device = 101, invalid_context = 201,
                                   invalid_handle = 400, illegal_address = 700,
                                   misaligned_address = 716;
/// Attributes of devices: a CUdevice_attribute.
inline constexpr int threads_of_group = 1, threads_x = 2, threads_y = 3, threads_z = 4,
                     groups_x = 5, groups_y = 6, groups_z = 7, unified_addressing = 41;
/// Attributes of pools: a CUmemPool_attribute.
inline constexpr int release_threshold = 4, reserved_bytes = 5, used_bytes = 7;
/// Attributes of pointers: a CUpointer_attribute.
inline constexpr int memory_kind = 2, device_ordinal = 9;
/// Kinds of memory: a CUmemorytype.
inline constexpr int host_memory = 1, device_memory = 2;

}  // namespace heddle::cuda_standin
