// A launch of what an executor compiled, as the queue of its device holds it.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/door/submit.hpp"
#include "runtime/executor/entry.hpp"
#include "runtime/launch/steps.hpp"
#include "runtime/transfer/transfer.hpp"

namespace heddle::rt {

class VariableState;

// Plain calls keep no memory: what those who have it let go meanwhile is free for tasks of the same
// device at once, and for others once its last uses have ended, of which these are some.

/// One of a small kernel.
struct SmallCall {
  Site* site;  ///< held by being counted there
  void* data[SmallBuffers::max];

  static const sched::TaskOps ops;
};
static_assert(sizeof(SmallCall) <= sched::task_bytes_max);

/// Any other. Once it has ended it is left to others of its site, empty.
class CallRecord final : public Operation {
 public:
  /// One that is spare, or a new one. Under the ledger of the device.
  [[nodiscard]] static std::unique_ptr<CallRecord> make(Site& site);

  // To be filled in:
  Tables tables;      ///< what they have is another call's
  Accesses accesses;  ///< empty
  /// What a variable that it updates has where it does not run: its value from before.
  struct Kept {
    VariableState* variable;
    Event filled;  ///< the end of what fills that
    bool ours;     ///< that is a copy, which the call made
    Move move;     ///< none: it stays where it is
  };
  std::vector<Kept> kept;  ///< empty; of all that it updates, where it is not plain

  /// How the queue handles one that was filled in, and held by accepted(), and is given as a
  /// CallRecord*.
  static const sched::TaskOps plain_ops;
  Status run(Execution& execution) override;
  Status ended(Execution& execution, Status status) noexcept override;
  void pass_over(Execution& execution) noexcept override;
  void accepted() noexcept override;

 private:
  explicit CallRecord(Site& site);
  static bool run_plain_task(void* callable, Status& failure);
  static void destroy_plain_task(void* callable) noexcept;
  void retire(std::shared_ptr<Execution> execution) noexcept override;

  Site& site_;  // has its spares
  /// Its variables have what it computed, or, where it was passed over, what they had before.
  bool leaves_values_ = false;
  Run::Room room_;
  std::optional<Run> run_;  // goes first
};

}  // namespace heddle::rt
