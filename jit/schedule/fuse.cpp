// See schedule/fuse.hpp.
#include "jit/schedule/fuse.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/footprint.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

bool assigns_outside(const Stmt& loop) {
  std::set<LocalId> own;
  bool outside = false;
  walk(loop.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::declare) own.insert(stmt.local);
    if (stmt.kind == StmtKind::assign) outside = outside || !own.contains(stmt.local);
  });
  return outside;
}

/// The common size of all elements that the loop touches, where the loop only computes element by
/// element; otherwise 0.
std::size_t element_size(const Stmt& loop) {
  std::set<std::size_t> sizes;
  walk(loop.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::assign) sizes.insert(0);
    if (!stmt.value) return;
    sizes.insert(size_of(stmt.value->dtype));
    walk(*stmt.value, [&](const Value& v) {
      if (v.kind == ValueKind::load) sizes.insert(size_of(v.dtype));
    });
  });
  return sizes.size() == 1 ? *sizes.begin() : 0;
}

/// True if each iteration stores to single elements at computed positions.
bool is_scatter(const Stmt& loop) {
  bool stores = false;
  std::set<VarId> positions;
  const auto is_at_position = [&](const Stmt& store) {
    stores = true;
    return std::ranges::any_of(store.subscripts, [&](const Affine& index) {
      return std::ranges::any_of(index.terms, [&](const AffineTerm& term) {
        return term.kind == AffineTerm::Kind::loop && positions.contains(term.id);
      });
    });
  };
  const auto look = [&](const auto& self, const Block& body) -> bool {
    return std::ranges::all_of(body, [&](const StmtPtr& stmt) {
      if (stmt->kind == StmtKind::at) {
        positions.insert(stmt->var);
        return self(self, stmt->body);
      }
      return stmt->kind == StmtKind::declare ||
             (stmt->kind == StmtKind::store && is_at_position(*stmt));
    });
  };
  return loop.kind == StmtKind::loop && look(look, loop.body) && stores;
}

/// True if the statement stores constants, and nothing else, to a buffer that `others` leave alone.
bool starts_apart(const Stmt& stmt, const Footprint& others) {
  if (stmt.kind == StmtKind::zero) return !others.contains(stmt.buffer);
  if (stmt.kind == StmtKind::loop)
    return std::ranges::all_of(stmt.body,
                               [&](const StmtPtr& inner) { return starts_apart(*inner, others); });
  return stmt.kind == StmtKind::store && stmt.value->kind == ValueKind::constant &&
         !others.contains(stmt.buffer);
}

/// The most loops that become one: joining one more saves a single pass over memory, and compilers
/// take long over long bodies.
constexpr std::size_t joined_max = 64;
/// As many more where these store the rest of an array.
constexpr std::size_t pieces_max = 8;
/// The most steps per element of a joined loop: beyond that, a pass over memory is negligible.
constexpr int joined_cost_max = 700;

/// The fewest steps per element of loops that stay apart from loops with computed positions.
constexpr int apart_cost_min = 16;

/// The number of steps of the values of a loop.
int cost_of_values(const Stmt& loop) {
  int cost = 0;
  walk(loop.body, [&](const Stmt& stmt) {
    if (stmt.value) cost += cost_of(*stmt.value, joined_cost_max);
  });
  return cost;
}

/// True if no row at the position holds a vector.
bool is_narrow(const Stmt& position) {
  constexpr std::int64_t row_min = 16;
  bool narrow = true;
  walk(position.body, [&](const Stmt& inner) {
    narrow = narrow && !(inner.kind == StmtKind::loop && inner.to - inner.from >= row_min);
  });
  return narrow;
}

/// A statement, or loops that become one (their variables become the variable of the first), and
/// their common properties.
struct Group {
  Group(const StmtPtr& stmt, const LoopQuestion& fixed) : parts{stmt} {
    passes = stmt->kind == StmtKind::loop && !assigns_outside(*stmt);
    if (!passes) return;
    touched = footprint(*stmt);
    may_join = stmt->mark == LoopMark::serial && !fixed(stmt);
    if (!may_join) return;
    scatters = is_scatter(*stmt);
    walk(stmt->body, [this](const Stmt& inner) {
      has_positions = has_positions || (inner.kind == StmtKind::at && !inner.nearest);
      if (inner.kind != StmtKind::at || !inner.nearest || !is_narrow(inner)) return;
      jit::walk(*inner.value, [this](const Value& v) {
        if (v.kind == ValueKind::load) read_for_positions.insert(v.buffer);
      });
      gathers = true;
      walk(inner.body,
           [this](const Stmt& row) { gathers_rows = gathers_rows || row.kind == StmtKind::loop; });
    });
    size = element_size(*stmt);
    cost = cost_of_values(*stmt);
  }

  /// The first of the parts.
  [[nodiscard]] const Stmt& loop() const { return *parts.front(); }

  [[nodiscard]] bool become_vectors(const LoopQuestion& becomes_vectors) {
    for (; asked < parts.size(); ++asked) vectors = vectors && becomes_vectors(parts[asked]);
    return vectors;
  }

  void add(Group&& next) {
    parts.push_back(std::move(next.parts.front()));
    scatters = scatters && next.scatters;
    has_positions = has_positions || next.has_positions;
    gathers = gathers || next.gathers;
    gathers_rows = gathers_rows || next.gathers_rows;
    read_for_positions.merge(next.read_for_positions);
    if (size != next.size) size = 0;
    cost += next.cost;
    for (auto& [buffer, theirs] : next.touched) {
      const auto [at, is_new] = touched.try_emplace(buffer, theirs);
      if (!is_new) at->second.add(theirs);
    }
  }

  std::vector<StmtPtr> parts;
  Block comments;       ///< stood between the parts, and stand before the joined loop
  bool passes = false;  ///< a loop that only its footprint keeps at its place
  bool may_join = false;
  bool scatters = false;       ///< see is_scatter()
  bool has_positions = false;  ///< stores at computed positions
  bool gathers = false;        ///< reads single elements, or short rows, at computed positions
  bool gathers_rows = false;   ///< reads short rows there
  std::set<BufferId> read_for_positions{};
  Footprint touched;
  std::size_t size = 0;  ///< see element_size()
  int cost = 0;          ///< see cost_of_values()

 private:
  bool vectors = true;
  std::size_t asked = 0;  ///< parts asked about vectors so far
};

/// True if loops that only share reads should be joined; they save a read of each shared buffer.
/// More arrays than this compete for cache sets, and kernels must not grow without bounds. Sums,
/// elements of several sizes, and vector loops next to scalar loops have better separate schedules.
/// Scatters have no better schedules: the positions and the reads are then shared.
bool joins_for_reads(Group& first, Group& second, const LoopQuestion& becomes_vectors) {
  constexpr std::size_t buffers_max = 12;
  if (first.touched.size() + second.touched.size() > buffers_max) return false;
  if (first.scatters && second.scatters) return true;
  return first.size != 0 && first.size == second.size &&
         first.become_vectors(becomes_vectors) == second.become_vectors(becomes_vectors);
}

/// True if neither loop writes a buffer that the other touches.
bool are_apart(const Group& first, const Group& second) {
  return first.passes && second.passes && std::ranges::all_of(second.touched, [&](const auto& of) {
           const auto own = first.touched.find(of.first);
           return own == first.touched.end() || !(own->second.written || of.second.written);
         });
}

/// True if the second loop stores more of an array that the first stores: in parts, its rows would
/// be stored in parts.
bool continues_array(const Group& first, const Group& second) {
  return std::ranges::any_of(second.touched, [&](const auto& of) {
    const auto own = first.touched.find(of.first);
    return of.second.written && own != first.touched.end() && own->second.written;
  });
}

/// True if no iteration of the second loop conflicts with a later iteration of the first, and the
/// loops share data: written by one of them or, if they are neighbours, read by both.
bool fusable(Group& first, Group& second, bool are_neighbours,
             const LoopQuestion& becomes_vectors) {
  const bool alike =
      first.may_join && second.may_join &&
      (first.parts.size() < joined_max ||
       (first.parts.size() < joined_max + pieces_max && continues_array(first, second))) &&
      first.cost + second.cost <= joined_cost_max && first.loop().from == second.loop().from &&
      first.loop().to == second.loop().to;
  if (!alike) return false;
  // Rows computed from the rows before run in order in any case. Fused at other distances, loops
  // whose iterations are apart would lose their parts, and loops over elements their vectors.
  const std::int64_t extent = first.loop().to - first.loop().from;
  const bool in_order = !is_innermost(first.loop()) && !is_innermost(second.loop()) &&
                        (carries(first.touched, extent) || carries(second.touched, extent));
  bool shares = false, shares_written = false;
  for (const auto& [buffer, theirs] : second.touched) {
    const auto own = first.touched.find(buffer);
    if (own == first.touched.end()) continue;
    const FootprintPart& mine = own->second;
    const bool written = mine.written || theirs.written;
    bool fits = false, meets = false;
    if (!mine.whole && !theirs.whole && mine.own_axes && theirs.own_axes) {
      for (const auto& [axis, use] : *mine.own_axes) {
        const auto other = theirs.own_axes->find(axis);
        if (other == theirs.own_axes->end()) continue;
        AxisUse both = use;
        both.add(other->second);
        const bool is_apart = both.all().are_apart(extent);
        const bool follow = written && in_order && follows(use, other->second);
        fits = fits || is_apart || follow;
        meets = meets || follow || (is_apart && use.all().meet(other->second.all()));
      }
    }
    if (written && !fits) return false;
    shares_written = shares_written || (written && meets);
    shares = shares || meets;
  }
  // Beside computed positions, elements would become scalar code.
  if (shares_written && first.has_positions != second.has_positions &&
      (first.has_positions ? second : first).become_vectors(becomes_vectors))
    return false;
  // What is stored in parts would be loaded as rows at once, and what is stored as rows in parts:
  // loads would wait for the stores.
  if (first.gathers && !second.gathers && !second.has_positions &&
      (second.cost >= apart_cost_min || first.gathers_rows || !is_innermost(second.loop())))
    return false;
  // Rows of positions, from rows that are read at positions.
  if (first.gathers_rows && std::ranges::any_of(second.read_for_positions, [&](BufferId buffer) {
        const auto own = first.touched.find(buffer);
        return own != first.touched.end() && own->second.written;
      }))
    return false;
  // Positions computed in vectors, for a loop that reads there.
  if (second.gathers && !first.gathers && !first.has_positions && shares_written &&
      first.cost > 0 && first.become_vectors(becomes_vectors))
    return false;
  return shares_written ||
         (are_neighbours && shares && joins_for_reads(first, second, becomes_vectors));
}

/// True if the second statement is at the position of the first, which the first does not change.
bool is_at_same_position(const Stmt& first, const Stmt& second) {
  if (first.kind != StmtKind::at || second.kind != StmtKind::at || first.from != second.from ||
      first.to != second.to || first.nearest != second.nearest ||
      !equal(*first.value, *second.value))
    return false;
  bool changes = false;
  walk(first.body, [&](const Stmt& stmt) {
    walk(*first.value, [&](const Value& v) {
      const bool stores = stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero;
      changes =
          changes || (stores && v.kind == ValueKind::load && v.buffer == stmt.buffer) ||
          (stmt.kind == StmtKind::assign && v.kind == ValueKind::local && v.local == stmt.local);
    });
  });
  return !changes;
}

/// What positions around positions enclose.
const Block& innermost_body(const Stmt& position) {
  const Stmt* at = &position;
  while (at->body.size() == 1 && at->body[0]->kind == StmtKind::at) at = at->body[0].get();
  return at->body;
}

/// The position, and those inside it, around another innermost body.
StmtPtr around(const Stmt& position, Block body) {
  const bool has_more = position.body.size() == 1 && position.body[0]->kind == StmtKind::at;
  if (has_more) body = {around(*position.body[0], std::move(body))};
  return with_body(position, std::move(body));
}

/// True if the second statement reads a short row, at nearest positions, and combines it with one
/// that the first has read so: in memory, the load would wait for the end of the store.
bool continues_row(const Stmt& first, const Stmt& second) {
  constexpr std::int64_t depth_max = 8;
  std::int64_t depth = 0;
  bool fits = true;
  std::set<BufferId> written;
  const auto add = [&](const Stmt& stmt) {
    depth += stmt.kind == StmtKind::at ? 1 : 0;
    fits = fits && (stmt.kind != StmtKind::at || stmt.nearest) && stmt.kind != StmtKind::zero;
  };
  if (first.kind != StmtKind::at || second.kind != StmtKind::at || !is_narrow(first) ||
      !is_narrow(second))
    return false;
  add(first);
  walk(first.body, [&](const Stmt& stmt) {
    add(stmt);
    if (stmt.kind == StmtKind::store) written.insert(stmt.buffer);
  });
  bool takes = false;
  const auto reads = [&](const Value& value) {
    bool found = false;
    walk(value, [&](const Value& v) {
      found = found || (v.kind == ValueKind::load && written.contains(v.buffer));
    });
    return found;
  };
  const auto has_local = [](const Value& value) {
    bool found = false;
    walk(value, [&](const Value& v) { found = found || v.kind == ValueKind::local; });
    return found;
  };
  walk(Block{std::make_shared<const Stmt>(second)}, [&](const Stmt& stmt) {
    add(stmt);
    const bool takes_here = stmt.value && reads(*stmt.value);
    if (stmt.kind == StmtKind::at) fits = fits && !takes_here && !has_local(*stmt.value);
    takes = takes || takes_here;
  });
  return fits && takes && depth <= depth_max;
}

/// The statements, where neighbours at the same position are one statement, and so are neighbours
/// of which one continues a row of the other; loops inside are fused.
Block with_joined_positions(const Block& body, const LoopQuestion& fixed,
                            const LoopQuestion& becomes_vectors) {
  Block result;
  for (const StmtPtr& stmt : body) {
    if (!result.empty() && is_at_same_position(*result.back(), *stmt)) {
      const StmtPtr first = result.back();
      Substitution by;
      by.vars[stmt->var] = affine_var(first->var);
      Block both = first->body;
      for (const StmtPtr& inner : stmt->body) both.push_back(substitute(inner, by));
      result.back() = with_body(*first, with_joined_positions(both, fixed, becomes_vectors));
    } else if (!result.empty() && continues_row(*result.back(), *stmt)) {
      const Stmt& first = *result.back();
      Block both = innermost_body(first);
      for (const StmtPtr& inner : innermost_body(*stmt)) both.push_back(inner);
      result.back() = around(first, {around(*stmt, fuse_loops(both, fixed, becomes_vectors))});
    } else {
      result.push_back(stmt);
    }
  }
  return result;
}

/// The group's parts as one loop, or its single statement.
StmtPtr joined(const Group& group, const LoopQuestion& fixed, const LoopQuestion& becomes_vectors) {
  if (group.parts.size() == 1) return group.parts.front();
  Block all;
  for (const StmtPtr& part : group.parts) {
    Substitution rename;
    if (part != group.parts.front()) rename.vars[part->var] = affine_var(group.loop().var);
    for (const StmtPtr& inner : part->body)
      all.push_back(rename.vars.empty() ? inner : substitute(inner, rename));
  }
  return with_body(group.loop(), fuse_loops(with_joined_positions(all, fixed, becomes_vectors),
                                            fixed, becomes_vectors));
}

}  // namespace

Block fuse_loops(const Block& body, const LoopQuestion& fixed,
                 const LoopQuestion& becomes_vectors) {
  if (past_comments(body, past_comments(body, 0) + 1) >= body.size()) return body;
  constexpr std::ptrdiff_t passed_max = 8;  // groups that a loop passes to join another
  std::vector<Group> groups;
  Block comments;  // after the last group
  // Adds the loop to the latest group that takes it, before groups that share no data with it.
  const auto join = [&](Group& next) {
    const auto last = groups.rbegin();
    const auto end = last + std::min(std::ssize(groups), passed_max);
    for (auto group = last; group != end; ++group) {
      if (fusable(*group, next, group == last, becomes_vectors)) {
        group->comments.insert(group->comments.end(), comments.begin(), comments.end());
        group->add(std::move(next));
        return true;
      }
      if (!are_apart(*group, next)) return false;
    }
    return false;
  };
  for (std::ptrdiff_t k = 0; k < std::ssize(body); ++k) {
    const StmtPtr& stmt = body[static_cast<std::size_t>(k)];
    if (stmt->kind == StmtKind::comment) {  // comments do not separate loops
      comments.push_back(stmt);
      continue;
    }
    // Starts of further sums at computed positions, which may join.
    const auto is_start = [&](const StmtPtr& each) {
      return each->kind == StmtKind::comment || starts_apart(*each, groups.back().touched);
    };
    if (!groups.empty() && groups.back().scatters && is_start(stmt)) {
      const auto next = std::find_if_not(body.begin() + k, body.end(), is_start);
      if (next != body.end() && is_scatter(**next)) {
        groups.insert(groups.end() - 1, Group(stmt, fixed));
        continue;
      }
    }
    Group next(stmt, fixed);
    if (!join(next)) {
      next.comments = comments;
      groups.push_back(std::move(next));
    }
    comments.clear();
  }
  Block result;
  for (const Group& group : groups) {
    result.insert(result.end(), group.comments.begin(), group.comments.end());
    result.push_back(joined(group, fixed, becomes_vectors));
  }
  result.insert(result.end(), comments.begin(), comments.end());
  return result;
}

}  // namespace heddle::jit
