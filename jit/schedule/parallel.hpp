// Parallel loops: which nests of a scheduled kernel may run in parts at once, and how many parts
// are worthwhile. The results never depend on the number of parts: parts share out iterations,
// which keep their order of sums. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "jit/loop/boxes.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The most parts of a run of a kernel.
inline constexpr std::uint32_t parts_max = 256;

/// The statements, with a parallel mark on each loop of the top level whose iterations touch no
/// element that another iteration writes, where the loop makes at least two parts of `part_bytes`
/// each.
[[nodiscard]] Block mark_parallel(const Loop& loop, std::int64_t part_bytes);

/// The number of worthwhile parts for a kernel after cut_kernels(); 1: the kernel is not worth
/// sharing out.
[[nodiscard]] std::uint32_t parts_of(const Loop& kernel, std::int64_t part_bytes);

/// The owners of separate copies of scratch whose content no later iteration reads
/// (loop/own_scratch.hpp).
enum class ScratchOf : std::uint8_t {
  each_part,
  all_parts,  ///< the groups of a GPU share it
};

/// The kernel, without parallel marks where a statement of the top level conflicts with a parallel
/// statement: parts of a kernel do not wait for each other.
[[nodiscard]] Loop with_parts_apart(Loop kernel, ScratchOf scratch = ScratchOf::each_part);

/// The elements that statements touch, to decide whether the statements may run at once.
class Touched {
 public:
  explicit Touched(const Loop& loop) : loop_(&loop) {}
  void add(const StmtPtr& stmt);
  void add(const Touched& other);
  /// True if a loop of the top level among the statements is parallel.
  [[nodiscard]] bool is_parallel() const noexcept { return is_parallel_; }
  /// True if either set writes elements that the other touches; a donated input may have the memory
  /// of an output of its type. Scratch of which parts have separate copies never conflicts.
  [[nodiscard]] bool meets(const Touched& other, const std::set<BufferId>& own) const;

 private:
  /// The smallest box around all elements; none: any elements.
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
