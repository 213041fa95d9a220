// The door: what runs on a device and touches memory is a Work that is given to one function, and
// says what it touches. It is accepted whole or refused before anything changed: it cannot fall
// between the two halves of a donation. Any thread.
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

/// A use of the bytes of a view. Points to what the caller keeps during the call.
struct Access {
  const BufferView* view;  ///< null: the host storage of the tensor
  Use use;
  const Tensor* tensor;  ///< for messages; null: none is known
  /// Of a Use::change: whether it leaves bytes as they are and reads none; for messages.
  bool only_writes = false;
  /// The buffer and the tensor that the memory goes to with this use; null: it goes nowhere.
  BufferState* taker = nullptr;
  const Tensor* taker_tensor = nullptr;
  /// Where that is no tensor: what becomes of the memory, "executor 'f': 'y' has it now".
  const std::string* taker_text = nullptr;
  /// What of a recording uses it: "routine 'x'", for messages; null: it is all of the work.
  const std::string* recorded = nullptr;
  /// Of the view just this, where the static indices of the launch are known; null: all of it.
  const jit::Slice* slice = nullptr;
};

/// Values of the static indices of a launch; none: what it touches is not known nearer.
using Chosen = std::optional<std::span<const std::int64_t>>;

/// All that a work touches.
class Accesses {
 public:
  void add(Access access);
  /// Of all of the host storage of a tensor, if one is known.
  void add(HostUses& host, std::size_t bytes, Use use, const Tensor* tensor);
  /// Has it locked too.
  void add(Ledger& ledger);
  /// The same work does all this afterwards: what it has overwritten is not read from before.
  void then(const Accesses& next);
  /// All of it is what that call of a recording does; the caller keeps the text.
  void be_of(const std::string& recorded) noexcept;
  /// Keeps its room.
  void clear() noexcept;
  /// Whether a byte of the view is written.
  [[nodiscard]] bool writes(const BufferView& view) const noexcept;

  /// All uses of the same bytes together.
  struct Touch {
    Hazards* hazards;
    BufferState* buffer;  ///< whose bytes they are; null:
    HostUses* host;       ///< they are the host's
    Range range;
    Use use;
    Access named;           ///< one of them, for messages
    std::size_t among = 1;  ///< touches of that memory
  };
  /// In the order in which they were added: a task waits in it for what it comes after, which no
  /// address decides, so that a simulation brings the same again.
  [[nodiscard]] const std::vector<Touch>& touches() const noexcept { return touches_; }
  /// Those of the buffers, each once, in the order in which all threads lock them.
  [[nodiscard]] const std::vector<Ledger*>& ledgers() const noexcept { return ledgers_; }

  /// As hazards see one of them, of a task that is about to take a ticket.
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
  /// The task has its ticket, and disturbances() are others by now: what it took for granted is
  /// looked at before it runs. Under the ledgers.
  void doubt(std::uint64_t timeline, std::uint64_t disturbances, bool automatic,
             const Chosen& statics, sched::TaskNote& note) const noexcept;

 private:
  Touch& touch(const Touch& touch, Ledger& ledger);

  std::vector<Access> list_;  // of views
  std::vector<Touch> touches_;
  std::vector<Ledger*> ledgers_;
};

/// What a task does, with what it was given when it was submitted: nothing is looked up when it
/// runs.
class Operation : public Spare {
 public:
  Operation() = default;
  /// `again`: its next task, if it has one, touches the same, so that it keeps what it kept:
  /// another thread counted every memory down, so counting it up again fetches its line from there.
  explicit Operation(bool again) : again_(again) {}
  /// In the task: all that it does is done, or was asked of the device's own queue, when it
  /// returns. May throw, which fails it.
  [[nodiscard]] virtual Status run(Execution& execution) = 0;
  /// That has ended, where the queue runs ahead and the host takes no part: `status` as the queue
  /// tells it. How the task ended.
  [[nodiscard]] virtual Status ended(Execution& /*execution*/, Status status) noexcept {
    return status;
  }
  /// Instead of both, in its turn, where its task was skipped or cancelled before it ran.
  virtual void pass_over(Execution& /*execution*/) noexcept {}
  /// It has its ticket, and will be run, or passed over. Under the ledger of its device.
  virtual void accepted() noexcept {}
  /// Whether the host's code runs in it: then it begins when all before it has ended, and leaves
  /// nothing undone when run() returns.
  [[nodiscard]] virtual bool host_takes_part() const noexcept { return false; }

 private:
  friend class Door;
  friend class Queued;
  /// Instead of its destruction, once nothing needs what it does any more.
  virtual void retire(std::shared_ptr<Execution> /*execution*/) noexcept { delete this; }

  /// Memory that this is the first to use.
  struct Fresh {
    std::byte* data;
    std::size_t bytes;
    std::shared_ptr<Stream> queue;  ///< that reaches it
    bool overwritten;               ///< whole, or it fails as it runs: only then it needs zeros
    bool zeroed;                    ///< by the task
    BufferState* buffer;            ///< while it is being submitted
  };

  const bool again_ = false;
  std::shared_ptr<Execution> execution_;
  std::vector<std::shared_ptr<const Memory>> kept_;  // all that it accesses, until it ended
  std::shared_ptr<const Memory> merged_;             // likewise: what it merges
  std::vector<Fresh> fresh_;
};

/// The operation that calls `run`, which is given the execution and gives a Status.
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

/// Whatever may be finalised, after which no work uses it.
class Living {
 public:
  Living() = default;
  Living(const Living&) = delete;
  Living& operator=(const Living&) = delete;

  /// Under the ledger of its device.
  [[nodiscard]] virtual bool is_finalised_locked() const noexcept = 0;
  /// Throws failed_precondition, naming it.
  [[noreturn]] virtual void refuse_finalised() const = 0;

 protected:
  ~Living() = default;
};
/// Throws that where one of them was. Under the ledgers of their devices.
void refuse_finalised(std::span<const Living* const> users);

/// What a work does with the merge buffer of its device. That is decided while nobody else's work
/// can come between it and the ticket.
class MergeUse {
 public:
  MergeUse() = default;
  MergeUse(const MergeUse&) = delete;
  MergeUse& operator=(const MergeUse&) = delete;

  struct Needs {
    const Accesses& accesses;  ///< all of the work; kept by the use
    std::shared_ptr<const Memory> memory{};
  };
  /// The slot is locked from here until settle() or a refusal. Asked again where the queue was full
  /// meanwhile. Throws Error where the work cannot be: then it is refused so.
  [[nodiscard]] virtual Needs resolve(const DeviceState& device) = 0;
  /// The work took its ticket: what the slot holds from here on.
  virtual void settle(MergeSlot& slot, const Event& taken) noexcept = 0;

 protected:
  ~MergeUse() = default;
};

/// What else has to be so at the moment at which a work takes its ticket.
class Condition {
 public:
  Condition() = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  /// Locks what it looks at, until release(). false: it is not so; nothing is locked, and the work
  /// is refused.
  [[nodiscard]] virtual bool hold() noexcept = 0;
  /// The work has that ticket. Null: it was refused, or it waits for room, and hold() is asked
  /// again.
  virtual void release(const Event* taken) noexcept = 0;

 protected:
  ~Condition() = default;
};

/// How a work is submitted.
struct SubmitOptions : sched::SubmitOptions {
  std::optional<Sync> sync{};  ///< unset: as its device's backend says
  bool lists_events = true;    ///< the call that asks for it takes events to come after
};
/// For calls that take no events.
[[nodiscard]] inline SubmitOptions without_events(const std::source_location& where) {
  SubmitOptions options;
  options.site = where;
  options.lists_events = false;
  return options;
}

/// How a transfer (TransferOptions) or a run (ScheduleOptions) is submitted that was asked for at
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

/// One task: what it does, and all that it touches. Points to what the caller keeps during the
/// call.
struct Work {
  sched::Label label;
  std::unique_ptr<Operation> operation;
  const Accesses& accesses;
  MergeUse* merge = nullptr;  ///< null: it does not use the merge buffer
  /// Those that must not have been finalised, with the ledgers of their devices among its accesses.
  std::span<const Living* const> users{};
  /// It gives what it touches its first values, however it ends.
  bool first_values = false;
  /// What it comes after, whatever its order is, beside SubmitOptions::after.
  std::span<const sched::Awaited> after{};
  /// It is part of what was accepted: where what it reads was not written, it is skipped instead of
  /// refused.
  bool accepted = false;
  Chosen statics{};                ///< of the routine that it launches
  Condition* condition = nullptr;  ///< null: none
};

/// Checks and notes what the work touches at the moment at which it takes its ticket. No lock is
/// held while it waits for room in the queue. Throws Error when it is refused: failed_precondition
/// naming tensor, taker and place where a buffer was donated, or the context, device or backend
/// that was finalised; what the merge use says; else what the scheduler does.
Event submit(const DeviceState& device, Work work, const SubmitOptions& options = {});

/// As submit(), but for what the event says where it was refused by the scheduler or the merge use:
/// that is the caller's to look at. It writes no buffer.
Event ask(const DeviceState& device, Work work, const SubmitOptions& options);

/// A launch that holds what it uses by being counted there.
struct Counted {
  const DeviceState& device;
  const Living& user;
  sched::Label label;
  const Accesses& accesses;
  sched::SplitCount<>& launches;
};
/// As submit(), of such a launch; not where it uses_fresh(). The queue has the task itself, not in
/// memory of its own: `ops` make it from `from`.
Event submit_counted(const Counted& launch, std::span<const std::int64_t> statics,
                     const sched::TaskOps& ops, void* from, const SubmitOptions& options);

/// Hazards::doubt(), of one use: a task that cannot be told what it is to look at does not run.
void doubt(const Hazards& hazards, const Hazards::Next& next, sched::TaskNote& note) noexcept;

/// Whether one of the buffers may be fresh: the work that uses it then is an operation.
[[nodiscard]] bool uses_fresh(const Accesses& accesses) noexcept;

/// For messages: "tensor 'x' f32[4]".
[[nodiscard]] std::string name_of(const Access& access);
/// Why `user` cannot use memory that was donated, or not given yet. Under the ledger.
[[nodiscard]] Status absent(const Access& access, std::string_view user);
/// Why `user` cannot read what `write`, which ended badly, should have left, nor write a part of
/// it.
[[nodiscard]] Status not_written(const Access& access, std::string_view user, const Event& write);

/// Throws failed_precondition when the buffer was donated, naming tensor or type, taker and place.
/// `user` would use it, maybe once it has the memory that it was promised.
void require_live(const Access& access, std::string_view user);

}  // namespace heddle::rt
