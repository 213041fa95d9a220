// See gpu_wide.hpp.
#include "jit/schedule/gpu_wide.hpp"

#include <algorithm>

#include "jit/loop/address.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/loop/wide_access.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// Values and statements of a body that is worth copying for each neighbour.
constexpr std::int64_t wide_nodes_max = 256;

/// Calls visit(buffer, subscripts) with each access of the body to a buffer.
template <class Visit>
void each_access(const Block& body, const Visit& visit) {
  walk(body, [&](const Stmt& stmt) {
    if (stmt.value) {
      walk(*stmt.value, [&](const Value& v) {
        if (v.kind == ValueKind::load) visit(v.buffer, v.subscripts);
      });
    }
    if (stmt.kind == StmtKind::store) visit(stmt.buffer, stmt.subscripts);
  });
}

}  // namespace

std::int64_t neighbours_at_once(const Loop& kernel, const Block& body, VarId var) {
  if (!is_straight(body)) return 1;
  std::int64_t nodes = 0;
  walk(body, [&nodes](const Stmt&) { ++nodes; });
  walk_values(body, [&nodes](const Value&) { ++nodes; });
  if (nodes > wide_nodes_max) return 1;
  std::int64_t bytes = 0;
  bool scattered = false;
  each_access(body, [&](BufferId buffer, const std::vector<Affine>& at) {
    const std::int64_t step = stride(kernel, buffer, at, var);
    const auto size = static_cast<std::int64_t>(size_of(kernel.buffers[buffer].type.dtype));
    if (step == 1) bytes = std::max(bytes, size);
    scattered = scattered || (step != 0 && step != 1);
  });
  return scattered || bytes == 0 ? 1 : wide_bytes_max / bytes;
}

bool accesses_are_wide(const Loop& kernel, const StmtPtr& lanes) {
  if (!broken_mark({lanes}).empty()) return false;
  const std::vector<WideAccess> wide =
      wide_accesses(kernel.buffers, *lanes, [](LocalId) -> const ArrayType* { return nullptr; });
  bool all = true;
  each_access(lanes->body, [&](BufferId buffer, const std::vector<Affine>& at) {
    auto [first, step] = split_lane(flatten(kernel.buffers[buffer].type, at), lanes->var);
    all = all && (step == 0 || std::ranges::any_of(wide, [&](const WideAccess& each) {
                    return each.id == buffer && each.first == first;
                  }));
  });
  return all;
}

}  // namespace heddle::jit
