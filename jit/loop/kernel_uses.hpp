// The statements of a kernel's body that touch each buffer, kept up to date while a pass replaces
// statements: a query about a buffer costs time in proportion to the statements that touch the
// buffer, not to the kernel. One thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

class KernelUses {
 public:
  /// A statement of the body: among the replacements of the slot-th statement, the one at `offset`.
  struct Position {
    std::uint32_t slot = 0;
    std::uint32_t offset = 0;
    friend auto operator<=>(const Position&, const Position&) = default;
  };
  using Positions = std::set<Position>;
  using Reads = std::map<Position, std::size_t>;

  /// `loop` must outlive the object; the constructor reads its body once.
  explicit KernelUses(const Loop& loop);

  [[nodiscard]] const Loop& loop() const noexcept { return loop_; }
  [[nodiscard]] const StmtPtr& operator[](Position at) const { return slots_[at.slot][at.offset]; }
  /// Positions of the statements that store to the buffer or zero it, in order.
  [[nodiscard]] const Positions& writers(BufferId buffer) const { return writers_[buffer]; }
  /// Statements that load from the buffer and do not write it, with their numbers of loads.
  [[nodiscard]] const Reads& readers(BufferId buffer) const { return readers_[buffer]; }
  /// True if a statement from `first` to `last` assigns the local.
  [[nodiscard]] bool assigns(LocalId local, Position first, Position last) const;
  /// The bounds of a loop, or of a position's range: from, to.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> bounds(VarId var) const {
    return bounds_.at(var);
  }
  /// The number of all statements, including those in loops; and of the statements of a slot.
  [[nodiscard]] std::size_t statements() const noexcept { return statements_; }
  [[nodiscard]] std::size_t statements(std::uint32_t slot) const { return sizes_[slot]; }

  [[nodiscard]] const Block& slot(std::uint32_t slot) const { return slots_[slot]; }
  void replace(std::uint32_t slot, Block by);
  [[nodiscard]] Block body() const;

 private:
  void add(Position at);
  void remove(Position at);

  const Loop& loop_;
  std::vector<Block> slots_;
  std::vector<std::size_t> sizes_;  // by slot
  std::vector<Positions> writers_;  // by buffer
  std::vector<Reads> readers_;      // by buffer
  std::map<LocalId, Positions> assigners_;
  std::map<VarId, std::pair<std::int64_t, std::int64_t>> bounds_;
  std::size_t statements_ = 0;
};

}  // namespace heddle::jit
