// Parallel loops: which nests of a scheduled kernel may run in parts at once, and how many parts
// are worth it. What is computed never depends on that: parts share out iterations, which keep
// their order of sums. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "jit/loop/boxes.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// A kernel is run in so many parts at most.
inline constexpr std::uint32_t parts_max = 256;

/// The statements, loops of the top level among them marked as parallel: those whose iterations
/// touch nothing that another one writes, where they make two parts or more of `part_bytes` each.
[[nodiscard]] Block mark_parallel(const Loop& loop, std::int64_t part_bytes);

/// How many parts of a kernel, as cut_kernels() leaves it, are worth it; 1: it is none to share
/// out.
[[nodiscard]] std::uint32_t parts_of(const Loop& kernel, std::int64_t part_bytes);

/// Whose scratch is that which nothing is left in for a later iteration (loop/own_scratch.hpp).
enum class ScratchOf : std::uint8_t {
  each_part,
  all_parts,  ///< of a GPU's groups
};

/// The same, without the marks where a statement of the top level meets what a parallel one does:
/// parts of a kernel do not wait for each other.
[[nodiscard]] Loop with_parts_apart(Loop kernel, ScratchOf scratch = ScratchOf::each_part);

/// What statements touch, for whether they may run at once.
class Touched {
 public:
  explicit Touched(const Loop& loop) : loop_(&loop) {}
  void add(const StmtPtr& stmt);
  void add(const Touched& other);
  /// A loop of the top level among them is parallel.
  [[nodiscard]] bool is_parallel() const noexcept { return is_parallel_; }
  /// Whether one writes what the other one touches, also where a donated input has the memory of
  /// an output of its type. Scratch that parts have their own of is never met.
  [[nodiscard]] bool meets(const Touched& other, const std::set<BufferId>& own) const;

 private:
  /// The least box of all elements; none: any of them.
  struct Part {
    bool whole = false;
    Box box{};
  };
  using Parts = std::map<BufferId, Part>;

  void statement(const Stmt& stmt);
  void touch(Parts& parts, BufferId id, const std::vector<Affine>& subscripts);
  static void merge(Parts& into, const Parts& more);
  static void merge(Part& into, const Part& more);
  [[nodiscard]] static bool overlap(const Part& a, const Part& b);
  [[nodiscard]] bool writes_into(const Touched& other, const std::set<BufferId>& own) const;

  const Loop* loop_;
  std::map<VarId, std::pair<std::int64_t, std::int64_t>> vars_;
  Parts touched_, written_;
  bool is_parallel_ = false;
};

}  // namespace heddle::jit
