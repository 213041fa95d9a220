// Donation: which outputs of a kernel may lie in the memory of which inputs. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "jit/loop/interface.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// Conservative: derived from subscripts alone, and from the order of the kernel's loops, marks
/// included.
class Donations {
 public:
  /// For a kernel whose loops are final. `loop` and `buffers` must outlive the object.
  Donations(const Loop& loop, const std::vector<BufferAccess>& buffers);

  /// The last statement of the body that reads a buffer, and the first that writes it, counted from
  /// 1; 0: no statement does.
  [[nodiscard]] std::uint32_t last_read(BufferId id) const { return last_read_[id]; }
  [[nodiscard]] std::uint32_t first_write(BufferId id) const { return first_write_[id]; }

  /// True if the kernel computes the same results where `output`, which it writes whole, has the
  /// memory of `input`, which it only reads: both have the same type, and no element is written
  /// before its last read. Any input qualifies whose last reading statement precedes the first
  /// statement that writes the output.
  [[nodiscard]] bool may_take(BufferId output, BufferId input) const;
  /// The other inputs whose memory an output may take, in order: inputs that are read while the
  /// output is written. To bound the work, the list may be incomplete where there are many inputs,
  /// or many uses of them.
  [[nodiscard]] std::vector<BufferId> taken_while_written(BufferId output) const;

 private:
  using Loops = std::vector<const Stmt*>;  // outermost first
  /// A load, a store, or a zero, which has no subscripts.
  struct Use {
    std::size_t top;   // index among the statements of the body
    std::size_t when;  // in the order of evaluation, within an iteration of all loops around
    Loops around;
    const std::vector<Affine>* subscripts;
  };
  /// Pairs of iterations of two uses: equal in the loops before the `same`-th; in that loop, if the
  /// uses have it in common, the write's iteration is earlier or later.
  enum class Order : std::uint8_t { equal, write_earlier, write_later };
  struct Iterations {
    std::size_t same;
    Order next;
  };
  /// Buffers of the same type: inputs that are read, by their last read, and outputs written whole.
  struct Group {
    std::vector<BufferId> inputs, outputs;
  };

  void group();
  void statement(const Stmt& stmt);
  void loads(const Value& value);
  void write(BufferId id, const std::vector<Affine>* subscripts);
  void add(std::vector<Use>& uses, BufferId id, const std::vector<Affine>* subscripts);
  [[nodiscard]] bool is_read_first(BufferId input, BufferId output, std::size_t& comparisons) const;
  [[nodiscard]] static bool is_before(const Use& read, const Use& write);
  [[nodiscard]] static bool are_apart(const Use& read, const Use& write, Iterations iterations);

  const Loop& loop_;
  const std::vector<BufferAccess>& buffers_;
  std::unordered_map<ArrayType, Group> groups_;
  std::vector<bool> grouped_;  // by buffer: in a group that has inputs and outputs
  std::vector<std::vector<Use>> reads_, writes_;  // by buffer, in order; only of grouped buffers
  std::vector<std::uint32_t> last_read_, first_write_;
  std::size_t top_ = 0, uses_ = 0;
  Loops around_;
};

}  // namespace heddle::jit
