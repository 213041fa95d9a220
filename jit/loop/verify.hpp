// The verifier: what a legal loop kernel is. Run between passes and on parsed text. Pure; any
// thread.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "heddle/status.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// ok, or invalid_argument naming the statement and the rule it breaks: buffers, statics, variables
/// and locals are declared before use and once; subscripts match the rank and stay inside the
/// extents for all loop values (terms of static indices excluded: signature bounds cover those),
/// but that a prefetch of what is to be read may go one extent beyond either end; dtypes agree;
/// roles are kept (no store to an input or merge buffer); at most one merge buffer; arithmetic only
/// in compute types; loops are what their marks say, see below.
[[nodiscard]] Status verify(const Loop& loop);

/// A loop that the verifier found legal: what is given one need not ask again. A shared handle.
class VerifiedLoop {
 public:
  VerifiedLoop() noexcept = default;  ///< holds none
  /// Throws what verify() answers.
  explicit VerifiedLoop(Loop loop);

  explicit operator bool() const noexcept { return loop_ != nullptr; }
  const Loop& operator*() const noexcept { return *loop_; }
  const Loop* operator->() const noexcept { return loop_.get(); }
  operator const Loop&() const noexcept { return *loop_; }
  /// Whether both are handles of one loop, which was verified once.
  [[nodiscard]] bool shares(const VerifiedLoop& other) const noexcept {
    return loop_ == other.loop_;
  }

 private:
  std::shared_ptr<const Loop> loop_;
};

/// What `stage` made of `before`: the same handle where it changed nothing. Throws internal, as a
/// stage that breaks the IR is heddle's fault: found behind it, not in a compiler's words.
[[nodiscard]] VerifiedLoop verified_after(std::string_view stage, const Loop& loop,
                                          const VerifiedLoop& before);

/// The rule that a mark breaks, or nothing. Lanes loops hold straight-line code, assign no scalar
/// that is declared outside, and touch what they write at other elements in every iteration; what
/// marks copy stays below copies_max. Expects a kernel that is legal otherwise.
[[nodiscard]] std::string broken_mark(const Block& body);

/// The same for parallel and block loops: no iteration reads or writes elements that another one
/// writes, zeroes a buffer or assigns a local from outside; but for scratch of which parts have one
/// each (loop/own_scratch.hpp). What parallel loops do that have block loops in them: block loops,
/// of which others may be in one, alone, with at most group_threads_max iterations together; local
/// blocks that start with a constant, of which all threads share no more than group_bytes_max;
/// plain loops around these. No iteration of a block loop touches elements of such a block that
/// another one writes.
[[nodiscard]] std::string broken_parallel_loop(const Loop& loop);
/// What keeps the iterations of a loop from running at once, where each has its own of the buffers
/// `own`; empty: nothing does.
[[nodiscard]] std::string shared_by_iterations(const Stmt& nest, const std::set<BufferId>& own);
/// Whether nothing keeps those of parallel and block loops, of this one and inside it.
[[nodiscard]] bool shared_out_loops_share_nothing(const StmtPtr& stmt);

}  // namespace heddle::jit
