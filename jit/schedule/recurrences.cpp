// See recurrences.hpp.
#include "jit/schedule/recurrences.hpp"

#include <algorithm>

#include "jit/schedule/footprint.hpp"

namespace heddle::jit {
namespace {

bool is_loop_over_rows(const Stmt& stmt) {
  return stmt.kind == StmtKind::loop && stmt.mark == LoopMark::serial && stmt.from == 0 &&
         std::ranges::all_of(stmt.body,
                             [](const StmtPtr& inner) { return inner->kind == StmtKind::loop; });
}

/// True if iteration k of the second loop uses rows that the first loop writes in iteration k - 1,
/// and the second loop's first iteration uses none of them.
bool begins_a_row_before(const Stmt& first, const Stmt& second) {
  if (!is_loop_over_rows(first) || !is_loop_over_rows(second) || second.to != first.to + 1)
    return false;
  const Footprint written = footprint(first), used = footprint(second);
  if (!carries(written, first.to - first.from) || carries(used, second.to - second.from))
    return false;
  bool uses_rows = false;
  for (const auto& [buffer, theirs] : used) {
    const auto mine = written.find(buffer);
    if (mine == written.end() || !(mine->second.written || theirs.written)) continue;
    if (theirs.written || !mine->second.own_axes) return false;
    const bool rows = std::ranges::any_of(*mine->second.own_axes, [&](const auto& axis) {
      const auto other = theirs.own_axes->find(axis.first);
      const auto& writes = axis.second.writes;
      return other != theirs.own_axes->end() && writes && writes->lowest == 1 &&
             writes->are_one() && other->second.all().are_one() && other->second.all().lowest == 0;
    });
    if (!rows) return false;
    uses_rows = true;
  }
  return uses_rows;
}

}  // namespace

Block with_rows_of_recurrences(Fresh& fresh, const Block& body, const LoopQuestion& fixed) {
  Block result;
  for (std::size_t k = 0; k < body.size(); ++k) {
    const std::size_t next_loop = past_comments(body, k);
    const bool follows = next_loop < body.size() && !result.empty() &&
                         begins_a_row_before(*result.back(), *body[next_loop]);
    if (!follows || fixed(body[next_loop]) || fixed(result.back())) {
      result.insert(
          result.end(), body.begin() + static_cast<std::ptrdiff_t>(k),
          body.begin() + static_cast<std::ptrdiff_t>(std::min(next_loop + 1, body.size())));
      k = next_loop;
      continue;
    }
    const StmtPtr stmt = body[next_loop];
    const StmtPtr recurrence = result.back();
    result.pop_back();
    append_comments(result, body, k, next_loop);
    k = next_loop;
    Substitution first, next;
    const VarId row = fresh.var();
    first.vars[stmt->var] = Affine();
    next.vars[stmt->var] = affine_add(affine_var(row), Affine{1, {}});
    append(result, with_own_names(fresh, stmt->body, std::move(first)));
    result.push_back(recurrence);
    result.push_back(
        make_loop(row, 0, recurrence->to, with_own_names(fresh, stmt->body, std::move(next))));
  }
  return result;
}

}  // namespace heddle::jit
