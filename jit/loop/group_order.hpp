// What the threads of a group touch in block loops, and what follows for their order: where they
// wait for each other, and which copies may end later. Pure; any thread.
#pragma once

#include <map>
#include <set>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The memory that threads touch. All buffers count as one: two of them may share memory.
struct GroupTouch {
  bool reads_buffers = false, writes_buffers = false;
  std::set<LocalId> reads, writes;  ///< blocks that the threads share
  void add(const GroupTouch& more);
  [[nodiscard]] bool is_empty() const noexcept {
    return !reads_buffers && !writes_buffers && reads.empty() && writes.empty();
  }
};
/// The touches of a body, where the threads share the blocks `shared`.
[[nodiscard]] GroupTouch touched_by(const Block& body, const std::set<LocalId>& shared);
/// True if one of two block loops writes memory that the other touches: threads have to wait for
/// each other in between.
[[nodiscard]] bool meet_in_memory(const GroupTouch& one, const GroupTouch& other);

/// The shared blocks, with types, that the threads of a block loop only copy elements of buffers
/// to, each element once, where they store to no buffer: such copies may end as late as the threads
/// next wait for each other. Elements have 4 or 8 bytes.
[[nodiscard]] std::set<LocalId> copied_blocks(const Block& thread,
                                              const std::map<LocalId, ArrayType>& shared);

}  // namespace heddle::jit
