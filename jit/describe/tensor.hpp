// The state behind Tensor, and the refinement table of memory modes. One lock guards the modes and
// host storage of all tensors; the other fields are immutable.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "heddle/program.hpp"
#include "scheduler/threads/process_mutex.hpp"

namespace heddle::jit {

/// A ProcessMutex, because forked children use the tensors of their parents.
extern constinit sched::ProcessMutex wishes_mutex;

struct TensorState {
  std::uint64_t id = 0;
  std::string label;
  ArrayType type;
  MemoryMode mode = MemoryMode::unset;  // guarded by wishes_mutex, as all fields below
  std::string provenance;               // the source location of the request for `mode`
  std::optional<HostArray> host;
};

[[nodiscard]] bool is_hosted(MemoryMode mode) noexcept;

/// The mode after a request for `wanted` on a tensor of mode `current`. Throws invalid_argument
/// that names `tensor` and both provenances when the modes exclude each other.
[[nodiscard]] MemoryMode refine(std::string_view tensor, MemoryMode current,
                                std::string_view current_provenance, MemoryMode wanted,
                                std::string_view wanted_provenance);
/// The result of refine(); nullopt where refine() would throw.
[[nodiscard]] std::optional<MemoryMode> try_refine(MemoryMode current, MemoryMode wanted) noexcept;

/// A process-wide identity, never reused. Ids order objects by creation and appear in no text.
[[nodiscard]] std::uint64_t next_id() noexcept;

}  // namespace heddle::jit
