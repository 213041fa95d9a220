// Accesses: the list of bytes that a work uses, and the words of messages about them. Values; any
// thread, with the ledgers locked where stated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/loop/interface.hpp"
#include "runtime/memory/buffer_state.hpp"

namespace heddle::rt {

struct HostUses;

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
    Hazards::Next next;
    set_next(next, touch, timeline, disturbances, automatic, statics);
    return next;
  }
  /// next(), written in its place.
  static void set_next(Hazards::Next& next, const Touch& touch, std::uint64_t timeline,
                       std::uint64_t disturbances, bool automatic, const Chosen& statics) noexcept {
    next.timeline = timeline;
    next.disturbances = disturbances;
    next.range.begin = touch.range.begin;
    next.range.end = touch.range.end;
    next.use = touch.use;
    next.automatic = automatic || touch.named.taker != nullptr;
    next.accepted = false;
    if (!statics || touch.named.slice == nullptr) return;
    const jit::Slice& slice = *touch.named.slice;
    const auto [begin, end] = slice.at(*statics);
    next.range = {touch.range.begin + begin, touch.range.begin + end};
    if (slice.overwritten) next.use = Use::overwrite;
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
