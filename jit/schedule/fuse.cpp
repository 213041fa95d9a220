// See schedule/fuse.hpp.
#include "jit/schedule/fuse.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "jit/loop/rewrite.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// How a loop accesses a buffer: the axes that all accesses subscript by the loop's variable alone.
struct FootprintPart {
  bool written = false;
  bool whole = false;  ///< zeroed
  std::optional<std::set<std::size_t>> own_axes;
};
using Footprint = std::map<BufferId, FootprintPart>;

Footprint footprint(const Stmt& loop) {
  Footprint result;
  const auto touch = [&](BufferId buffer, const std::vector<Affine>& at, bool writes) {
    FootprintPart& touched = result[buffer];
    touched.written = touched.written || writes;
    std::set<std::size_t> axes;
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      if (at[axis] == affine_var(loop.var)) axes.insert(axis);
    }
    if (touched.own_axes)
      std::erase_if(*touched.own_axes, [&](std::size_t axis) { return !axes.contains(axis); });
    else
      touched.own_axes = std::move(axes);
  };
  walk(loop.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::zero) result[stmt.buffer].written = result[stmt.buffer].whole = true;
    if (stmt.kind == StmtKind::store) touch(stmt.buffer, stmt.subscripts, true);
    if (stmt.value) {
      walk(*stmt.value, [&](const Value& v) {
        if (v.kind == ValueKind::load) touch(v.buffer, v.subscripts, false);
      });
    }
  });
  return result;
}

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
/// The most steps per element of a joined loop: beyond that, a pass over memory is negligible.
constexpr int joined_cost_max = 700;

/// The number of steps of the values of a loop.
int cost_of_values(const Stmt& loop) {
  int cost = 0;
  walk(loop.body, [&](const Stmt& stmt) {
    if (stmt.value) cost += cost_of(*stmt.value, joined_cost_max);
  });
  return cost;
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
    if (size != next.size) size = 0;
    cost += next.cost;
    for (auto& [buffer, theirs] : next.touched) {
      const auto [at, is_new] = touched.try_emplace(buffer, theirs);
      if (is_new) continue;
      FootprintPart& mine = at->second;
      mine.written = mine.written || theirs.written;
      mine.whole = mine.whole || theirs.whole;
      if (mine.own_axes && theirs.own_axes) {
        std::erase_if(*mine.own_axes,
                      [&](std::size_t axis) { return !theirs.own_axes->contains(axis); });
      } else if (!mine.own_axes) {
        mine.own_axes = std::move(theirs.own_axes);
      }
    }
  }

  std::vector<StmtPtr> parts;
  Block comments;       ///< stood between the parts, and stand before the joined loop
  bool passes = false;  ///< a loop that only its footprint keeps at its place
  bool may_join = false;
  bool scatters = false;  ///< see is_scatter()
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

/// True if each iteration conflicts only with the same iteration of the other loop, and the loops
/// share data: written by one of them or, if they are neighbours, read by both.
bool fusable(Group& first, Group& second, bool are_neighbours,
             const LoopQuestion& becomes_vectors) {
  const bool alike = first.may_join && second.may_join && first.parts.size() < joined_max &&
                     first.cost + second.cost <= joined_cost_max &&
                     first.loop().from == second.loop().from && first.loop().to == second.loop().to;
  if (!alike) return false;
  bool shares = false, shares_written = false;
  for (const auto& [buffer, theirs] : second.touched) {
    const auto own = first.touched.find(buffer);
    if (own == first.touched.end()) continue;
    const FootprintPart& mine = own->second;
    const bool meets = !mine.whole && !theirs.whole && mine.own_axes && theirs.own_axes &&
                       std::ranges::any_of(*mine.own_axes, [&](std::size_t axis) {
                         return theirs.own_axes->contains(axis);
                       });
    const bool written = mine.written || theirs.written;
    if (written && !meets) return false;
    shares_written = shares_written || written;
    shares = shares || meets;
  }
  return shares_written ||
         (are_neighbours && shares && joins_for_reads(first, second, becomes_vectors));
}

/// By buffer: the position of the only statement that touches it, if there is a single one.
std::vector<std::optional<std::size_t>> only_users(const Loop& loop) {
  struct User {
    std::size_t position = 0;
    bool is_one = false, is_more = false;
  };
  std::vector<User> users(loop.buffers.size());
  for (std::size_t k = 0; k < loop.body.size(); ++k) {
    const auto use = [&](BufferId buffer) {
      User& user = users[buffer];
      user.is_more = user.is_more || (user.is_one && user.position != k);
      user.position = k;
      user.is_one = true;
    };
    const Block alone{loop.body[k]};
    walk(alone, [&](const Stmt& s) {
      if (s.kind == StmtKind::store || s.kind == StmtKind::zero) use(s.buffer);
    });
    walk_values(alone, [&](const Value& v) {
      if (v.kind == ValueKind::load) use(v.buffer);
    });
  }
  std::vector<std::optional<std::size_t>> result;
  for (const User& user : users)
    result.push_back(user.is_one && !user.is_more ? std::optional(user.position) : std::nullopt);
  return result;
}

/// For each buffer, the axis that shrinks to a single element.
using ShrunkAxes = std::map<BufferId, std::size_t>;

StmtPtr at_first(const StmtPtr& stmt, const ShrunkAxes& axes) {
  Stmt copy = *stmt;
  if (copy.kind == StmtKind::store) {
    if (const auto at = axes.find(copy.buffer); at != axes.end())
      copy.subscripts[at->second] = Affine();
  }
  if (copy.value) {
    copy.value = rebuild(copy.value, [&](ValuePtr v) {
      const auto axis = v->kind == ValueKind::load ? axes.find(v->buffer) : axes.end();
      if (axis == axes.end()) return v;
      std::vector<Affine> at = v->subscripts;
      at[axis->second] = Affine();
      return make_load(v->buffer, v->dtype, std::move(at));
    });
  }
  for (StmtPtr& inner : copy.body) inner = at_first(inner, axes);
  return std::make_shared<const Stmt>(std::move(copy));
}

/// Shrinks scratch that only this loop touches.
ShrunkAxes shrink(Lowered& lowered, const Stmt& loop, const std::vector<BufferId>& scratch) {
  ShrunkAxes axes;
  const Footprint touched = footprint(loop);
  for (const BufferId buffer : scratch) {
    const FootprintPart& of = touched.at(buffer);
    if (of.whole || !of.own_axes || of.own_axes->empty()) continue;
    const std::size_t axis = *of.own_axes->begin();
    BufferDecl& decl = lowered.loop.buffers[buffer];
    Dims dims = decl.type.dims;
    dims[axis] = 1;
    // A buffer of a single element would keep iterations of an innermost loop from running side by
    // side.
    if (ArrayType{decl.type.dtype, dims}.num_elements() == 1) continue;
    decl.type.dims = dims;
    lowered.tensors[buffer] = Tensor(lowered.tensors[buffer].label(), decl.type.dtype, dims);
    axes[buffer] = axis;
  }
  return axes;
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

/// The statements with neighbours at the same position as one statement.
Block with_joined_positions(const Block& body) {
  Block result;
  for (const StmtPtr& stmt : body) {
    if (result.empty() || !is_at_same_position(*result.back(), *stmt)) {
      result.push_back(stmt);
      continue;
    }
    const StmtPtr first = result.back();
    Substitution by;
    by.vars[stmt->var] = affine_var(first->var);
    Block both = first->body;
    for (const StmtPtr& inner : stmt->body) both.push_back(substitute(inner, by));
    result.back() = with_body(*first, with_joined_positions(both));
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
  return with_body(group.loop(), fuse_loops(with_joined_positions(all), fixed, becomes_vectors));
}

}  // namespace

void shrink_scratch(Lowered& lowered) {
  // by the index of the only loop that touches it
  std::map<std::size_t, std::vector<BufferId>> scratch;
  const std::vector<std::optional<std::size_t>> users = only_users(lowered.loop);
  for (BufferId buffer = 0; buffer < users.size(); ++buffer) {
    if (!users[buffer] || lowered.loop.buffers[buffer].role != Role::scratch) continue;
    const Stmt& user = *lowered.loop.body[*users[buffer]];
    if (user.kind == StmtKind::loop && user.mark == LoopMark::serial)
      scratch[*users[buffer]].push_back(buffer);
  }
  for (const auto& [position, buffers] : scratch) {
    StmtPtr& stmt = lowered.loop.body[position];
    const ShrunkAxes axes = shrink(lowered, *stmt, buffers);
    if (!axes.empty()) stmt = at_first(stmt, axes);
  }
}

Block fuse_loops(const Block& body, const LoopQuestion& fixed,
                 const LoopQuestion& becomes_vectors) {
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
