// The longest scalar code of a scheduled kernel, and the cause for the lack of vectors: an estimate
// for people. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "jit/lower/lower.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// Statements of one nest that run element by element.
struct ScalarPart {
  enum class Cause : std::uint8_t {
    writes_at,   ///< stores to `other` at computed positions, in order
    reads_at,    ///< loads from `other` at computed positions
    steps,       ///< accesses `other` by every `step`-th element
    sizes,       ///< computes with types `one` and `two` of different sizes
    no_vectors,  ///< computes with type `one`, a type without vectors
    form,        ///< no step of the schedule takes loops of this form
  };
  BufferId computes = 0;  ///< the buffer that the statements store to
  double share = 0;       ///< of the kernel's estimated time: 0 to 1
  Cause cause = Cause::form;
  BufferId other = 0;
  std::int64_t step = 0;
  DType one = DType::f32, two = DType::f32;
};

/// None where scalar code takes less than half of the estimated time, or little time at all.
[[nodiscard]] std::optional<ScalarPart> longest_scalar_part(const Lowered& scheduled,
                                                            const Target& target);
/// "'y' takes 93 % of the estimated time, as scalar code: it reads 'x' by every 3rd element".
/// `label`: returns the label of a buffer.
[[nodiscard]] std::string text_of(const ScalarPart& part,
                                  const std::function<std::string_view(BufferId)>& label);

}  // namespace heddle::jit
