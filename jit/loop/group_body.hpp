// The work of a group of GPU threads, as each thread sees it: local blocks that belong to a thread,
// in registers, and blocks that all threads share. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

[[nodiscard]] inline bool is_block_loop(const Stmt& stmt) {
  return stmt.kind == StmtKind::loop && stmt.mark == LoopMark::block;
}

struct GroupBody {
  /// The statements. Blocks of a single thread lose the axes of the threads: x1[i5, i6, 3] becomes
  /// x1[3].
  Block statements;
  std::set<LocalId> shared;  ///< local blocks in the memory of the group
  bool has_threads = false;  ///< false: a single thread runs the whole body
  bool meets = false;        ///< threads wait for each other
  /// By the variable of an outermost block loop: the blocks that its threads only copy elements to
  /// (group_order.hpp).
  std::map<VarId, std::set<LocalId>> copies;
};

/// The group body of parallel loops. A block belongs to a thread where each access has the
/// variables of the surrounding block loops as its first subscripts, in their order, and these
/// loops run over all of the block's first axes.
[[nodiscard]] GroupBody group_body(const Block& body);

/// Bytes of the blocks that the threads of a group share, in a parallel loop; `meets`: the threads
/// of the group wait for each other. 0 and false for any other statement.
struct GroupNeeds {
  std::int64_t shared_bytes = 0;
  bool meets = false;
};
[[nodiscard]] GroupNeeds group_needs(const StmtPtr& nest);

/// The block loop, and the block loops perfectly nested inside, outermost first.
[[nodiscard]] std::vector<const Stmt*> threads_of(const Stmt& loop);

}  // namespace heddle::jit
