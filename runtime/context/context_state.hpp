// What is behind Context and Routine. Immutable, but for what finalising takes away.
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

/// A tensor that a routine of the lineage assigns and keeps to itself (virtual or local), so its
/// latest values are nowhere; or one whose memory it takes.
struct Hidden {
  std::string routine;
  MemoryMode mode;
  std::optional<BufferView> view{};  ///< what the lineage has for it, with values from before
  std::string taker{};               ///< the tensor that has its memory; empty: none
};

struct Held {
  Tensor tensor;
  BufferView view;
  // As the code that was linked last knows them, or as they were when Context::with() was called.
  MemoryMode mode = MemoryMode::unset;
  std::optional<HostArray> host{};
};

/// What a launch needs: kept by the handles of its routine, and by the tasks, so it keeps code and
/// memory while they are queued. The buffers go with the last handle: then nobody can schedule it.
/// Made by make_linked().
struct Linked : Loaded {
  /// Per signature entry; the merge entry and scratch are empty.
  std::vector<std::optional<BufferView>> entries;
  std::shared_ptr<Execution> execution;
  sched::Label label;
  std::shared_ptr<const Memory> scratch{};  ///< null: it has none
  Tables tables{};
  Accesses accesses{};  ///< those of `entries`; with the ledger of its device
  std::vector<std::shared_ptr<const Memory>> memories{};  ///< of `entries`
  /// Launches in the queue that hold it by being counted; they begin with that ledger locked.
  mutable sched::SplitCount<> launches{};
};
/// Goes with its last handle or launch, whichever is later. All that it has is filled in by then.
[[nodiscard]] std::shared_ptr<Linked> make_linked(Loaded loaded,
                                                  std::vector<std::optional<BufferView>> entries,
                                                  std::shared_ptr<Execution> execution);

/// What a context keeps in memory; nothing of it changes.
struct Contents {
  std::map<std::uint64_t, Held> held;      ///< by tensor id
  std::map<std::uint64_t, Hidden> hidden;  ///< by tensor id
  std::shared_ptr<const Linked> routine;   ///< whose link made the context; null: none did
};

struct ContextState final : Living {
  ContextState() = default;
  /// Ends a long chain of parents one by one, not by recursion.
  ~ContextState();

  std::shared_ptr<DeviceState> device;
  std::shared_ptr<const ContextState> parent;
  std::string label;
  std::optional<Tensor> expected_merge;

  /// Once, before others know the context.
  void fill(std::shared_ptr<const Contents> contents) noexcept { contents_ = std::move(contents); }
  /// Null when the context was finalised, or in a forked child that cannot look into it. What the
  /// caller holds stays as it is meanwhile.
  [[nodiscard]] std::shared_ptr<const Contents> contents() const noexcept;
  [[nodiscard]] std::shared_ptr<const Linked> routine() const noexcept;
  /// The same for a caller that has locked the ledger of the device, while it has.
  [[nodiscard]] const Linked* locked_routine() const noexcept {
    return contents_ ? contents_->routine.get() : nullptr;
  }
  [[nodiscard]] bool is_finalised_locked() const noexcept override { return !contents_; }
  [[noreturn]] void refuse_finalised() const override;
  /// Lets go of what it holds; memory is freed once nothing else holds it and the tasks that use it
  /// ended.
  void finalize() const noexcept;

 private:
  mutable sched::ObjectMutex mutex_;                  // or the ledger of the device: either guards
  mutable std::shared_ptr<const Contents> contents_;  // taken away with both locked
};

struct RoutineState {
  Code code;
  std::shared_ptr<const ContextState> context;  ///< whose contents have what a launch needs
  bool small = false;                           ///< see is_small()
};

/// Throws failed_precondition when the context was finalised, unavailable in a forked child that
/// cannot look into it.
[[nodiscard]] std::shared_ptr<const Contents> require_usable(const ContextState& context);
/// What the context has for `tensor`; nullopt when it has nothing. Throws failed_precondition for a
/// finalised context, and for a tensor that is hidden there, naming it and the routine.
[[nodiscard]] std::optional<Held> find_held(const ContextState& context, const Tensor& tensor);
/// Its memory, kept together with all that the context has now. Null when it has none. Throws as
/// find_held().
[[nodiscard]] std::shared_ptr<const BufferView> find_view(const ContextState& context,
                                                          const Tensor& tensor);
/// Why `tensor`, hidden in `context`, cannot be had there.
[[nodiscard]] std::string hidden_text(const ContextState& context, const Tensor& tensor,
                                      const Hidden& hidden);
/// A context below `parent` that no link made.
[[nodiscard]] std::shared_ptr<ContextState> child_of(
    const std::shared_ptr<const ContextState>& parent, std::shared_ptr<const Contents> contents,
    std::optional<Tensor> expected_merge);
[[nodiscard]] Routine link(const std::shared_ptr<const ContextState>& context, const Code& code,
                           const LinkOptions& options, const std::source_location& where);

}  // namespace heddle::rt
