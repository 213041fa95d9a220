// The state behind Variable: the arrays, and their use in functions. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/variable.hpp"
#include "scheduler/threads/biased_mutex.hpp"

namespace heddle::rt {

class VariableState {
 public:
  VariableState(std::string variable, TreeDef def, std::vector<Array> leaves)
      : name(std::move(variable)), structure(std::move(def)) {
    types = types_of(leaves);
    set(leaves);
  }

  /// "weights/layers/3/bias".
  [[nodiscard]] std::string path(std::size_t leaf) const;
  /// Throws failed_precondition for an array without a value.
  [[nodiscard]] std::vector<ArrayType> types_of(std::span<const Array> leaves) const;
  void require_types(const TreeDef& def, std::span<const ArrayType> found, const char* what) const;

  const std::string name;
  const TreeDef structure;
  std::vector<ArrayType> types;  // constant

  /// Locks `mutex`; the holder must not wait. Throws unavailable in a forked child if a thread of
  /// the parent held the lock.
  [[nodiscard]] std::unique_lock<sched::BiasedMutex> lock();
  sched::BiasedMutex mutex;  // guards the members below; biased to the first thread that calls
  /// Installs new arrays; the old arrays come back in `leaves`.
  void set(std::vector<Array>& leaves);
  /// Where accepted updates did not run, the memory of the current arrays holds the values from
  /// before the updates. Replaces the arrays with arrays that have ended well, and tells whether a
  /// replacement took place.
  bool recall() noexcept;
  std::vector<Array> arrays;
  std::uint64_t changes = 0;  ///< number of replacements of the arrays
  std::uint64_t looks = 0;    ///< number of times that the arrays were handed out

  /// An update failed, or was passed over and could not restore the old value. Any thread.
  void lose() noexcept {
    // relaxed: pairs with the load in recall(); the end of the update orders the store before that
    // load.
    is_lost_.store(true, std::memory_order_relaxed);
  }

 private:
  std::vector<Event> set_;  // the ends of the tasks that fill the arrays installed last
  std::atomic<bool> is_lost_{false};
};

}  // namespace heddle::rt
