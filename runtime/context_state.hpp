// What is behind Context and Routine. Immutable but for the finalised flag.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/routine.hpp"
#include "jit/code.hpp"
#include "runtime/device_state.hpp"

namespace heddle::rt {

/// A tensor that a routine of the lineage assigns and keeps to itself (virtual or local), so its
/// latest values are nowhere.
struct Hidden {
  std::string routine;
  MemoryMode mode;
  std::optional<BufferView> view;  ///< what the lineage has for it, with values from before
};

struct Held {
  Tensor tensor;
  BufferView view;
};

struct ContextState {
  ContextState() = default;
  ContextState(const ContextState&) = delete;
  ContextState& operator=(const ContextState&) = delete;
  /// Ends a long chain of parents one by one, not by recursion.
  ~ContextState();

  std::shared_ptr<DeviceState> device;
  std::shared_ptr<const ContextState> parent;
  std::string label;
  std::map<std::uint64_t, Held> held;      ///< by tensor id
  std::map<std::uint64_t, Hidden> hidden;  ///< by tensor id
  std::optional<Tensor> expected_merge;
  mutable std::atomic<bool> finalized{false};
};

/// What a launch needs; held by the tasks too, so it keeps code and memory alive while they are
/// queued.
struct Linked {
  Code code;
  jit::KernelStep step;
  std::vector<std::optional<BufferView>>
      entries;  ///< per signature entry; the merge entry is empty
  std::shared_ptr<Execution> execution;
  sched::Label label;
};

struct RoutineState {
  std::shared_ptr<const Linked> linked;
  std::shared_ptr<const ContextState> context;
};

/// Throws failed_precondition when the context was finalised.
void require_usable(const ContextState& context);
/// What the context has for `tensor`; null when it has nothing. Throws failed_precondition for a
/// finalised context, and for a tensor that is hidden there, naming it and the routine.
[[nodiscard]] const Held* find_held(const ContextState& context, const Tensor& tensor);
/// Why `tensor`, hidden in `context`, cannot be had there.
[[nodiscard]] std::string hidden_text(const ContextState& context, const Tensor& tensor,
                                      const Hidden& hidden);
[[nodiscard]] Routine link(const std::shared_ptr<const ContextState>& context, const Code& code,
                           const LinkOptions& options);

}  // namespace heddle::rt
