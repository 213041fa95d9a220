// What is behind Variable: its arrays, and how functions use it. Any thread.
#pragma once

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
      : name(std::move(variable)), structure(std::move(def)), arrays(std::move(leaves)) {
    for (const Array& array : arrays) types.push_back(array.type());
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
  std::vector<Array> arrays;
  std::uint64_t changes = 0;  ///< other arrays came
  std::uint64_t looks = 0;    ///< others were given these
};

}  // namespace heddle::rt
