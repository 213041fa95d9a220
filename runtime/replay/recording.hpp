// What a Recording has taken: calls with all that was decided when they were recorded. Immutable,
// once others know of them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "heddle/replay.hpp"
#include "runtime/context/merge.hpp"
#include "runtime/device/route.hpp"
#include "runtime/launch/merge_read.hpp"
#include "scheduler/threads/object_mutex.hpp"

namespace heddle::rt {

/// A routine to be launched, which may merge, or a copy.
struct Recorded {
  std::shared_ptr<const DeviceState> device{};  ///< that does it
  /// Whose routine or tensor it uses.
  std::vector<std::shared_ptr<const ContextState>> contexts{};
  Accesses accesses{};  ///< of views that this keeps; with the ledgers of all those contexts

  std::shared_ptr<const Linked> linked{};  ///< null: a copy
  std::optional<RecordedStatics> statics{};
  std::optional<Tensor> tensor{};  ///< that is copied or merged
  std::shared_ptr<const BufferView> from{}, to{};
  std::shared_ptr<const MergeRead> merge{};  ///< null: it merges nothing
  std::shared_ptr<const Memory> merged{};    ///< where it copies what it merges, or null
  std::optional<Move> move{};                ///< of the copy
  std::string what{};                        ///< "routine 'x'", "copy of 'x'"
};

class RecordingState {
 public:
  explicit RecordingState(std::string recording_name) : name(std::move(recording_name)) {}

  const std::string name;

  // Any thread. They throw unavailable in a forked child, where a thread that it lacks was at it.

  void add(std::shared_ptr<const Recorded> call);
  [[nodiscard]] std::vector<std::shared_ptr<const Recorded>> calls() const;

 private:
  [[nodiscard]] std::unique_lock<std::mutex> lock() const;

  mutable sched::ObjectMutex mutex_;
  std::vector<std::shared_ptr<const Recorded>> calls_;
};

}  // namespace heddle::rt
