// What a group of a GPU's threads does, as each of its threads sees it: which local blocks are its
// own, in registers, and which all of them share. Pure; any thread.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

[[nodiscard]] inline bool is_block_loop(const Stmt& stmt) {
  return stmt.kind == StmtKind::loop && stmt.mark == LoopMark::block;
}

struct GroupBody {
  /// The statements. Blocks that are a thread's own are without the axes of the threads: what was
  /// x1[i5, i6, 3] is x1[3].
  Block statements;
  std::set<LocalId> shared;  ///< local blocks in the memory of the group
  bool has_threads = false;  ///< false: one thread does it all
  bool meets = false;        ///< threads wait for each other
};

/// Of the body of parallel loops. A block is a thread's own where each access to it has the
/// variables of the block loops around it as its first subscripts, in their order, and these loops
/// run over all of its first axes.
[[nodiscard]] GroupBody group_body(const Block& body);

/// Bytes of the blocks that the threads of a group share, in a parallel loop; and whether threads
/// of such a group wait for each other. 0 and false for any other statement.
struct GroupNeeds {
  std::int64_t shared_bytes = 0;
  bool meets = false;
};
[[nodiscard]] GroupNeeds group_needs(const StmtPtr& nest);

/// The block loop and those alone in it, outermost first.
[[nodiscard]] std::vector<const Stmt*> threads_of(const Stmt& loop);

}  // namespace heddle::jit
