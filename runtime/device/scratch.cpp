// See runtime/device/scratch.hpp.
#include "runtime/device/scratch.hpp"

#include "runtime/device/allocation.hpp"
#include "runtime/memory/buffer_state.hpp"

namespace heddle::rt {

std::shared_ptr<const Memory> Scratch::take(const Execution& execution, std::size_t bytes,
                                            const std::string& what) {
  if (bytes == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Memory> memory = memory_.lock();
  if (!memory || memory->bytes < bytes) {
    memory = allocate_memory(execution, bytes, what);
    memory_ = memory;
  }
  return memory;
}

}  // namespace heddle::rt
