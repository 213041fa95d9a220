// The driver's functions. See standin.hpp.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_standin/machine.hpp"

namespace heddle::cuda_standin {

#define ENTER(function, ...)                                                                  \
  const std::lock_guard lock(mutex);                                                          \
  if (const Result entered = enter(#function __VA_OPT__(, ) __VA_ARGS__); entered != success) \
    return entered;

Result cuInit(unsigned /*flags*/) {
  ENTER(cuInit, false)
  return look.init_result;
}
Result cuGetErrorName(Result of, const char** name) {
  switch (of) {
    case out_of_memory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return success;
    case illegal_address:
      *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
      return success;
    case invalid_context:
      *name = "CUDA_ERROR_INVALID_CONTEXT";
      return success;
    case launch_failed:
      *name = "CUDA_ERROR_LAUNCH_FAILED";
      return success;
    case invalid_image:
      *name = "CUDA_ERROR_INVALID_IMAGE";
      return success;
    case not_found:
      *name = "CUDA_ERROR_NOT_FOUND";
      return success;
    default:
      return invalid_value;
  }
}
Result cuGetErrorString(Result of, const char** text) {
  if (of != illegal_address) return invalid_value;
  *text = "an illegal memory access was encountered";
  return success;
}
Result cuDeviceGetCount(int* count) {
  ENTER(cuDeviceGetCount, false)
  *count = look.devices;
  return success;
}
Result cuDeviceGet(Ordinal* device, int ordinal) {
  ENTER(cuDeviceGet, false)
  *device = ordinal;
  return success;
}
Result cuDeviceGetName(char* name, int bytes, Ordinal /*device*/) {
  std::strncpy(name, "Stand-in", static_cast<std::size_t>(bytes));
  return success;
}
Result cuDeviceTotalMem(std::size_t* bytes, Ordinal /*device*/) {
  ENTER(cuDeviceTotalMem, false)
  *bytes = device_bytes;
  return success;
}
Result cuDeviceGetAttribute(int* value, int attribute, Ordinal /*device*/) {
  ENTER(cuDeviceGetAttribute, false)
  *value = attribute == multiprocessors          ? 8
           : attribute == copy_engines           ? 2
           : attribute == capability_major       ? 9
           : attribute == memory_pools_supported ? int{look.pools}
                                                 : 0;
  return success;
}
Result cuDeviceCanAccessPeer(int* can, Ordinal /*device*/, Ordinal /*peer*/) {
  ENTER(cuDeviceCanAccessPeer, false)
  *can = 1;
  return success;
}
Result cuDevicePrimaryCtxRetain(Context* context, Ordinal device) {
  ENTER(cuDevicePrimaryCtxRetain, false)
  *context = reinterpret_cast<Context>(static_cast<std::uintptr_t>(device + 1));
  ++handles;
  return success;
}
Result cuDevicePrimaryCtxRelease(Ordinal /*device*/) {
  ENTER(cuDevicePrimaryCtxRelease, false)
  --handles;
  return success;
}
Result cuCtxPushCurrent(Context context) {
  const std::lock_guard lock(mutex);
  contexts().push_back(context);
  return success;
}
Result cuCtxPopCurrent(Context* context) {
  const std::lock_guard lock(mutex);
  if (contexts().empty()) return invalid_context;
  *context = contexts().back();
  contexts().pop_back();
  return success;
}
Result cuStreamCreate(Stream* stream, unsigned /*flags*/) {
  ENTER(cuStreamCreate)
  *stream = streams.emplace_back(new StreamTag(current_device()));
  ++handles;
  return success;
}
Result cuStreamDestroy(Stream stream) {
  {
    const std::lock_guard lock(mutex);
    std::erase(streams, stream);
    --handles;
  }
  delete stream;  // its thread takes the lock
  return success;
}
Result cuStreamSynchronize(Stream stream) {
  std::unique_lock lock(mutex);
  if (const Result entered = enter("cuStreamSynchronize"); entered != success) return entered;
  changed.wait(lock, [&] { return stream->asked.empty(); });
  const auto at = broken.find(stream->device);
  return at == broken.end() ? success : at->second;
}
Result cuStreamWaitEvent(Stream stream, Event event, unsigned /*flags*/) {
  ENTER(cuStreamWaitEvent)
  return ask(stream, [reached = event->reached, wanted = event->reached->recorded,
                      device = stream->device] {
    std::unique_lock waiting(mutex);
    changed.wait(waiting, [&] { return reached->passed >= wanted || broken.contains(device); });
    return success;
  });
}
Result cuEventCreate(Event* event, unsigned /*flags*/) {
  ENTER(cuEventCreate)
  *event = new EventTag;
  ++handles;
  return success;
}
Result cuEventDestroy(Event event) {
  const std::lock_guard lock(mutex);
  delete event;
  --handles;
  return success;
}
Result cuEventRecord(Event event, Stream stream) {
  ENTER(cuEventRecord)
  return ask(stream, [reached = event->reached, number = ++event->reached->recorded] {
    const std::lock_guard passing(mutex);
    reached->passed = std::max(reached->passed, number);
    return success;
  });
}
Result cuEventQuery(Event event) {
  ENTER(cuEventQuery)
  return event->reached->passed >= event->reached->recorded ? success : not_ready;
}
Result cuMemPoolCreate(Pool* pool, const PoolProperties* properties) {
  ENTER(cuMemPoolCreate)
  *pool = new PoolTag{properties->location.id};
  ++handles;
  return success;
}
Result cuMemPoolDestroy(Pool pool) {
  const std::lock_guard lock(mutex);
  delete pool;
  --handles;
  return success;
}
Result cuMemPoolSetAccess(Pool /*pool*/, const PoolAccess* /*access*/, std::size_t /*count*/) {
  ENTER(cuMemPoolSetAccess)
  return success;
}
Result cuMemAllocFromPoolAsync(Address* data, std::size_t bytes, Pool pool, Stream /*stream*/) {
  ENTER(cuMemAllocFromPoolAsync)
  if (taken[pool->device] + bytes > device_bytes) return out_of_memory;
  void* const at = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (at == nullptr) return out_of_memory;
  std::memset(at, 0xA5, bytes);
  *data = reinterpret_cast<Address>(at) | not_of_host;
  allocations[*data] = {bytes, pool->device};
  taken[pool->device] += bytes;
  return success;
}
Result cuMemFreeAsync(Address data, Stream stream) {
  ENTER(cuMemFreeAsync)
  if (!allocations.contains(data)) return invalid_value;
  return ask(stream, [data] {
    const std::lock_guard freeing(mutex);
    const auto at = allocations.find(data);
    taken[at->second.device] -= at->second.bytes;
    allocations.erase(at);
    std::free(in_host(data));
    return success;
  });
}
Result cuMemHostAlloc(void** data, std::size_t bytes, unsigned /*flags*/) {
  ENTER(cuMemHostAlloc)
  *data = std::calloc(1, bytes);
  ++handles;
  return *data != nullptr ? success : out_of_memory;
}
Result cuMemFreeHost(void* data) {
  const std::lock_guard lock(mutex);
  std::free(data);
  --handles;
  return success;
}
Result cuMemcpyAsync(Address to, Address from, std::size_t bytes, Stream stream) {
  ENTER(cuMemcpyAsync)
  return ask(stream, [=] {
    for (const Address data : {to, from}) {
      if (const Result result = touch(data, bytes); result != success) return result;
    }
    std::memcpy(in_host(to), in_host(from), bytes);
    return success;
  });
}
Result cuMemsetD8Async(Address data, unsigned char value, std::size_t bytes, Stream stream) {
  ENTER(cuMemsetD8Async)
  return ask(stream, [=] {
    if (const Result result = touch(data, bytes); result != success) return result;
    std::memset(in_host(data), value, bytes);
    return success;
  });
}

namespace {

/// Length in bytes of the library image at `image`; 0 without a valid image.
std::size_t library_bytes(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  return header.e_shoff + std::size_t{header.e_shentsize} * header.e_shnum;
}

}  // namespace

Result cuModuleLoadDataEx(DriverModule* module, const void* image, unsigned /*count*/,
                          int* /*options*/, void** /*values*/) {
  ENTER(cuModuleLoadDataEx)
  const std::size_t bytes = library_bytes(image);
  if (bytes == 0) return invalid_image;
  const int file = memfd_create("standin", MFD_CLOEXEC);
  const bool written = write(file, image, bytes) == static_cast<ssize_t>(bytes);
  void* const library =
      written ? dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW) : nullptr;
  if (library == nullptr) {
    close(file);
    return invalid_image;
  }
  // The file stays open: the loader treats libraries with one file name as the same library.
  *module = new ModuleTag{library, file};
  ++handles;
  return success;
}
Result cuModuleUnload(DriverModule module) {
  const std::lock_guard lock(mutex);
  dlclose(module->library);
  close(module->file);
  delete module;
  --handles;
  return success;
}
Result cuModuleGetFunction(Function* function, DriverModule module, const char* name) {
  ENTER(cuModuleGetFunction)
  void* const at = dlsym(module->library, name);
  if (at == nullptr) return not_found;
  static auto& known = *new std::map<void*, FunctionTag>;  // under the lock
  const bool meets = dlsym(module->library, "standin_meets") != nullptr;
  *function = &(known[at] = {reinterpret_cast<StandinKernel>(at), meets});
  return success;
}
Result cuLaunchKernel(Function function, unsigned groups_x, unsigned groups_y, unsigned groups_z,
                      unsigned threads_x, unsigned threads_y, unsigned threads_z,
                      unsigned /*shared_bytes*/, Stream stream, void** /*parameters*/,
                      void** extra) {
  ENTER(cuLaunchKernel)
  if (extra[0] != launch_buffer || extra[2] != launch_buffer_bytes) return invalid_value;
  std::vector<std::uint64_t> words(*static_cast<std::size_t*>(extra[3]) / sizeof(std::uint64_t));
  std::memcpy(words.data(), extra[1], words.size() * sizeof(std::uint64_t));
  for (std::uint64_t& word : words) {
    if (may_touch(word, 0)) word &= ~not_of_host;
  }
  const unsigned groups = groups_x * groups_y * groups_z;
  const unsigned threads = threads_x * threads_y * threads_z;
  return ask(stream, [=, of = *function, words = std::move(words)] {
    // Groups run in descending order: a group that waits for the result of an earlier group finds
    // none.
    for (unsigned group = groups; group-- > 0;) {
      if (of.meets) {
        const Result result = stream->group.run(of.kernel, words.data(), group, groups, threads);
        if (result == success) continue;
        const std::lock_guard again(mutex);  // in the stream's thread
        fault = stream->group.fault();
        std::fprintf(stderr, "CUDA stand-in: %s\n", fault.c_str());
        return result;
      }
      for (unsigned thread = threads; thread-- > 0;) {
        const Place place{group, groups, thread, threads, nullptr};
        if (const Result result = of.kernel(words.data(), &place); result != success) return result;
      }
    }
    return success;
  });
}

}  // namespace heddle::cuda_standin
