// The state behind Tensor, and the refinement table of memory modes.
// A tensor's mode and host storage are guarded by one lock for all tensors; the rest is immutable.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "heddle/program.hpp"
#include "scheduler/threads/process_mutex.hpp"

namespace heddle::jit {

/// Forked children describe with the tensors of their parents.
extern constinit sched::ProcessMutex wishes_mutex;

struct TensorState {
  std::uint64_t id = 0;
  std::string label;
  ArrayType type;
  MemoryMode mode = MemoryMode::unset;  // guarded by wishes_mutex, as all below
  std::string provenance;               // where `mode` was asked for
  std::optional<HostArray> host;
};

[[nodiscard]] bool is_hosted(MemoryMode mode) noexcept;

/// What `current` becomes when `wanted` is asked for. Throws invalid_argument naming `tensor` and
/// both provenances when the two exclude each other.
[[nodiscard]] MemoryMode refine(std::string_view tensor, MemoryMode current,
                                std::string_view current_provenance, MemoryMode wanted,
                                std::string_view wanted_provenance);
/// Whether refine() would accept.
[[nodiscard]] std::optional<MemoryMode> try_refine(MemoryMode current, MemoryMode wanted) noexcept;

/// A process-wide identity, never reused. Ids order things by creation and stay out of every text.
[[nodiscard]] std::uint64_t next_id() noexcept;

}  // namespace heddle::jit
