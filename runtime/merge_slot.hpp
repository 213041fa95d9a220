// What a device remembers of its merge buffer. Any thread, which locks it.
#pragma once

#include <memory>
#include <mutex>

namespace heddle::rt {

struct Load;  // runtime/merge.hpp
class Memory;

/// A device's merge buffer as it will be once all submitted tasks ended.
struct MergeSlot {
  std::mutex mutex;  // guards what follows; held while a task that changes or reads it is submitted
  std::shared_ptr<Load> load;         ///< null: empty; set by hold()
  std::shared_ptr<const Memory> own;  ///< grow-only; queued tasks keep what they use

  /// In the place of what it held, whose loan is over. That goes, unless others have it.
  void hold(std::shared_ptr<Load> next) noexcept;
  /// Its device takes no more tasks.
  void clear() noexcept;
};

}  // namespace heddle::rt
