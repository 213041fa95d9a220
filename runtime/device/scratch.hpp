// The scratch memory of a device, shared by its routines, which run one at a time and in order. Any
// thread.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

namespace heddle::rt {

struct Execution;
class Memory;

class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// At least `bytes` of memory with undefined contents; null for 0 bytes. Routines hold the
  /// memory, and the last routine frees it. If the memory is too small, new routines get a larger
  /// block, and earlier routines keep the old one. Throws like allocate_memory(), for `what`.
  [[nodiscard]] std::shared_ptr<const Memory> take(const Execution& execution, std::size_t bytes,
                                                   const std::string& what);

 private:
  std::mutex mutex_;
  std::weak_ptr<const Memory> memory_;  // guarded by mutex_
};

}  // namespace heddle::rt
