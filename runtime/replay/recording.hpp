// The calls that a Recording has taken, with every decision made at the recording. A `Recorded` is
// immutable once other threads can see it.
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

/// A recorded call: a routine, which may merge, or a copy.
struct Recorded {
  std::shared_ptr<const DeviceState> device{};  ///< the device that runs the call
  /// The contexts of the routine or of the tensor.
  std::vector<std::shared_ptr<const ContextState>> contexts{};
  /// of views that this object keeps; with the ledgers (device locks) of `contexts`
  Accesses accesses{};

  std::shared_ptr<const Linked> linked{};  ///< null: the call is a copy
  std::optional<RecordedStatics> statics{};
  std::optional<Tensor> tensor{};  ///< the copied or merged tensor
  std::shared_ptr<const BufferView> from{}, to{};
  std::shared_ptr<const MergeRead> merge{};  ///< null: the call merges nothing
  std::shared_ptr<const Memory> merged{};    ///< memory of the copy that is merged; null: none
  std::optional<Move> move{};                ///< of a copy
  std::string what{};                        ///< "routine 'x'", "copy of 'x'"
};

class RecordingState {
 public:
  explicit RecordingState(std::string recording_name) : name(std::move(recording_name)) {}

  const std::string name;

  // Any thread. Both throw unavailable in a forked child, where a thread of the parent held the
  // lock.

  void add(std::shared_ptr<const Recorded> call);
  [[nodiscard]] std::vector<std::shared_ptr<const Recorded>> calls() const;

 private:
  [[nodiscard]] std::unique_lock<std::mutex> lock() const;

  mutable sched::ObjectMutex mutex_;
  std::vector<std::shared_ptr<const Recorded>> calls_;
};

}  // namespace heddle::rt
