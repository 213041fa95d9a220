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

/// A tensor that a routine of the lineage kept to itself (virtual or local), so its values are
/// nowhere.
struct Hidden {
  std::string routine;
  MemoryMode mode;
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
[[nodiscard]] Routine link(const std::shared_ptr<const ContextState>& context, const Code& code,
                           const LinkOptions& options);

}  // namespace heddle::rt
