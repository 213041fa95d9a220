// Exports of the library: the lookup of driver functions, and the controls for tests.
#include <cstring>

#include "tests/cuda_standin/machine.hpp"

namespace heddle::cuda_standin {
namespace {

/// Looks a function up by its name in heddle's list: a missing function does not compile.
void* find(const std::string& wanted) {
#define FOUND(name, symbol, since, parameters)    \
  if (wanted == #symbol) {                        \
    Result(*const function) parameters = &symbol; \
    return reinterpret_cast<void*>(function);     \
  }
  HEDDLE_CUDA_FUNCTIONS(FOUND)
#undef FOUND
  return nullptr;
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
  const bool lacks = look.missing != nullptr && std::strcmp(look.missing, symbol) == 0;
  *function = lacks || version > look.version ? nullptr : find(symbol);
  *found = *function != nullptr ? 0 : 1;
  return *function != nullptr ? success : not_found;
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
    .reset =
        [] {
          std::unique_lock lock(mutex);
          look = {};
          faults.clear();
          calls.clear();
          held = false;
          changed.notify_all();
          // The streams of a broken GPU drop their operations without running them.
          changed.wait(lock, [] {
            return std::ranges::none_of(streams, [](Stream stream) {
              return broken.contains(stream->device) && !stream->asked.empty();
            });
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
