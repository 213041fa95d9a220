// Checks of node types. Each check throws Error(invalid_argument) that says what was expected and
// how to fix the call. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "heddle/types.hpp"
#include "jit/graph/nodes.hpp"

namespace heddle::jit {

[[noreturn]] void refuse_node(std::string text);

[[nodiscard]] inline std::int64_t rank_of(const ArrayType& type) {
  return static_cast<std::int64_t>(type.dims.size());
}

void require_count(const Numbers& field, std::size_t count, std::string_view what);
void require_axis(std::int64_t axis, const ArrayType& type);
/// Requires axes of `type`, without duplicates.
void require_axes(const Numbers& axes, const ArrayType& type);
/// Requires equal dtypes.
void require_alike(const ArrayType& given, const ArrayType& arg);
/// Requires an operation that reduces arrays.
void require_reduction(Op op);

}  // namespace heddle::jit
