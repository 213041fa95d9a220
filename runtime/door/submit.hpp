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

#include "jit/loop/interface.hpp"
#include "runtime/device/spares.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/protocol/awaited.hpp"
#include "scheduler/protocol/split_count.hpp"

namespace heddle::rt {

struct DeviceState;
struct Execution;
struct HostUses;
struct MergeSlot;
class Stream;

/// One use of a view's bytes. Points to objects kept alive by the caller during the call.
struct Access {
  const BufferView* view;  ///< null: the host storage of the tensor
  Use use;
  const Tensor* tensor;  ///< for messages; null: unknown
  /// A Use::change with writes only, which leaves some bytes unchanged. For messages.
  bool only_writes = false;
  /// Buffer and tensor taking over the memory with this use. Null: no donation.
  BufferState* taker = nullptr;
  const Tensor* taker_tensor = nullptr;
  /// Where the taker is no tensor: the new owner in words, "executor 'f': 'y' has it now".
  const std::string* taker_text = nullptr;
  /// The call of a recording with this use, "routine 'x'", for messages. Null: the whole work.
  const std::string* recorded = nullptr;
  /// The used part of the view, where the launch's static indices are known. Null: the whole view.
  const jit::Slice* slice = nullptr;
};

/// Values of the static indices of a launch. None: slices are unknown, and an access counts for its
/// whole view.
using Chosen = std::optional<std::span<const std::int64_t>>;

/// The list of a work's accesses.
class Accesses {
 public:
  void add(Access access);
  /// Adds an access to the whole host storage of a tensor. `tensor` may be null.
  void add(HostUses& host, std::size_t bytes, Use use, const Tensor* tensor);
  /// Adds a further device lock for the work to take.
  void add(Ledger& ledger);
  /// Appends the accesses of `next`, made by the same work afterwards. Bytes overwritten by this
  /// list do not count as read by `next`.
  void then(const Accesses& next);
  /// Sets the name of the recorded call with these accesses. The caller keeps the text alive.
  void be_of(const std::string& recorded) noexcept;
  /// Keeps the capacity.
  void clear() noexcept;
  /// True if the work writes a byte of the view.
  [[nodiscard]] bool writes(const BufferView& view) const noexcept;

  /// The uses of one range of bytes, merged.
  struct Touch {
    Hazards* hazards;
    BufferState* buffer;  ///< owner of the bytes; null:
    HostUses* host;       ///< the bytes are host storage
    Range range;
    Use use;
    Access named;           ///< one of the merged accesses, for messages
    std::size_t among = 1;  ///< number of touches of the same memory
  };
  /// In the order of addition. A task waits for predecessors in this order. The order does not
  /// depend on addresses, for reproducible simulations.
  [[nodiscard]] const std::vector<Touch>& touches() const noexcept { return touches_; }
  /// The ledgers (device locks) of the buffers, without duplicates, in the order in which every
  /// thread locks them.
  [[nodiscard]] const std::vector<Ledger*>& ledgers() const noexcept { return ledgers_; }

  /// The hazard tracking's view of one touch, for a task about to take a ticket.
  [[nodiscard]] static Hazards::Next next(const Touch& touch, std::uint64_t timeline,
                                          std::uint64_t disturbances, bool automatic,
                                          const Chosen& statics) noexcept {
    Hazards::Next next{timeline, disturbances, touch.range, touch.use,
                       automatic || touch.named.taker != nullptr};
    if (!statics || touch.named.slice == nullptr) return next;
    const jit::Slice& slice = *touch.named.slice;
    const auto [begin, end] = slice.at(*statics);
    next.range = {touch.range.begin + begin, touch.range.begin + end};
    if (slice.overwritten) next.use = Use::overwrite;
    return next;
  }
  /// Called when the task has its ticket and the cancel epoch (disturbances()) has changed since
  /// the accesses were checked: adds the writes of assumed success to `note`, and the task
  /// re-validates them before running. Under the ledgers.
  void doubt(std::uint64_t timeline, std::uint64_t disturbances, bool automatic,
             const Chosen& statics, sched::TaskNote& note) const noexcept;

 private:
  Touch& touch(const Touch& touch, Ledger& ledger);

  std::vector<Access> list_;  // accesses to views
  std::vector<Touch> touches_;
  std::vector<Ledger*> ledgers_;
};

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

/// Hazards::doubt() (re-validation) for one use. If there is no memory for the note, the task does
/// not run.
void doubt(const Hazards& hazards, const Hazards::Next& next, sched::TaskNote& note) noexcept;

/// True if a buffer may be fresh. Then the work has to be an Operation.
[[nodiscard]] bool uses_fresh(const Accesses& accesses) noexcept;

/// For messages: "tensor 'x' f32[4]".
[[nodiscard]] std::string name_of(const Access& access);
/// The error for a use by `user` of memory donated earlier or not given yet. Under the ledger.
[[nodiscard]] Status absent(const Access& access, std::string_view user);
/// The error for `user` reading, or partly writing, values missing because `write` failed.
[[nodiscard]] Status not_written(const Access& access, std::string_view user, const Event& write);

/// Throws failed_precondition if the buffer was donated, naming tensor or type, taker and place.
/// Promised memory is accepted before it is given. `user`: for the message.
void require_live(const Access& access, std::string_view user);

}  // namespace heddle::rt
