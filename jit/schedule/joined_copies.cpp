// See joined_copies.hpp.
#include "jit/schedule/joined_copies.hpp"

#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "jit/schedule/scheduling.hpp"
#include "jit/schedule/shrunk_scratch.hpp"

namespace heddle::jit {
namespace {

struct Copy {
  BufferId from, to;
};

/// A nest that does nothing but copy every element of a buffer to its place in another.
std::optional<Copy> whole_copy(const Loop& loop, const StmtPtr& nest) {
  std::vector<const Stmt*> loops;
  const Stmt* stmt = nest.get();
  for (; stmt->kind == StmtKind::loop; stmt = stmt->body[0].get()) {
    if (stmt->body.size() != 1 || stmt->from != 0) return std::nullopt;
    loops.push_back(stmt);
  }
  if (stmt->kind != StmtKind::store || stmt->value->kind != ValueKind::load ||
      stmt->value->subscripts != stmt->subscripts)
    return std::nullopt;
  const Copy copy{stmt->value->buffer, stmt->buffer};
  const ArrayType& type = loop.buffers[copy.to].type;
  if (loop.buffers[copy.from].type != type) return std::nullopt;
  std::size_t used = 0;
  for (std::size_t axis = 0; axis < type.dims.size(); ++axis) {
    const Affine& at = stmt->subscripts[axis];
    if (type.dims[axis] == 1 && at == Affine{}) continue;
    if (used == loops.size() || at != affine_var(loops[used]->var) ||
        loops[used]->to != type.dims[axis])
      return std::nullopt;
    ++used;
  }
  return used == loops.size() ? std::optional(copy) : std::nullopt;
}

/// The statements of the top level that use a buffer.
struct Uses {
  std::size_t first = std::numeric_limits<std::size_t>::max(), last = 0;
  [[nodiscard]] bool meet(std::size_t from, std::size_t to) const {
    return first <= to && last >= from;
  }
};

class Copies {
 public:
  explicit Copies(Lowered& lowered) : lowered_(lowered), uses_(buffers().size()) {
    const auto users = users_of_buffers(lowered.loop.body, buffers().size());
    for (BufferId buffer = 0; buffer < users.size(); ++buffer) {
      const std::vector<std::size_t>& of = users[buffer];
      if (!of.empty()) uses_[buffer] = {of.front(), of.back()};
    }
  }

  void join() {
    const Block& body = lowered_.loop.body;
    std::vector<Copy> joined;
    Block stay;
    for (std::size_t k = 0; k < body.size(); ++k) {
      const std::optional<Copy> copy = whole_copy(lowered_.loop, body[k]);
      if (copy && may_join(*copy, k)) {
        uses_[copy->to].first = uses_[copy->from].first;
        joined.push_back(*copy);
      } else {
        stay.push_back(body[k]);
      }
    }
    if (joined.empty()) return;
    Substitution by;
    for (auto copy = joined.rbegin(); copy != joined.rend(); ++copy) {
      leave_one_element(lowered_, copy->from);
      const auto next = by.buffers.find(copy->to);
      by.buffers[copy->from] = next == by.buffers.end() ? copy->to : next->second;
    }
    for (StmtPtr& stmt : stay) stmt = substitute(stmt, by);
    lowered_.loop.body = std::move(stay);
  }

 private:
  [[nodiscard]] const std::vector<BufferDecl>& buffers() const { return lowered_.loop.buffers; }

  /// True if the copy, statement `k`, is the last use of scratch and the first use of the other.
  [[nodiscard]] bool may_join(const Copy& copy, std::size_t k) const {
    const Uses& from = uses_[copy.from];
    return buffers()[copy.from].role == Role::scratch && from.last == k && from.first < k &&
           uses_[copy.to].first == k &&
           (buffers()[copy.to].role == Role::scratch || !loses_memory(copy, k));
  }
  /// True if the output could take the memory of an array that is used from the scratch's first use
  /// on; such an array may be what the scratch begins as a copy of, and have no other use.
  [[nodiscard]] bool loses_memory(const Copy& copy, std::size_t k) const {
    const std::size_t from = uses_[copy.from].first;
    const std::optional<Copy> first = whole_copy(lowered_.loop, lowered_.loop.body[from]);
    for (BufferId each = 0; each < buffers().size(); ++each) {
      const bool suits = each != copy.to && each != copy.from &&
                         buffers()[each].role != Role::scratch &&
                         buffers()[each].type == buffers()[copy.to].type;
      const std::size_t begin = first && first->from == each ? from + 1 : from;
      if (suits && uses_[each].meet(begin, k)) return true;
    }
    return false;
  }

  Lowered& lowered_;
  std::vector<Uses> uses_;  // by buffer
};

}  // namespace

void join_copies(Lowered& lowered) { Copies(lowered).join(); }

}  // namespace heddle::jit
