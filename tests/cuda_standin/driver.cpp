// The driver's functions, but for those of memory. See standin.hpp.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iterator>

#include "tests/cuda_standin/machine.hpp"

namespace heddle::cuda_standin {

Result cuInit(unsigned flags) {
  ENTER(cuInit, false)
  if (flags != 0) return invalid_value;
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
    case misaligned_address:
      *name = "CUDA_ERROR_MISALIGNED_ADDRESS";
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
      *name = nullptr;
      return invalid_value;
  }
}
Result cuGetErrorString(Result of, const char** text) {
  *text = of == illegal_address ? "an illegal memory access was encountered" : nullptr;
  return *text != nullptr ? success : invalid_value;
}
Result cuDeviceGetCount(int* count) {
  ENTER(cuDeviceGetCount, false)
  *count = look.devices;
  return success;
}
Result cuDeviceGet(Ordinal* device, int ordinal) {
  ENTER(cuDeviceGet, false)
  if (ordinal < 0 || ordinal >= look.devices) return invalid_device;
  *device = ordinal;
  return success;
}
Result cuDeviceGetName(char* name, int bytes, Ordinal /*device*/) {
  std::strncpy(name, "Stand-in", static_cast<std::size_t>(bytes));
  return success;
}
Result cuDeviceTotalMem(std::size_t* bytes, Ordinal /*device*/) {
  ENTER(cuDeviceTotalMem, false)
  *bytes = look.bytes;
  return success;
}
Result cuDeviceGetAttribute(int* value, int attribute, Ordinal /*device*/) {
  ENTER(cuDeviceGetAttribute, false)
  const std::map<int, int> values{{multiprocessors, 8},
                                  {copy_engines, 2},
                                  {capability_major, 9},
                                  {memory_pools_supported, look.pools},
                                  {threads_of_group, group_threads_max},
                                  {threads_x, threads_max[0]},
                                  {threads_y, threads_max[1]},
                                  {threads_z, threads_max[2]},
                                  {groups_x, groups_max[0]},
                                  {groups_y, groups_max[1]},
                                  {groups_z, groups_max[2]},
                                  {unified_addressing, 1}};
  const auto at = values.find(attribute);
  *value = at == values.end() ? 0 : at->second;
  return success;
}
Result cuDeviceCanAccessPeer(int* can, Ordinal device, Ordinal peer) {
  ENTER(cuDeviceCanAccessPeer, false)
  *can = int{look.peers && device != peer};
  return success;
}
Result cuDevicePrimaryCtxRetain(Context* context, Ordinal device) {
  ENTER(cuDevicePrimaryCtxRetain, false)
  *context = reinterpret_cast<Context>(static_cast<std::uintptr_t>(device + 1));
  ++retained[device];
  ++handles;
  return success;
}

namespace {

/// With the lock; the caller deletes the streams without it.
template <class Which>
std::vector<Stream> take_ending(const Which& which) {
  std::vector<Stream> taken;
  std::ranges::copy_if(ending_streams, std::back_inserter(taken), which);
  std::erase_if(ending_streams, which);
  return taken;
}

}  // namespace

Result cuDevicePrimaryCtxRelease(Ordinal device) {
  std::vector<Stream> ended;
  bool is_last = false;
  {
    ENTER(cuDevicePrimaryCtxRelease, false)
    --handles;
    ended = take_ending([device](Stream stream) { return stream->device == device; });
    const auto legacy = legacy_streams.find(device);
    is_last = --retained[device] == 0;
    if (is_last && legacy != legacy_streams.end()) {
      ended.push_back(legacy->second);
      legacy_streams.erase(legacy);
    }
    // An error of the context goes with the context; a GPU that is gone stays away.
    constexpr Result device_unavailable = 46;
    if (is_last && broken.contains(device) && broken.at(device) != device_unavailable)
      broken.erase(device);
  }
  for (const Stream each : ended) delete each;
  if (is_last) drop_memory(device);
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
Result cuCtxGetCurrent(Context* context) {
  ENTER(cuCtxGetCurrent, false)
  *context = contexts().empty() ? nullptr : contexts().back();
  return success;
}
Result cuStreamCreate(Stream* stream, unsigned flags) {
  ENTER(cuStreamCreate)
  if (flags > stream_non_blocking) return invalid_value;
  *stream = streams.emplace_back(new StreamTag(current_device(), flags == 0));
  ++handles;
  return success;
}
Result cuStreamDestroy(Stream stream) {
  std::vector<Stream> ended;
  {
    const std::lock_guard lock(mutex);
    std::erase(streams, stream);
    ending_streams.push_back(stream);
    stream->closed = true;
    changed.notify_all();
    --handles;
    ended = take_ending([](Stream each) { return each->asked.empty(); });
  }
  for (const Stream each : ended) delete each;
  return success;
}
Result cuStreamSynchronize(Stream stream) {
  std::unique_lock lock(mutex);
  if (const Result entered = enter("cuStreamSynchronize"); entered != success) return entered;
  // After all of blocking streams, too, where this is the legacy stream.
  if (stream == nullptr) ask(stream, [] { return success; });
  return wait_for(stream_of(stream), lock);
}
Result cuStreamWaitEvent(Stream stream, Event event, unsigned /*flags*/) {
  ENTER(cuStreamWaitEvent)
  return ask(stream, [record = event->record, device = stream_of(stream)->device] {
    std::unique_lock waiting(mutex);
    changed.wait(waiting,
                 [&] { return record == nullptr || record->ended || broken.contains(device); });
    return success;
  });
}
Result cuEventCreate(Event* event, unsigned /*flags*/) {
  ENTER(cuEventCreate)
  *event = new EventTag{current_device()};
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
  if (event->device != stream_of(stream)->device) return invalid_handle;
  event->record = std::make_shared<Record>();
  return ask(stream, [record = event->record] {
    const std::lock_guard ending(mutex);
    record->ended = true;
    return success;
  });
}
Result cuEventQuery(Event event) {
  ENTER(cuEventQuery)
  return event->record == nullptr || event->record->ended ? success : not_ready;
}
Result cuEventSynchronize(Event event) {
  std::unique_lock lock(mutex);
  if (const Result entered = enter("cuEventSynchronize"); entered != success) return entered;
  const std::shared_ptr<const Record> record = event->record;
  const Ordinal device = event->device;
  changed.wait(lock, [&] { return record == nullptr || record->ended || broken.contains(device); });
  const auto at = broken.find(device);
  return at == broken.end() ? success : at->second;
}
Result cuLaunchHostFunc(Stream stream, HostFunction function, void* argument) {
  ENTER(cuLaunchHostFunc)
  return ask(stream, [=] {
    function(argument);
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

namespace {

bool is_within_limits(const unsigned (&groups)[3], const unsigned (&threads)[3],
                      unsigned shared_bytes) {
  std::uint64_t of_group = 1;
  for (int axis = 0; axis < 3; ++axis) {
    if (groups[axis] == 0 || groups[axis] > groups_max[axis]) return false;
    if (threads[axis] == 0 || threads[axis] > threads_max[axis]) return false;
    of_group *= threads[axis];
  }
  return of_group <= group_threads_max && shared_bytes <= shared_bytes_max;
}

/// The words as a kernel gets them, with addresses in the host, where the stream may access them.
bool resolve(const StreamTag& stream, std::vector<std::uint64_t>& words) {
  const std::lock_guard resolving(mutex);
  for (std::uint64_t& word : words) {
    if (!is_of_gpu(word) || allocation_of(word) == nullptr) continue;
    if (!may_access(stream, word, 0)) return false;
    word &= ~not_of_host;
  }
  return true;
}

/// Runs in the stream's thread.
Result run_groups(StreamTag& stream, const FunctionTag& of, const std::vector<std::uint64_t>& words,
                  unsigned groups, unsigned threads) {
  // Groups run in descending order: a group that waits for the result of an earlier group finds
  // none.
  for (unsigned group = groups; group-- > 0;) {
    if (of.meets) {
      const Result result = stream.group.run(of.kernel, words.data(), group, groups, threads);
      if (result == success) continue;
      const std::lock_guard again(mutex);
      fault = stream.group.fault();
      std::fprintf(stderr, "CUDA stand-in: %s\n", fault.c_str());
      return result;
    }
    for (unsigned thread = threads; thread-- > 0;) {
      const Place place{group, groups, thread, threads, nullptr};
      if (const Result result = of.kernel(words.data(), &place); result != success) return result;
    }
  }
  return success;
}

}  // namespace

Result cuLaunchKernel(Function function, unsigned groups_on_x, unsigned groups_on_y,
                      unsigned groups_on_z, unsigned threads_on_x, unsigned threads_on_y,
                      unsigned threads_on_z, unsigned shared_bytes, Stream to,
                      void** /*parameters*/, void** extra) {
  ENTER(cuLaunchKernel)
  if (extra[0] != launch_buffer || extra[2] != launch_buffer_bytes) return invalid_value;
  if (!is_within_limits({groups_on_x, groups_on_y, groups_on_z},
                        {threads_on_x, threads_on_y, threads_on_z}, shared_bytes))
    return invalid_value;
  std::vector<std::uint64_t> words(*static_cast<std::size_t*>(extra[3]) / sizeof(std::uint64_t));
  std::memcpy(words.data(), extra[1], words.size() * sizeof(std::uint64_t));
  const unsigned groups = groups_on_x * groups_on_y * groups_on_z;
  const unsigned threads = threads_on_x * threads_on_y * threads_on_z;
  Stream const stream = stream_of(to);
  return ask(stream, [=, of = *function, words = std::move(words)]() mutable {
    if (!resolve(*stream, words)) return illegal_address;
    return run_groups(*stream, of, words, groups, threads);
  });
}

}  // namespace heddle::cuda_standin
