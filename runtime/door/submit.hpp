// The door: work that runs on a device and touches memory is a Work, passed to one function,
// submit(), with a list of its accesses. A work is accepted whole or refused before any state
// changed, and a submit never falls between the two halves of a donation. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "runtime/device/spares.hpp"
#include "runtime/door/accesses.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/protocol/awaited.hpp"
#include "scheduler/protocol/split_count.hpp"

namespace heddle::rt {

struct DeviceState;
struct Execution;
struct MergeSlot;
class Stream;

/// The body of a task, with its inputs as of the submission: run() looks nothing up.
class Operation : public Spare {
 public:
  Operation() = default;
  /// `again`: a later task of the operation has the same accesses, and the operation keeps its
  /// references to memory in between. Otherwise the device's thread would drop the references, and
  /// taking them anew would fetch the cache line of every reference count from that thread.
  explicit Operation(bool again) : again_(again) {}
  /// In the task. On return the work is done, or has been issued to the device's own queue. May
  /// throw; an exception fails the task.
  [[nodiscard]] virtual Status run(Execution& execution) = 0;
  /// Called when the issued work has ended, if the queue runs ahead and no host code takes part.
  /// `status`: the end as the queue reports it. Returns the end of the task.
  [[nodiscard]] virtual Status ended(Execution& /*execution*/, Status status) noexcept {
    return status;
  }
  /// Called in the task's turn, in place of run() and ended(), if the task was skipped or cancelled
  /// before running.
  virtual void pass_over(Execution& /*execution*/) noexcept {}
  /// The task has its ticket, and will be run or passed over. Under the ledger of its device.
  virtual void accepted() noexcept {}
  /// True if run() executes code of the host. Then run() begins after every earlier task has ended,
  /// and leaves no work pending on return.
  [[nodiscard]] virtual bool host_takes_part() const noexcept { return false; }

 private:
  friend class Door;
  friend class Queued;
  /// Called in place of the destructor when the operation is no longer needed.
  virtual void retire(std::shared_ptr<Execution> /*execution*/) noexcept { delete this; }

  /// Memory whose first use is this task.
  struct Fresh {
    std::byte* data;
    std::size_t bytes;
    std::shared_ptr<Stream> queue;  ///< a queue able to reach the memory
    /// the task overwrites the whole memory if it succeeds; zeros are needed only on failure
    bool overwritten;
    bool zeroed;          ///< the task has written the zeros
    BufferState* buffer;  ///< set while the task is being submitted
  };

  const bool again_ = false;
  std::shared_ptr<Execution> execution_;
  // memory of the accesses, until the task has ended
  std::vector<std::shared_ptr<const Memory>> kept_;
  std::shared_ptr<const Memory> merged_;  // memory of the merge buffer, until the task has ended
  std::vector<Fresh> fresh_;
};

/// Makes an operation that calls `run` with the execution. `run` returns a Status.
template <class F>
[[nodiscard]] std::unique_ptr<Operation> operation(F run) {
  class Call final : public Operation {
   public:
    explicit Call(F&& f) : run_(std::move(f)) {}
    Status run(Execution& execution) override { return run_(execution); }

   private:
    F run_;
  };
  return std::make_unique<Call>(std::move(run));
}

/// An object with finalisation. Afterwards no work uses the object.
class Living {
 public:
  Living() = default;
  Living(const Living&) = delete;
  Living& operator=(const Living&) = delete;

  /// Under the ledger of its device.
  [[nodiscard]] virtual bool is_finalised_locked() const noexcept = 0;
  /// Throws failed_precondition with the object's name.
  [[noreturn]] virtual void refuse_finalised() const = 0;

 protected:
  ~Living() = default;
};
/// Calls refuse_finalised() of the first user that is finalised. Under the ledgers of the users'
/// devices.
void refuse_finalised(std::span<const Living* const> users);

/// A work's use of the device's merge buffer. Resolved under the slot's lock: no other work comes
/// between the decision and the ticket.
class MergeUse {
 public:
  MergeUse() = default;
  MergeUse(const MergeUse&) = delete;
  MergeUse& operator=(const MergeUse&) = delete;

  struct Needs {
    const Accesses& accesses;  ///< the whole work's; kept alive by the use
    std::shared_ptr<const Memory> memory{};
  };
  /// Locks the slot, until settle() or a refusal. Called again if the queue was full meanwhile.
  /// Throws Error to refuse the work.
  [[nodiscard]] virtual Needs resolve(const DeviceState& device) = 0;
  /// The work took its ticket `taken`: sets the slot's new contents.
  virtual void settle(MergeSlot& slot, const Event& taken) noexcept = 0;

 protected:
  ~MergeUse() = default;
};

/// A further precondition, checked when a work takes a ticket.
class Condition {
 public:
  Condition() = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  /// Checks the condition and locks the state behind the condition until release(). false: the
  /// condition does not hold, nothing is locked, and the work is refused.
  [[nodiscard]] virtual bool hold() noexcept = 0;
  /// Unlocks. `taken`: the work's ticket. Null: the work was refused, or waits for room and will
  /// call hold() again.
  virtual void release(const Event* taken) noexcept = 0;

 protected:
  ~Condition() = default;
};

/// Options of a submission.
struct SubmitOptions : sched::SubmitOptions {
  std::optional<Sync> sync{};  ///< unset: the default of the device's backend
  bool lists_events = true;    ///< whether the submitting call takes a list of events to wait for
};
/// Options for a call that takes no list of events.
[[nodiscard]] inline SubmitOptions without_events(const std::source_location& where) {
  SubmitOptions options;
  options.site = where;
  options.lists_events = false;
  return options;
}

/// Options for a transfer (from TransferOptions) or a run (from ScheduleOptions) requested at
/// `where`.
template <class Options>
[[nodiscard]] SubmitOptions submit_options(const Options& options,
                                           const std::source_location& where) {
  SubmitOptions submit;
  submit.after = options.after;
  if constexpr (requires { options.contain; }) submit.contain = options.contain;
  submit.sync = options.sync;
  submit.full = options.full;
  submit.deadline = options.deadline;
  submit.site = where;
  return submit;
}

/// One task: its body and its accesses. Points to objects kept alive by the caller during the call.
struct Work {
  sched::Label label;
  std::unique_ptr<Operation> operation;
  const Accesses& accesses;
  MergeUse* merge = nullptr;  ///< null: the work does not use the merge buffer
  /// Objects required not to be finalised. The ledgers of their devices are among the accesses.
  std::span<const Living* const> users{};
  /// The work writes the first values of its buffers, whether it succeeds or fails.
  bool first_values = false;
  /// Further events to wait for, at any sync, beside SubmitOptions::after.
  std::span<const sched::Awaited> after{};
  /// The work is part of a call accepted earlier: if an input value was not written, the work is
  /// skipped rather than refused.
  bool accepted = false;
  Chosen statics{};                ///< static indices of the launched routine
  Condition* condition = nullptr;  ///< null: none
};

/// Checks the accesses and records them as last uses when the work takes a ticket. No lock is held
/// while the call waits for room in the queue. Throws Error if the work is refused:
/// failed_precondition naming tensor, taker and place if a buffer was donated, or naming the
/// finalised context, device or backend; the error of the merge use; otherwise the scheduler's
/// error.
Event submit(const DeviceState& device, Work work, const SubmitOptions& options = {});

/// Like submit(), but a refusal by the scheduler or the merge use does not throw: the returned
/// event has the status, for the caller to check. The work writes no buffer.
Event ask(const DeviceState& device, Work work, const SubmitOptions& options);

/// A launch that keeps its routine alive by a count in the routine, `launches`.
struct Counted {
  const DeviceState& device;
  const Living& user;
  sched::Label label;
  const Accesses& accesses;
  sched::SplitCount<>& launches;
};
/// Like submit(), for a counted launch. Precondition: uses_fresh() is false. `ops` builds the task
/// from `from` in the queue's slot, without an allocation.
Event submit_counted(const Counted& launch, std::span<const std::int64_t> statics,
                     const sched::TaskOps& ops, void* from, const SubmitOptions& options);

}  // namespace heddle::rt
