// The state behind Context and Routine. Immutable, but for the contents that finalising drops.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/routine.hpp"
#include "runtime/door/submit.hpp"
#include "runtime/launch/loaded.hpp"
#include "scheduler/protocol/split_count.hpp"
#include "scheduler/threads/object_mutex.hpp"

namespace heddle::rt {

/// A tensor whose values a context lacks: a routine of the lineage assigns the tensor and keeps the
/// values to itself (virtual or local), or takes the tensor's memory.
struct Hidden {
  std::string routine;
  MemoryMode mode;
  std::optional<BufferView> view{};  ///< the lineage's memory of the tensor, with older values
  std::string taker{};               ///< the tensor that took the memory; empty: none
};

struct Held {
  Tensor tensor;
  BufferView view;
  // The state in the last linked code, or at the call of Context::with().
  MemoryMode mode = MemoryMode::unset;
  std::optional<HostArray> host{};
};

/// The data for launches of a routine. Held by the routine's handles and by queued tasks, to keep
/// code and memory alive. The buffers go with the last handle, as nobody can schedule the routine
/// any more. Made by make_linked().
struct Linked : Loaded {
  /// Per signature entry; the merge entry and scratch are empty.
  std::vector<std::optional<BufferView>> entries;
  std::shared_ptr<Execution> execution;
  sched::Label label;
  std::shared_ptr<const Memory> scratch{};  ///< null: the code needs no scratch memory
  Tables tables{};
  Accesses accesses{};  ///< accesses of `entries`, and the ledger (the device lock)
  std::vector<std::shared_ptr<const Memory>> memories{};  ///< memory of `entries`
  /// Counts queued launches that hold this object; begin() is called with the ledger locked.
  mutable sched::SplitCount<> launches{};
};
/// Destroyed with the last handle or the last launch, whichever is later. The caller fills in the
/// rest before the first launch.
[[nodiscard]] std::shared_ptr<Linked> make_linked(Loaded loaded,
                                                  std::vector<std::optional<BufferView>> entries,
                                                  std::shared_ptr<Execution> execution);

/// The contents of a context; immutable.
struct Contents {
  std::map<std::uint64_t, Held> held;      ///< by tensor id
  std::map<std::uint64_t, Hidden> hidden;  ///< by tensor id
  /// the routine whose link made the context; null: no link did
  std::shared_ptr<const Linked> routine;
};

struct ContextState final : Living {
  ContextState() = default;
  /// Destroys a long chain of parents in a loop, without recursion.
  ~ContextState();

  std::shared_ptr<DeviceState> device;
  std::shared_ptr<const ContextState> parent;
  std::string label;
  std::optional<Tensor> expected_merge;

  /// Once, before the context is visible to other threads.
  void fill(std::shared_ptr<const Contents> contents) noexcept { contents_ = std::move(contents); }
  /// Null after finalize(), or in a forked child that cannot take the lock. The contents stay
  /// unchanged while the caller holds the pointer.
  [[nodiscard]] std::shared_ptr<const Contents> contents() const noexcept;
  [[nodiscard]] std::shared_ptr<const Linked> routine() const noexcept;
  /// The routine, without a lock of the context's own. The ledger of the device must be locked, and
  /// the pointer is valid until the unlock.
  [[nodiscard]] const Linked* locked_routine() const noexcept {
    return contents_ ? contents_->routine.get() : nullptr;
  }
  [[nodiscard]] bool is_finalised_locked() const noexcept override { return !contents_; }
  [[noreturn]] void refuse_finalised() const override;
  /// Drops the contents; memory is freed once no other owner holds it and the tasks that use it
  /// have ended.
  void finalize() const noexcept;

 private:
  mutable sched::ObjectMutex mutex_;  // readers hold this mutex or the ledger of the device
  mutable std::shared_ptr<const Contents> contents_;  // reset with both locks held
};

struct RoutineState {
  Code code;
  std::shared_ptr<const ContextState> context;  ///< the contents have the launch data
  bool small = false;                           ///< see is_small()
};

/// Throws failed_precondition after finalize(), and unavailable in a forked child that cannot take
/// the lock.
[[nodiscard]] std::shared_ptr<const Contents> require_usable(const ContextState& context);
/// The context's entry for `tensor`; nullopt: there is none. Throws failed_precondition for a
/// finalised context, and for a hidden tensor, naming the tensor and the routine.
[[nodiscard]] std::optional<Held> find_held(const ContextState& context, const Tensor& tensor);
/// The view of the tensor's memory; the pointer keeps the current contents of the context alive.
/// Null: there is none. Throws as find_held() does.
[[nodiscard]] std::shared_ptr<const BufferView> find_view(const ContextState& context,
                                                          const Tensor& tensor);
/// The error text for `tensor`, hidden in `context`.
[[nodiscard]] std::string hidden_text(const ContextState& context, const Tensor& tensor,
                                      const Hidden& hidden);
/// A context below `parent` that no link made.
[[nodiscard]] std::shared_ptr<ContextState> child_of(
    const std::shared_ptr<const ContextState>& parent, std::shared_ptr<const Contents> contents,
    std::optional<Tensor> expected_merge);
[[nodiscard]] Routine link(const std::shared_ptr<const ContextState>& context, const Code& code,
                           const LinkOptions& options, const std::source_location& where);

}  // namespace heddle::rt
