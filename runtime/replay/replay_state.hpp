// The state behind Replay: the recorded calls, as the tasks that each run submits. Immutable; any
// thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/replay/recording.hpp"
#include "runtime/replay/stretches.hpp"
#include "runtime/replay/turns.hpp"

namespace heddle::rt {

class Plan;

/// One task of a run.
struct ReplayTask {
  std::shared_ptr<const DeviceState> device;
  Accesses accesses;  ///< accesses of the task's calls
  std::vector<const Living*> users;
  std::shared_ptr<Plan> plan;  ///< kept by queued tasks, which keep no other member
  std::vector<std::size_t> calls;
  std::vector<Stretch::Before> after;
  bool last = false;    ///< the last task of the device
  bool merges = false;  ///< the merge buffer is empty after the task
};

class ReplayState {
 public:
  [[nodiscard]] static std::shared_ptr<const ReplayState> make(
      std::string name, std::vector<std::shared_ptr<const Recorded>> calls);

  /// Submits one run. The events of its tasks.
  [[nodiscard]] std::vector<Event> run(BindingsView bindings, const ReplayOptions& options,
                                       const std::source_location& where) const;
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::vector<std::shared_ptr<const Recorded>>& calls() const noexcept {
    return calls_;
  }
  [[nodiscard]] const std::vector<ReplayTask>& tasks() const noexcept { return tasks_; }
  [[nodiscard]] const std::vector<StaticIndex>& statics() const noexcept { return statics_; }
  [[nodiscard]] std::string to_string() const;

 private:
  ReplayState(std::string name, std::vector<std::shared_ptr<const Recorded>> calls);
  ReplayTask make_task(const Stretch& stretch);
  [[nodiscard]] std::size_t place_of_static(const StaticIndex& index);
  void take(std::optional<Turns::Turn>& turn, const ReplayOptions& options) const;
  Event submit_task(const ReplayTask& task, std::unique_ptr<Operation> operation,
                    std::span<const Event> ends, const ReplayOptions& options,
                    const std::source_location& where) const;

  const std::string name_;
  const sched::Label label_;
  const std::vector<std::shared_ptr<const Recorded>> calls_;
  std::vector<StaticIndex> statics_;  // the open static indices
  std::vector<ReplayTask> tasks_;
  Accesses accesses_;                   // of every task; only with several tasks
  std::vector<const Living*> users_;    // likewise
  mutable std::optional<Turns> turns_;  // likewise
};

}  // namespace heddle::rt
