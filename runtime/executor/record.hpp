// One launch of an executor's code, as the queue of the device holds it.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/device/route.hpp"
#include "runtime/door/submit.hpp"
#include "runtime/executor/entry.hpp"
#include "runtime/launch/steps.hpp"

namespace heddle::rt {

class VariableState;

// Calls on the fast path keep no memory alive. A block whose handles go during such a call is free
// at once for tasks of the same device, and for tasks of other devices once the block's last uses,
// the call among them, have ended.

/// A call of a single small kernel.
struct SmallCall {
  Site* site;  ///< counted in the site's launches
  void* data[SmallBuffers::max];

  [[nodiscard]] static const sched::TaskOps& ops(const Site& site) noexcept;
};
static_assert(sizeof(SmallCall) <= sched::task_bytes_max);

/// Any call that is not small. After its end the record goes, emptied, to the free list of the
/// site.
class CallRecord final : public Operation {
 public:
  /// A record of the free list, or a new record. Under the ledger of the device.
  [[nodiscard]] static std::unique_ptr<CallRecord> make(Site& site);

  // To be filled in by the call:
  Tables tables;      ///< entries of a reused record hold an earlier call's values
  Accesses accesses;  ///< empty at first
  /// The old value of an updated variable, restored where the task does not run.
  struct Kept {
    VariableState* variable;
    Event filled;  ///< the end of the task that fills the old value
    bool ours;     ///< the old value is a copy, made by the call
    Move move;     ///< copies the old value; Route::none: the value stays in place
  };
  std::vector<Kept> kept;  ///< empty on the fast path; otherwise every array of updated variables

  /// The queue's operations on a record. The task is a CallRecord*; the record is filled in, and
  /// held by accepted().
  [[nodiscard]] static const sched::TaskOps& ops(const Site& site) noexcept;
  Status run(Execution& execution) override;
  Status ended(Execution& execution, Status status) noexcept override;
  void pass_over(Execution& execution) noexcept override;
  void accepted() noexcept override;

 private:
  explicit CallRecord(Site& site);
  static bool run_plain_task(void* callable, Status& failure);
  static void destroy_plain_task(void* callable) noexcept;
  void retire(std::shared_ptr<Execution> execution) noexcept override;

  Site& site_;  // owner of the free list
  /// The updated variables hold the computed values or, after pass_over(), the old values.
  bool leaves_values_ = false;
  Run::Room room_;
  std::optional<Run> run_;  // reset first
};

}  // namespace heddle::rt
