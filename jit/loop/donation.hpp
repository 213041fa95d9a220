// Donation: which outputs of a kernel may lie in the memory of which inputs. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "jit/loop/interface.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// On the safe side: from subscripts alone, and as the kernel's loops run, marks included.
class Donations {
 public:
  /// Of a kernel whose loops are final. Both outlive it.
  Donations(const Loop& loop, const std::vector<BufferAccess>& buffers);

  /// Whether the kernel computes the same where `output`, which it writes whole, lies in the memory
  /// of `input`, which it only reads: they have one type, and it writes no element that it has yet
  /// to read.
  [[nodiscard]] bool may_take(BufferId output, BufferId input) const;

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

  void statement(const Stmt& stmt);
  void loads(const Value& value);
  void add(std::vector<Use>& uses, const std::vector<Affine>* subscripts);
  [[nodiscard]] static bool is_before(const Use& read, const Use& write);
  [[nodiscard]] static bool are_apart(const Use& read, const Use& write, Iterations iterations);

  const Loop& loop_;
  const std::vector<BufferAccess>& buffers_;
  std::vector<std::vector<Use>> reads_, writes_;  // by buffer, in order
  std::size_t top_ = 0, uses_ = 0;
  Loops around_;
};

}  // namespace heddle::jit
