// See donation.hpp.
#include "jit/loop/donation.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "jit/loop/interval.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {

Donations::Donations(const Loop& loop, const std::vector<BufferAccess>& buffers)
    : loop_(loop), buffers_(buffers), reads_(loop.buffers.size()), writes_(loop.buffers.size()) {
  for (; top_ < loop.body.size(); ++top_) statement(*loop.body[top_]);
}

void Donations::add(std::vector<Use>& uses, const std::vector<Affine>* subscripts) {
  uses.push_back({top_, uses_++, around_, subscripts});
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
      add(writes_[stmt.buffer], nullptr);
      return;
    case StmtKind::store:
      loads(*stmt.value);
      add(writes_[stmt.buffer], &stmt.subscripts);
      return;
    case StmtKind::declare:
    case StmtKind::assign:
      loads(*stmt.value);
      return;
  }
}

void Donations::loads(const Value& value) {
  count_step();
  if (value.kind == ValueKind::load) add(reads_[value.buffer], &value.subscripts);
  for (const ValuePtr& arg : value.args) loads(*arg);
}

bool Donations::may_take(BufferId output, BufferId input) const {
  const bool suit = buffers_[input].role == Role::input && buffers_[output].role == Role::output &&
                    buffers_[output].overwrites_whole &&
                    loop_.buffers[input].type == loop_.buffers[output].type;
  return suit && std::ranges::all_of(reads_[input], [&](const Use& read) {
           return std::ranges::all_of(writes_[output], [&](const Use& write) {
             count_step();
             return is_before(read, write);
           });
         });
}

/// No element is written there, and read here later.
bool Donations::is_before(const Use& read, const Use& write) {
  if (read.top < write.top) return true;
  const auto split = std::ranges::mismatch(read.around, write.around);
  const auto common = static_cast<std::size_t>(split.in1 - read.around.begin());
  for (std::size_t k = 0; k < common; ++k) {
    if (!are_apart(read, write, {k, Order::write_earlier})) return false;
    // Iterations of others may run side by side.
    if (read.around[k]->mark != LoopMark::serial &&
        !are_apart(read, write, {k, Order::write_later}))
      return false;
  }
  return read.when < write.when || are_apart(read, write, {common, Order::equal});
}

/// Whether no element is read and written in such iterations.
bool Donations::are_apart(const Use& read, const Use& write, Iterations iterations) {
  if (write.subscripts == nullptr) return false;
  const auto [same, next] = iterations;
  const Stmt* const loop = next == Order::equal ? nullptr : read.around[same];
  if (loop != nullptr && loop->to - loop->from < 2) return true;  // there is but one
  for (std::size_t axis = 0; axis < write.subscripts->size(); ++axis) {
    // Where the write is, less where the read is.
    Affine fixed;  // what both have in common
    Interval free;
    std::int64_t write_step = 0, read_step = 0;  // by `loop`
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
      // One variable by which they differ at least by one, and another one.
      const std::int64_t sign = next == Order::write_earlier ? -1 : 1;
      free.add(write_step, sign, sign * (loop->to - loop->from - 1));
      free.add(write_step - read_step, loop->from, loop->to - 1);
    }
    if (both->lowest + free.lowest > 0 || both->highest + free.highest < 0) return true;
  }
  return false;
}

}  // namespace heddle::jit
