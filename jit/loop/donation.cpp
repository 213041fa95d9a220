// See donation.hpp.
#include "jit/loop/donation.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "jit/loop/interval.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {
namespace {

/// The most comparisons of reads and writes, for each output.
constexpr std::size_t comparisons_max = 256;

}  // namespace

Donations::Donations(const Loop& loop, const std::vector<BufferAccess>& buffers)
    : loop_(loop),
      buffers_(buffers),
      grouped_(loop.buffers.size()),
      reads_(loop.buffers.size()),
      writes_(loop.buffers.size()),
      last_read_(loop.buffers.size()),
      first_write_(loop.buffers.size()) {
  group();
  for (; top_ < loop.body.size(); ++top_) statement(*loop.body[top_]);
  for (auto& [type, group] : groups_) {
    std::erase_if(group.inputs, [&](BufferId id) { return reads_[id].empty(); });
    std::ranges::sort(group.inputs, {}, [&](BufferId id) { return reads_[id].back().when; });
  }
}

/// Groups buffers by type. A type without both an input and an output is not examined.
void Donations::group() {
  for (BufferId id = 0; id < buffers_.size(); ++id) {
    const ArrayType& type = loop_.buffers[id].type;
    if (buffers_[id].role == Role::input) groups_[type].inputs.push_back(id);
    if (buffers_[id].role == Role::output && buffers_[id].overwrites_whole)
      groups_[type].outputs.push_back(id);
  }
  for (const auto& [type, group] : groups_) {
    if (group.inputs.empty() || group.outputs.empty()) continue;
    for (const BufferId id : group.inputs) grouped_[id] = true;
    for (const BufferId id : group.outputs) grouped_[id] = true;
  }
}

void Donations::add(std::vector<Use>& uses, BufferId id, const std::vector<Affine>* subscripts) {
  if (grouped_[id]) uses.push_back({top_, uses_++, around_, subscripts});
}

void Donations::statement(const Stmt& stmt) {
  count_step();
  switch (stmt.kind) {
    case StmtKind::comment:
    case StmtKind::prefetch:
      return;
    case StmtKind::loop:
      if (stmt.from >= stmt.to) return;
      around_.push_back(&stmt);
      for (const StmtPtr& inner : stmt.body) statement(*inner);
      around_.pop_back();
      return;
    case StmtKind::zero:
      write(stmt.buffer, nullptr);
      return;
    case StmtKind::at:
      loads(*stmt.value);
      if (stmt.from >= stmt.to) return;
      around_.push_back(&stmt);
      for (const StmtPtr& inner : stmt.body) statement(*inner);
      around_.pop_back();
      return;
    case StmtKind::store:
      loads(*stmt.value);
      write(stmt.buffer, &stmt.subscripts);
      return;
    case StmtKind::declare:
    case StmtKind::assign:
      loads(*stmt.value);
      return;
  }
}

void Donations::write(BufferId id, const std::vector<Affine>* subscripts) {
  if (first_write_[id] == 0) first_write_[id] = static_cast<std::uint32_t>(top_ + 1);
  add(writes_[id], id, subscripts);
}

void Donations::loads(const Value& value) {
  count_step();
  if (value.kind == ValueKind::load) {
    last_read_[value.buffer] = static_cast<std::uint32_t>(top_ + 1);
    add(reads_[value.buffer], value.buffer, &value.subscripts);
  }
  for (const ValuePtr& arg : value.args) loads(*arg);
}

bool Donations::may_take(BufferId output, BufferId input) const {
  const bool suit = buffers_[input].role == Role::input && buffers_[output].role == Role::output &&
                    buffers_[output].overwrites_whole &&
                    loop_.buffers[input].type == loop_.buffers[output].type;
  std::size_t comparisons = std::numeric_limits<std::size_t>::max();
  return suit && is_read_first(input, output, comparisons);
}

std::vector<BufferId> Donations::taken_while_written(BufferId output) const {
  std::vector<BufferId> taken;
  const std::vector<Use>& writes = writes_[output];
  if (writes.empty()) return taken;
  const std::vector<BufferId>& inputs = groups_.at(loop_.buffers[output].type).inputs;
  const auto last = [&](auto at) -> const Use& { return reads_[*at].back(); };
  std::size_t comparisons = comparisons_max;
  const auto look = [&](auto at) {
    if (is_read_first(*at, output, comparisons)) taken.push_back(*at);
  };
  // The nearest inputs first: they are the most likely to match.
  const auto behind = std::ranges::upper_bound(inputs, writes.back().when, {},
                                               [&](BufferId id) { return reads_[id].back().when; });
  for (auto at = behind; at != inputs.begin() && comparisons > 0; look(at)) {
    if (last(--at).top < writes.front().top) break;
  }
  for (auto at = behind; at != inputs.end() && comparisons > 0; look(at++)) {
    if (last(at).top > writes.back().top) break;
  }
  std::ranges::sort(taken);
  return taken;
}

/// True if the last read of each element precedes its write; false where the check needs more
/// comparisons than are left.
bool Donations::is_read_first(BufferId input, BufferId output, std::size_t& comparisons) const {
  const std::vector<Use>&reads = reads_[input], &writes = writes_[output];
  for (std::size_t r = reads.size(); r > 0 && !writes.empty(); --r) {
    const Use& read = reads[r - 1];
    if (read.top < writes.front().top) return true;  // and so are all earlier reads
    const auto later = std::ranges::upper_bound(writes, read.top, {}, &Use::top);
    for (auto write = later; write != writes.begin();) {
      count_step();
      if (comparisons == 0) return false;
      --comparisons;
      if (!is_before(read, *--write)) return false;
    }
  }
  return true;
}

/// True if no element is written by `write` and read by `read` later.
bool Donations::is_before(const Use& read, const Use& write) {
  if (read.top < write.top) return true;
  const auto split = std::ranges::mismatch(read.around, write.around);
  const auto common = static_cast<std::size_t>(split.in1 - read.around.begin());
  for (std::size_t k = 0; k < common; ++k) {
    // Both run once in the position, in every iteration of the loops around it.
    if (read.around[k]->kind == StmtKind::at) continue;
    if (!are_apart(read, write, {k, Order::write_earlier})) return false;
    // Iterations of loops with other marks may run side by side.
    if (read.around[k]->mark != LoopMark::serial &&
        !are_apart(read, write, {k, Order::write_later}))
      return false;
  }
  return read.when < write.when || are_apart(read, write, {common, Order::equal});
}

/// True if no element is read and written in such iterations.
bool Donations::are_apart(const Use& read, const Use& write, Iterations iterations) {
  if (write.subscripts == nullptr || write.subscripts->size() != read.subscripts->size())
    return false;  // a zero, which touches every element, or a flat load
  const auto [same, next] = iterations;
  const Stmt* const loop = next == Order::equal ? nullptr : read.around[same];
  if (loop != nullptr && loop->to - loop->from < 2) return true;  // a single iteration
  for (std::size_t axis = 0; axis < write.subscripts->size(); ++axis) {
    // The position of the write minus the position of the read.
    Affine fixed;  // common to both
    Interval free;
    std::int64_t write_step = 0, read_step = 0;  // per iteration of `loop`
    const auto add = [&](const Affine& at, const Loops& around, std::int64_t sign,
                         std::int64_t& step) {
      fixed.constant += sign * at.constant;
      for (const AffineTerm& term : at.terms) {
        const auto* const by = term.kind == AffineTerm::Kind::static_index
                                   ? nullptr
                                   : *std::ranges::find(around, term.id, &Stmt::var);
        const auto depth = std::ranges::find(around, by) - around.begin();
        if (by == nullptr || static_cast<std::size_t>(depth) < same) {
          fixed = affine_add(fixed, affine_scale({0, {term}}, sign));
        } else if (by == loop) {
          step = term.coefficient;
        } else {
          free.add(sign * term.coefficient, by->from, by->to - 1);
        }
      }
    };
    add((*write.subscripts)[axis], write.around, 1, write_step);
    add((*read.subscripts)[axis], read.around, -1, read_step);
    const auto ends = [&](const AffineTerm& term) {
      using Ends = std::pair<std::int64_t, std::int64_t>;
      if (term.kind == AffineTerm::Kind::static_index) return std::optional<Ends>();
      const Stmt& by = **std::ranges::find(write.around, term.id, &Stmt::var);
      return std::optional(Ends(by.from, by.to - 1));
    };
    const std::optional<Interval> both = reach(fixed, ends);
    if (!both) continue;
    if (loop != nullptr) {
      // The write's iteration is the read's plus a difference of at least 1, earlier or later. Two
      // variables: the difference, and the read's iteration.
      const std::int64_t sign = next == Order::write_earlier ? -1 : 1;
      free.add(write_step, sign, sign * (loop->to - loop->from - 1));
      free.add(write_step - read_step, loop->from, loop->to - 1);
    }
    if (both->lowest + free.lowest > 0 || both->highest + free.highest < 0) return true;
  }
  return false;
}

}  // namespace heddle::jit
