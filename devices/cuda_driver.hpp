// NVIDIA's driver API as heddle uses it: functions declared here and found at run time, so that
// heddle builds and starts without CUDA. tests/unit/devices/cuda_header_test.cpp compares the
// declarations with cuda.h where that header exists. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "heddle/status.hpp"

namespace heddle::dev::cuda {

/// A CUresult.
using Result = int;
/// The results that heddle checks; the driver names the rest.
inline constexpr Result success = 0, out_of_memory = 2, no_device = 100, invalid_image = 200,
                        no_binary_for_gpu = 209, unsupported_ptx_version = 222, not_found = 500,
                        not_ready = 600;

/// A CUdevice: the GPU's ordinal.
using Ordinal = int;
/// A CUdeviceptr.
using Address = std::uint64_t;
struct ContextTag;
struct StreamTag;
struct EventTag;
struct PoolTag;
struct ModuleTag;
struct FunctionTag;
using Context = ContextTag*;
using Stream = StreamTag*;
using Event = EventTag*;
using Pool = PoolTag*;
using DriverModule = ModuleTag*;
using Function = FunctionTag*;

/// A CUmemLocation.
struct Location {
  int type = 1;  ///< CU_MEM_LOCATION_TYPE_DEVICE
  int id = 0;
};
/// A CUmemPoolProps.
struct PoolProperties {
  int allocation_type = 1;  ///< CU_MEM_ALLOCATION_TYPE_PINNED
  int handle_types = 0;
  Location location{};
  void* security_attributes = nullptr;
  std::size_t bytes_max = 0;
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};
/// A CUmemAccessDesc.
struct PoolAccess {
  Location location{};
  int flags = 3;  ///< CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};

/// CUdevice_attribute
inline constexpr int multiprocessors = 16, copy_engines = 40, capability_major = 75,
                     capability_minor = 76, memory_pools_supported = 115;
/// Flags of cuStreamCreate(), cuEventCreate(), cuMemHostAlloc()
inline constexpr unsigned stream_non_blocking = 1, event_without_time = 2, host_memory_portable = 1;
/// In cuLaunchKernel()'s `extra`.
inline void* const launch_end = nullptr;
inline void* const launch_buffer = reinterpret_cast<void*>(1);
inline void* const launch_buffer_bytes = reinterpret_cast<void*>(2);

/// The oldest supported driver, in the numbering of cuDriverGetVersion(): the first of CUDA 12.
inline constexpr int driver_version_min = 12000;

/// Each entry: heddle's name, the driver's name, the CUDA version that introduced the function, and
/// the parameters. If a later CUDA version changed the parameters, heddle still requests the form
/// of driver_version_min.
// clang-format off
#define HEDDLE_CUDA_FUNCTIONS(each) \
  each(init, cuInit, 2000, (unsigned flags)) \
  each(error_name, cuGetErrorName, 6000, (Result of, const char** name)) \
  each(error_text, cuGetErrorString, 6000, (Result of, const char** text)) \
  each(device_count, cuDeviceGetCount, 2000, (int* count)) \
  each(device_get, cuDeviceGet, 2000, (Ordinal* device, int ordinal)) \
  each(device_name, cuDeviceGetName, 2000, (char* name, int bytes, Ordinal device)) \
  each(device_bytes, cuDeviceTotalMem, 3020, (std::size_t* bytes, Ordinal device)) \
  each(device_attribute, cuDeviceGetAttribute, 2000, (int* value, int attribute, Ordinal device)) \
  each(device_reaches, cuDeviceCanAccessPeer, 4000, (int* can, Ordinal device, Ordinal peer)) \
  each(context_retain, cuDevicePrimaryCtxRetain, 7000, (Context* context, Ordinal device)) \
  each(context_release, cuDevicePrimaryCtxRelease, 11000, (Ordinal device)) \
  each(context_push, cuCtxPushCurrent, 4000, (Context context)) \
  each(context_pop, cuCtxPopCurrent, 4000, (Context* context)) \
  each(stream_create, cuStreamCreate, 2000, (Stream* stream, unsigned flags)) \
  each(stream_destroy, cuStreamDestroy, 4000, (Stream stream)) \
  each(stream_synchronize, cuStreamSynchronize, 2000, (Stream stream)) \
  each(stream_wait, cuStreamWaitEvent, 3020, (Stream stream, Event event, unsigned flags)) \
  each(event_create, cuEventCreate, 2000, (Event* event, unsigned flags)) \
  each(event_destroy, cuEventDestroy, 4000, (Event event)) \
  each(event_record, cuEventRecord, 2000, (Event event, Stream stream)) \
  each(event_query, cuEventQuery, 2000, (Event event)) \
  each(pool_create, cuMemPoolCreate, 11020, (Pool* pool, const PoolProperties* properties)) \
  each(pool_destroy, cuMemPoolDestroy, 11020, (Pool pool)) \
  each(pool_access, cuMemPoolSetAccess, 11020, \
       (Pool pool, const PoolAccess* access, std::size_t count)) \
  each(allocate, cuMemAllocFromPoolAsync, 11020, \
       (Address* data, std::size_t bytes, Pool pool, Stream stream)) \
  each(release, cuMemFreeAsync, 11020, (Address data, Stream stream)) \
  each(host_allocate, cuMemHostAlloc, 2020, (void** data, std::size_t bytes, unsigned flags)) \
  each(host_release, cuMemFreeHost, 2000, (void* data)) \
  each(copy, cuMemcpyAsync, 4000, (Address to, Address from, std::size_t bytes, Stream stream)) \
  each(fill, cuMemsetD8Async, 3020, \
       (Address data, unsigned char value, std::size_t bytes, Stream stream)) \
  each(module_load, cuModuleLoadDataEx, 2010, \
       (DriverModule* module, const void* image, unsigned count, int* options, void** values)) \
  each(module_unload, cuModuleUnload, 2000, (DriverModule module)) \
  each(module_function, cuModuleGetFunction, 2000, \
       (Function* function, DriverModule module, const char* name)) \
  each(launch, cuLaunchKernel, 4000, \
       (Function function, unsigned groups_x, unsigned groups_y, unsigned groups_z, unsigned \
        threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes, Stream stream, \
        void** parameters, void** extra))
// clang-format on

/// A loaded driver. Never unloaded, because a driver has its own threads.
struct Driver {
#define HEDDLE_CUDA_MEMBER(name, symbol, since, parameters) Result(*name) parameters = nullptr;
  HEDDLE_CUDA_FUNCTIONS(HEDDLE_CUDA_MEMBER)
#undef HEDDLE_CUDA_MEMBER

  std::string file;
  int version = 0;  ///< in the numbering of cuDriverGetVersion(): 12040 is CUDA 12.4
  int devices = 0;  ///< number of GPUs, at least 1

  /// ok for success; otherwise exhausted for out_of_memory, and device_failed for other results.
  /// The message names `what`, the action of heddle, and `function`, which returned `result`.
  [[nodiscard]] Status status(Result result, const char* function,
                              const std::string& what) const noexcept;
};

/// The driver in `file` ("" for the system's, libcuda.so.1), initialised. Null on failure, with
/// `unavailable` in `why`: there is no driver, or the driver is older than driver_version_min,
/// lacks a function, fails to start, or finds no GPU. Later calls for the same file return the same
/// driver. Must not be called in a forked child of a process that has opened the driver.
[[nodiscard]] std::shared_ptr<const Driver> open_driver(const std::string& file, Status* why);

/// "12.4" of 12040
[[nodiscard]] std::string version_text(int version);

}  // namespace heddle::dev::cuda
