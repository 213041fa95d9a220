// The verifier: the rules of a legal loop kernel. Run between passes and on parsed text. Pure; any
// thread.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "heddle/status.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// Returns ok, or invalid_argument naming the statement and the broken rule: buffers, statics,
/// variables and locals are declared before use and once; subscripts match the rank and stay inside
/// the extents for all loop values (except terms of static indices, which signature bounds cover,
/// and prefetches for reading, which may go an extent beyond either end); dtypes agree; roles are
/// kept (no store to an input or merge buffer); at most one merge buffer; arithmetic only in
/// compute types; loops obey their marks, see below.
[[nodiscard]] Status verify(const Loop& loop);

/// A shared handle of a loop that passed the verifier: its holder need not verify again.
class VerifiedLoop {
 public:
  VerifiedLoop() noexcept = default;  ///< holds no loop
  /// Throws the error of verify().
  explicit VerifiedLoop(Loop loop);

  explicit operator bool() const noexcept { return loop_ != nullptr; }
  const Loop& operator*() const noexcept { return *loop_; }
  const Loop* operator->() const noexcept { return loop_.get(); }
  operator const Loop&() const noexcept { return *loop_; }
  /// True if both are handles of the same loop, which was verified once.
  [[nodiscard]] bool shares(const VerifiedLoop& other) const noexcept {
    return loop_ == other.loop_;
  }

 private:
  std::shared_ptr<const Loop> loop_;
};

/// The result of `stage` on `before`; returns `before` itself where the stage changed nothing.
/// Throws internal, as a stage that breaks the IR is a bug of heddle: found right after the stage,
/// not in a compiler's words.
[[nodiscard]] VerifiedLoop verified_after(std::string_view stage, const Loop& loop,
                                          const VerifiedLoop& before);

/// The rule that a mark breaks, or an empty string. Lanes loops hold straight-line code, assign no
/// scalar that is declared outside, and touch written elements at different subscripts in every
/// iteration; the copies that marks make stay below copies_max. Expects a kernel that is legal
/// otherwise.
[[nodiscard]] std::string broken_mark(const Block& body);

/// The rule that a parallel or block loop breaks, or an empty string.
/// - No iteration reads or writes elements that another iteration writes, zeroes a buffer, or
///   assigns a local from outside; except for scratch of which parts have separate copies
///   (loop/own_scratch.hpp), and for buffers that the loop accesses by atomic accumulations of one
///   operation alone (loop/accumulation.hpp).
/// - A parallel loop with block loops contains only: block loops, perhaps perfectly nested, with at
///   most group_threads_max iterations together; local blocks that start with a constant, with at
///   most group_bytes_max bytes shared by all threads; plain loops around these.
/// - No iteration of a block loop touches elements of such a local block that another iteration
///   writes.
[[nodiscard]] std::string broken_parallel_loop(const Loop& loop);
/// The reason why the iterations of a loop cannot run in parallel, where iterations have separate
/// copies of the buffers `own`; empty: they can.
[[nodiscard]] std::string shared_by_iterations(const Stmt& nest, const std::set<BufferId>& own);
/// True if the iterations of parallel and block loops, of `stmt` and inside it, can run in
/// parallel.
[[nodiscard]] bool shared_out_loops_share_nothing(const StmtPtr& stmt);

}  // namespace heddle::jit
