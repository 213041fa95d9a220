// Donation: which outputs of a kernel may lie in the memory of which inputs. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "jit/loop/interface.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// On the safe side: from subscripts alone, and as the kernel's loops run, marks included.
class Donations {
 public:
  /// Of a kernel whose loops are final. Both outlive it.
  Donations(const Loop& loop, const std::vector<BufferAccess>& buffers);

  /// Of the statements of the body, counted from 1: the last that reads a buffer, and the first
  /// that writes it; 0: none does.
  [[nodiscard]] std::uint32_t last_read(BufferId id) const { return last_read_[id]; }
  [[nodiscard]] std::uint32_t first_write(BufferId id) const { return first_write_[id]; }

  /// Whether the kernel computes the same where `output`, which it writes whole, lies in the memory
  /// of `input`, which it only reads: they have one type, and it writes no element that it has yet
  /// to read. Any input will do that is read for the last time in a statement before the first
  /// that writes the output.
  [[nodiscard]] bool may_take(BufferId output, BufferId input) const;
  /// The other inputs whose memory an output may take, in order: those that are read while it is
  /// written. To bound the work, not all are found where there are many, or many uses of them.
  [[nodiscard]] std::vector<BufferId> taken_while_written(BufferId output) const;

 private:
  using Loops = std::vector<const Stmt*>;  // outermost first
  /// A load, a store or a zero, for which there are no subscripts.
  struct Use {
    std::size_t top;   // of the statements of the body
    std::size_t when;  // in the order of evaluation, within one iteration of all around it
    Loops around;
    const std::vector<Affine>* subscripts;
  };
  /// Iterations of two uses: the same of the loops before the `same`-th, and of that one, if they
  /// have it in common, the write's is the earlier or the later.
  enum class Order : std::uint8_t { equal, write_earlier, write_later };
  struct Iterations {
    std::size_t same;
    Order next;
  };
  /// Of one type: inputs that are read, by where that is last, and outputs written whole.
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
  std::vector<bool> grouped_;                     // by buffer: in a group of both
  std::vector<std::vector<Use>> reads_, writes_;  // by buffer, in order; of those
  std::vector<std::uint32_t> last_read_, first_write_;
  std::size_t top_ = 0, uses_ = 0;
  Loops around_;
};

}  // namespace heddle::jit
