// The state behind Tensor, and the refinement table of memory modes.
// A tensor's mode and host storage are guarded by its mutex; the rest is immutable.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "heddle/program.hpp"

namespace heddle::jit {

struct TensorState {
  std::uint64_t id = 0;
  std::string label;
  ArrayType type;
  mutable std::mutex mutex;
  MemoryMode mode = MemoryMode::unset;  // guarded by mutex
  std::string provenance;               // guarded by mutex: where `mode` was asked for
  std::optional<HostArray> host;        // guarded by mutex
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
