// Fusion: loops one after another that run over the same extent become one, where what the first
// makes or reads is used by the second while it is still in cache. Pure; any thread.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "jit/lanes.hpp"
#include "jit/rewrite.hpp"
#include "jit/schedule.hpp"

namespace heddle::jit {
namespace {

/// What a loop touches of a buffer: the axes that all its accesses subscript by the loop's variable
/// alone.
struct Touched {
  bool written = false;
  bool whole = false;  ///< zeroed
  std::optional<std::set<std::size_t>> own_axes;
};
using Footprint = std::map<BufferId, Touched>;

Footprint footprint(const Stmt& loop) {
  Footprint result;
  const auto touch = [&](BufferId buffer, const std::vector<Affine>& at, bool writes) {
    Touched& touched = result[buffer];
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

/// The one size of all elements that the loop touches, where it only computes element by element;
/// else 0.
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

/// Loops that only read the same gain by that one read. More than so many arrays at once compete
/// for the caches' sets, and kernels shall not grow without bounds; sums, elements of several sizes
/// and what becomes vectors next to what does not have better schedules by themselves.
bool joins_for_reads(const StmtPtr& first, const Footprint& a, const StmtPtr& second,
                     const Footprint& b, const LoopQuestion& becomes_vectors) {
  constexpr std::size_t buffers_max = 12;
  return a.size() + b.size() <= buffers_max && element_size(*first) != 0 &&
         element_size(*first) == element_size(*second) &&
         becomes_vectors(first) == becomes_vectors(second);
}

/// Each iteration only meets what the same iteration of the other loop wrote, and there is some; or
/// they read the same.
bool fusable(const StmtPtr& first, const StmtPtr& second, const LoopQuestion& becomes_vectors) {
  const bool alike = first->kind == StmtKind::loop && second->kind == StmtKind::loop &&
                     first->mark == LoopMark::serial && second->mark == LoopMark::serial &&
                     first->from == second->from && first->to == second->to;
  if (!alike || assigns_outside(*first) || assigns_outside(*second)) return false;
  const Footprint a = footprint(*first);
  const Footprint b = footprint(*second);
  bool shares = false, shares_written = false;
  for (const auto& [buffer, mine] : a) {
    const auto other = b.find(buffer);
    if (other == b.end()) continue;
    const bool meets = !mine.whole && !other->second.whole && mine.own_axes &&
                       other->second.own_axes &&
                       std::ranges::any_of(*mine.own_axes, [&](std::size_t axis) {
                         return other->second.own_axes->contains(axis);
                       });
    const bool written = mine.written || other->second.written;
    if (written && !meets) return false;
    shares_written = shares_written || written;
    shares = shares || meets;
  }
  return shares_written || (shares && joins_for_reads(first, a, second, b, becomes_vectors));
}

/// The statement that alone touches the buffer, if there is one.
const Stmt* only_user(const Block& body, BufferId buffer) {
  const Stmt* user = nullptr;
  for (const StmtPtr& stmt : body) {
    bool uses = false;
    walk(Block{stmt}, [&](const Stmt& inner) {
      uses = uses || ((inner.kind == StmtKind::store || inner.kind == StmtKind::zero) &&
                      inner.buffer == buffer);
    });
    walk_values(Block{stmt}, [&](const Value& v) {
      uses = uses || (v.kind == ValueKind::load && v.buffer == buffer);
    });
    if (uses && user != nullptr) return nullptr;
    if (uses) user = stmt.get();
  }
  return user;
}

StmtPtr at_first(const StmtPtr& stmt, BufferId buffer, std::size_t axis) {
  Stmt copy = *stmt;
  if (copy.kind == StmtKind::store && copy.buffer == buffer) copy.subscripts[axis] = Affine();
  if (copy.value) {
    copy.value = rebuild(copy.value, [&](ValuePtr v) {
      if (v->kind != ValueKind::load || v->buffer != buffer) return v;
      std::vector<Affine> at = v->subscripts;
      at[axis] = Affine();
      return make_load(buffer, v->dtype, std::move(at));
    });
  }
  for (StmtPtr& inner : copy.body) inner = at_first(inner, buffer, axis);
  return std::make_shared<const Stmt>(std::move(copy));
}

}  // namespace

void shrink_scratch(Lowered& lowered) {
  for (BufferId buffer = 0; buffer < lowered.loop.buffers.size(); ++buffer) {
    BufferDecl& decl = lowered.loop.buffers[buffer];
    const Stmt* user = only_user(lowered.loop.body, buffer);
    const bool may = decl.role == Role::scratch && user != nullptr &&
                     user->kind == StmtKind::loop && user->mark == LoopMark::serial;
    if (!may) continue;
    const Touched touched = footprint(*user)[buffer];
    if (touched.whole || !touched.own_axes || touched.own_axes->empty()) continue;
    const std::size_t axis = *touched.own_axes->begin();
    Dims dims = decl.type.dims;
    dims[axis] = 1;
    // A single element would keep iterations of an innermost loop from running side by side.
    if (ArrayType{decl.type.dtype, dims}.num_elements() == 1) continue;
    decl.type.dims = dims;
    lowered.tensors[buffer] = Tensor(lowered.tensors[buffer].label(), decl.type.dtype, dims);
    for (StmtPtr& stmt : lowered.loop.body) {
      if (stmt.get() == user) {
        stmt = at_first(stmt, buffer, axis);
        break;
      }
    }
  }
}

Block fuse_loops(const Block& body, const LoopQuestion& fixed,
                 const LoopQuestion& becomes_vectors) {
  Block result;
  for (const StmtPtr& stmt : body) {
    const bool joins = !result.empty() && !fixed(stmt) && !fixed(result.back()) &&
                       fusable(result.back(), stmt, becomes_vectors);
    if (!joins) {
      result.push_back(stmt);
      continue;
    }
    Block both = result.back()->body;
    Substitution rename;
    rename.vars[stmt->var] = affine_var(result.back()->var);
    for (const StmtPtr& inner : stmt->body) both.push_back(substitute(inner, rename));
    result.back() = with_body(*result.back(), fuse_loops(both, fixed, becomes_vectors));
  }
  return result;
}

}  // namespace heddle::jit
