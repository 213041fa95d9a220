// See overlapped_loops.hpp.
#include "jit/schedule/overlapped_loops.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "jit/loop/interval.hpp"
#include "jit/loop/own_scratch.hpp"

namespace heddle::jit {
namespace {

/// The first loop is so many iterations of the second ahead.
constexpr std::int64_t ahead = 2;

/// The accesses of a loop's statements.
struct LoopAccesses {
  std::set<BufferId> written;
  std::map<BufferId, std::vector<const std::vector<Affine>*>> subscripts;
  std::map<VarId, std::pair<std::int64_t, std::int64_t>> inner;  ///< first and last value
  std::set<LocalId> own;
  bool reads_at_positions = false;
  /// False where a statement is no access to elements, or assigns to a local of other statements.
  bool are_plain = true;

  explicit LoopAccesses(const Stmt& loop) {
    walk(loop.body, [this](const Stmt& stmt) { add(stmt); });
  }

 private:
  void add(const Stmt& stmt) {
    if (binds_variable(stmt)) inner[stmt.var] = {stmt.from, stmt.to - 1};
    if (stmt.kind == StmtKind::at) reads_at_positions = true;
    if (stmt.kind == StmtKind::declare) own.insert(stmt.local);
    if (stmt.kind == StmtKind::assign) are_plain = are_plain && own.contains(stmt.local);
    if (stmt.kind == StmtKind::zero || stmt.kind == StmtKind::prefetch) are_plain = false;
    if (stmt.kind == StmtKind::store) {
      written.insert(stmt.buffer);
      subscripts[stmt.buffer].push_back(&stmt.subscripts);
    }
    if (!stmt.value) return;
    walk(*stmt.value, [this](const Value& v) {
      if (v.kind == ValueKind::load) subscripts[v.buffer].push_back(&v.subscripts);
    });
  }
};

/// A loop over rows, and a loop over groups of these rows.
class Overlap {
 public:
  Overlap(Fresh& fresh, const Stmt& rows, const Stmt& groups)
      : fresh_(fresh),
        rows_(rows),
        groups_(groups),
        size_(groups.to == 0 ? 0 : rows.to / groups.to) {}

  [[nodiscard]] std::optional<Block> made() {
    if (rows_.from != 0 || groups_.from != 0 || groups_.to <= 2 * ahead ||
        groups_.to - ahead > iterations_examined_max || size_ * groups_.to != rows_.to ||
        size_ < 2 || !are_apart())
      return std::nullopt;
    const VarId row = fresh_.var(), group = fresh_.var(), next = fresh_.var(), last = fresh_.var();
    const std::int64_t count = groups_.to, shift = ahead * size_;
    const Affine next_row =
        affine_add(affine_add(affine_var(group, size_), affine_var(next)), Affine{shift, {}});
    Block both{make_loop(next, 0, size_, at(rows_, next_row))};
    append(both, at(groups_, affine_var(group)));
    return Block{make_loop(row, 0, shift, at(rows_, affine_var(row))),
                 make_loop(group, 0, count - ahead, std::move(both)),
                 make_loop(last, count - ahead, count, at(groups_, affine_var(last)))};
  }

 private:
  /// The body of an iteration of a loop.
  [[nodiscard]] Block at(const Stmt& loop, const Affine& iteration) const {
    Substitution by;
    by.vars[loop.var] = iteration;
    return with_own_names(fresh_, loop.body, by);
  }

  /// True if iterations of the loops share no elements but rows that the first stores, and an
  /// iteration of the second reads its own rows alone.
  [[nodiscard]] bool are_apart() const {
    const LoopAccesses first(rows_), second(groups_);
    if (!first.reads_at_positions || second.reads_at_positions || !first.are_plain ||
        !second.are_plain)
      return false;
    bool takes = false;
    for (const auto& [buffer, theirs] : second.subscripts) {
      const auto its = first.subscripts.find(buffer);
      if (its == first.subscripts.end()) continue;
      if (second.written.contains(buffer)) return false;
      if (!first.written.contains(buffer)) continue;
      const std::optional<std::size_t> axis = axis_of_rows(its->second);
      if (!axis || !std::ranges::all_of(theirs, [&](const std::vector<Affine>* subscripts) {
            return subscripts->size() > *axis && is_of_group((*subscripts)[*axis], second);
          }))
        return false;
      takes = true;
    }
    return takes;
  }

  /// The axis on which all accesses are at the iteration of the loop over rows.
  [[nodiscard]] std::optional<std::size_t> axis_of_rows(
      const std::vector<const std::vector<Affine>*>& accesses) const {
    const Affine row = affine_var(rows_.var);
    for (std::size_t axis = 0; axis < accesses[0]->size(); ++axis) {
      if (std::ranges::all_of(accesses, [&](const std::vector<Affine>* subscripts) {
            return subscripts->size() > axis && (*subscripts)[axis] == row;
          }))
        return axis;
    }
    return std::nullopt;
  }

  /// True if the subscript is a row of the iteration's group.
  [[nodiscard]] bool is_of_group(const Affine& subscript, const LoopAccesses& accesses) const {
    const Affine within = affine_add(subscript, affine_var(groups_.var, -size_));
    const std::optional<Interval> range = reach(within, [&](const AffineTerm& term) {
      const auto at = accesses.inner.find(term.id);
      return term.kind == AffineTerm::Kind::loop && at != accesses.inner.end()
                 ? std::optional(at->second)
                 : std::nullopt;
    });
    return range && range->lowest >= 0 && range->highest < size_;
  }

  Fresh& fresh_;
  const Stmt &rows_, &groups_;
  const std::int64_t size_;  // of a group
};

/// The statements of a loop.
Block overlapped(Fresh& fresh, const Block& body) {
  Block made;
  for (std::size_t k = 0; k < body.size();) {
    const StmtPtr& stmt = body[k++];
    if (!is_serial_loop(stmt)) {
      made.push_back(stmt);
      continue;
    }
    const std::size_t next = past_comments(body, k);
    const std::optional<Block> both = next < body.size() && is_serial_loop(body[next])
                                          ? Overlap(fresh, *stmt, *body[next]).made()
                                          : std::nullopt;
    if (both) {
      append_comments(made, body, k, next);
      append(made, *both);
      k = next + 1;
    } else {
      made.push_back(with_body(*stmt, overlapped(fresh, stmt->body)));
    }
  }
  return made;
}

}  // namespace

Block with_overlapped_loops(Fresh& fresh, const Block& body) {
  Block made;
  for (const StmtPtr& stmt : body)
    made.push_back(is_serial_loop(stmt) ? with_body(*stmt, overlapped(fresh, stmt->body)) : stmt);
  return made;
}

}  // namespace heddle::jit
