// The types of gather, scatter and order. Pure; any thread.
#pragma once

#include <span>

#include "heddle/types.hpp"
#include "jit/graph/nodes.hpp"

namespace heddle::jit {

[[nodiscard]] ArrayType gather_type(const GraphNode& node, std::span<const ArrayType> args);
[[nodiscard]] ArrayType scatter_type(const GraphNode& node, std::span<const ArrayType> args);
[[nodiscard]] ArrayType order_type(const GraphNode& node, std::span<const ArrayType> args);

}  // namespace heddle::jit
