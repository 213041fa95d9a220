// The scratch memory of a device, which its routines share: they run one at a time, in order. Any
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

  /// At least `bytes`, which hold nothing; null for 0. It is kept by routines and goes with the
  /// last one. Where it is too small, those that come get a larger one, and the others keep theirs.
  /// Throws as allocate_memory(), for `what`.
  [[nodiscard]] std::shared_ptr<const Memory> take(const Execution& execution, std::size_t bytes,
                                                   const std::string& what);

 private:
  std::mutex mutex_;
  std::weak_ptr<const Memory> memory_;  // guarded by mutex_
};

}  // namespace heddle::rt
