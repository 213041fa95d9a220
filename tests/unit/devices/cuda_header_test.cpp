// What heddle declares of the CUDA driver, compared with cuda.h while this compiles.
#include "devices/cuda_driver.hpp"
// After what declares names of its own: it makes macros of many.
#include <cuda.h>

#include <cstddef>
#include <type_traits>

namespace heddle::dev::cuda {
namespace {

/// Whether a function that takes one can be given the other: numbers of the same size, or both
/// pointers.
template <class Ours, class Theirs>
constexpr bool passed_alike() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else {
    return sizeof(Ours) == sizeof(Theirs) && std::is_class_v<Ours> == std::is_class_v<Theirs>;
  }
}

template <class... Ours, class... Theirs>
constexpr bool called_alike(Result (*)(Ours...), CUresult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return (passed_alike<Ours, Theirs>() && ...);
  }
}

#define HEDDLE_CUDA_COMPARE(name, symbol, since, parameters)                 \
  static_assert(called_alike(decltype(Driver::name){}, decltype(&symbol){}), \
                #symbol " takes other parameters");                          \
  static_assert(since <= driver_version_min, #symbol " is newer than the oldest driver");
HEDDLE_CUDA_FUNCTIONS(HEDDLE_CUDA_COMPARE)

static_assert(sizeof(Result) == sizeof(CUresult) && sizeof(Address) == sizeof(CUdeviceptr));
static_assert(success == CUDA_SUCCESS && out_of_memory == CUDA_ERROR_OUT_OF_MEMORY &&
              no_device == CUDA_ERROR_NO_DEVICE && invalid_image == CUDA_ERROR_INVALID_IMAGE &&
              no_binary_for_gpu == CUDA_ERROR_NO_BINARY_FOR_GPU &&
              unsupported_ptx_version == CUDA_ERROR_UNSUPPORTED_PTX_VERSION &&
              not_found == CUDA_ERROR_NOT_FOUND && not_ready == CUDA_ERROR_NOT_READY);
static_assert(multiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              copy_engines == CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT &&
              capability_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              capability_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR &&
              memory_pools_supported == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
static_assert(stream_non_blocking == CU_STREAM_NON_BLOCKING &&
              event_without_time == CU_EVENT_DISABLE_TIMING &&
              host_memory_portable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(sizeof(PoolProperties) == sizeof(CUmemPoolProps) &&
              offsetof(PoolProperties, location) == offsetof(CUmemPoolProps, location) &&
              offsetof(PoolProperties, bytes_max) == offsetof(CUmemPoolProps, maxSize) &&
              offsetof(PoolProperties, usage) == offsetof(CUmemPoolProps, usage));
static_assert(sizeof(PoolAccess) == sizeof(CUmemAccessDesc) &&
              offsetof(PoolAccess, flags) == offsetof(CUmemAccessDesc, flags) &&
              PoolAccess{}.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(sizeof(Location) == sizeof(CUmemLocation) &&
              Location{}.type == CU_MEM_LOCATION_TYPE_DEVICE &&
              PoolProperties{}.allocation_type == CU_MEM_ALLOCATION_TYPE_PINNED);

}  // namespace
}  // namespace heddle::dev::cuda
