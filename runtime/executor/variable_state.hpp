// What is behind Variable: its arrays, and how functions use it. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "heddle/variable.hpp"
#include "scheduler/threads/object_mutex.hpp"

namespace heddle::rt {

class VariableState {
 public:
  VariableState(std::string variable, TreeDef def, std::vector<Array> leaves)
      : name(std::move(variable)), structure(std::move(def)) {
    for (const Array& array : leaves) types.push_back(array.type());
    set(leaves);
  }

  /// "weights/layers/3/bias".
  [[nodiscard]] std::string path(std::size_t leaf) const;
  void require_types(const TreeDef& def, std::span<const ArrayType> found, const char* what) const;

  const std::string name;
  const TreeDef structure;
  std::vector<ArrayType> types;  // constant

  /// Of what follows; whoever has it waits for nothing. Throws unavailable in a forked child, where
  /// a thread that it lacks may have it.
  [[nodiscard]] std::unique_lock<std::mutex> lock();
  sched::ObjectMutex mutex;  // guards what follows
  /// It has these from here on; what it had before comes back.
  void set(std::vector<Array>& leaves);
  /// Where updates were accepted and did not run, its arrays are those from before them, which lie
  /// where these updates would have left theirs. Whether that happened now.
  bool recall() noexcept;
  std::vector<Array> arrays;
  std::uint64_t changes = 0;  ///< other arrays came
  std::uint64_t looks = 0;    ///< others were given these

  /// An update failed, or was passed over and could not leave the value from before. Any thread.
  void lose() noexcept {
    // relaxed: pairs with the load in recall(); the end of the update carries it there.
    is_lost_.store(true, std::memory_order_relaxed);
  }

 private:
  std::vector<Event> set_;  // the ends of what fills what it was set to
  std::atomic<bool> is_lost_{false};
};

}  // namespace heddle::rt
