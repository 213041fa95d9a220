// The verifier: what a legal loop kernel is. Run between passes and on parsed text. Pure; any
// thread.
#pragma once

#include <memory>
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

/// The same for parallel loops: no iteration reads or writes elements that another one writes,
/// zeroes a buffer or assigns a local from outside.
[[nodiscard]] std::string broken_parallel_loop(const Block& body);

}  // namespace heddle::jit
