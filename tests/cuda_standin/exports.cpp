// Exports of the library: the lookup of driver functions, and the controls for tests.
#include <cstring>

#include "tests/cuda_standin/machine.hpp"

namespace heddle::cuda_standin {
namespace {

struct Found {
  void* function = nullptr;
  int since = 0;
};

/// Looks a function up by its name in the lists: a missing function does not compile.
Found find(const std::string& wanted) {
#define FOUND(name, symbol, since, parameters)         \
  if (wanted == #symbol) {                             \
    Result(*const function) parameters = &symbol;      \
    return {reinterpret_cast<void*>(function), since}; \
  }
  HEDDLE_CUDA_FUNCTIONS(FOUND)
  CUDA_STANDIN_FURTHER_FUNCTIONS(FOUND)
#undef FOUND
  return {};
}

}  // namespace
}  // namespace heddle::cuda_standin

using namespace heddle::cuda_standin;

extern "C" {

[[gnu::visibility("default")]] Result cuDriverGetVersion(int* version) {
  const std::lock_guard lock(mutex);
  *version = look.version;
  return success;
}
[[gnu::visibility("default")]] Result cuGetProcAddress_v2(const char* symbol, void** function,
                                                          int version, std::uint64_t /*flags*/,
                                                          int* found) {
  const std::lock_guard lock(mutex);
  *function = nullptr;
  if (version > look.version) return invalid_value;
  const bool lacks = look.missing != nullptr && std::strcmp(look.missing, symbol) == 0;
  const Found known = lacks ? Found{} : find(symbol);
  constexpr int is_found = 0, is_unknown = 1, is_newer = 2;
  *found = known.function == nullptr ? is_unknown : known.since > version ? is_newer : is_found;
  if (*found == is_found) *function = known.function;
  return success;
}
[[gnu::visibility("default")]] extern const Controls cuda_standin;
const Controls cuda_standin{
    .look =
        [](const Look& wanted) {
          const std::lock_guard lock(mutex);
          look = wanted;
        },
    .fail =
        [](const char* function, std::size_t after, Result result) {
          const std::lock_guard lock(mutex);
          faults[function] = {after, result};
        },
    .hold =
        [](bool wanted) {
          const std::lock_guard lock(mutex);
          held = wanted;
          changed.notify_all();
        },
    .lose =
        [](int device, Result result) {
          const std::lock_guard lock(mutex);
          broken.emplace(device, result);
          changed.notify_all();
        },
    .keep_context =
        [](int device, bool kept) {
          Context context = nullptr;
          static_cast<void>(kept ? cuDevicePrimaryCtxRetain(&context, device)
                                 : cuDevicePrimaryCtxRelease(device));
        },
    .slow_copies =
        [](int milliseconds) {
          const std::lock_guard lock(mutex);
          copy_delay = std::chrono::milliseconds(milliseconds);
        },
    .reset =
        [] {
          std::unique_lock lock(mutex);
          look = {};
          faults.clear();
          calls.clear();
          held = false;
          copy_delay = {};
          changed.notify_all();
          // The streams of a broken GPU drop their operations without running them.
          const auto drops = [](Stream stream) {
            return broken.contains(stream->device) && !stream->asked.empty();
          };
          changed.wait(lock, [&] {
            return std::ranges::none_of(streams, drops) &&
                   std::ranges::none_of(ending_streams, drops);
          });
          broken.clear();
        },
    .live_allocations =
        [] {
          const std::lock_guard lock(mutex);
          return allocations.size();
        },
    .live_handles =
        [] {
          const std::lock_guard lock(mutex);
          return handles;
        },
    .pushed_contexts =
        [] {
          const std::lock_guard lock(mutex);
          return contexts().size();
        },
    .calls =
        [](const char* function) {
          const std::lock_guard lock(mutex);
          return calls[function];
        },
    .fault =
        [] {
          const std::lock_guard lock(mutex);
          return fault.c_str();
        },
};
}
