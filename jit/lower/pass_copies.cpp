// Copies of scratch: a buffer that begins as a copy of scratch, which nothing reads afterwards,
// takes the scratch's place from the start. Pure; any thread.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/lower/passes.hpp"

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

/// The statements of the top level in which a buffer occurs.
struct Span {
  std::size_t first = std::numeric_limits<std::size_t>::max(), last = 0;
  void add(std::size_t k) {
    first = std::min(first, k);
    last = std::max(last, k);
  }
};

class Copies {
 public:
  explicit Copies(Lowered& lowered) : lowered_(lowered), spans_(buffers().size()) {
    const Block& body = lowered.loop.body;
    for (std::size_t k = 0; k < body.size(); ++k) {
      walk({&body[k], &body[k] + 1}, [&](const Stmt& stmt) {
        if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero ||
            stmt.kind == StmtKind::prefetch)
          spans_[stmt.buffer].add(k);
        if (!stmt.value) return;
        jit::walk(*stmt.value, [&](const Value& v) {
          if (v.kind == ValueKind::load) spans_[v.buffer].add(k);
        });
      });
    }
  }

  void join() {
    const Block& body = lowered_.loop.body;
    std::vector<Copy> joined;
    Block stay;
    for (std::size_t k = 0; k < body.size(); ++k) {
      const std::optional<Copy> copy = whole_copy(lowered_.loop, body[k]);
      if (copy && may_join(*copy, k)) {
        spans_[copy->to].first = spans_[copy->from].first;
        joined.push_back(*copy);
      } else {
        stay.push_back(body[k]);
      }
    }
    if (joined.empty()) return;
    Substitution by;
    for (auto copy = joined.rbegin(); copy != joined.rend(); ++copy) {
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
    return buffers()[copy.from].role == Role::scratch && spans_[copy.from].last == k &&
           spans_[copy.from].first < k && spans_[copy.to].first == k &&
           buffers()[copy.to].role != Role::merge && stays_donatable(copy, k);
  }
  /// True if the buffer, written from the scratch's first use on, may still take the memory of an
  /// input that is donated to it: no element is read after another was written in its place.
  [[nodiscard]] bool stays_donatable(const Copy& copy, std::size_t k) const {
    if (buffers()[copy.to].role == Role::scratch) return true;
    const ArrayType& type = buffers()[copy.to].type;
    for (BufferId each = 0; each < buffers().size(); ++each) {
      const bool may_be_donated = each != copy.to && each != copy.from &&
                                  buffers()[each].role != Role::scratch &&
                                  buffers()[each].type == type;
      if (!may_be_donated || spans_[each].last < spans_[copy.from].first) continue;
      const bool is_copied_first = spans_[each].last == spans_[copy.from].first && [&] {
        const std::optional<Copy> first =
            whole_copy(lowered_.loop, lowered_.loop.body[spans_[each].last]);
        return first && first->from == each;
      }();
      if (!is_copied_first && spans_[each].first < k) return false;
    }
    return true;
  }

  Lowered& lowered_;
  std::vector<Span> spans_;  // by buffer
};

}  // namespace

Lowered join_copies(Lowered lowered) {
  Copies(lowered).join();
  return lowered;
}

}  // namespace heddle::jit
