// See own_scratch.hpp.
#include "jit/loop/own_scratch.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include "jit/loop/interface.hpp"
#include "jit/loop/rewrite.hpp"

namespace heddle::jit {
namespace {

/// Calls `visit` with each buffer that a statement touches, and its subscripts; hints do not count.
template <class Visit>
void each_touch(const StmtPtr& stmt, const Visit& visit) {
  const std::vector<Affine> all;
  walk(Block{stmt}, [&](const Stmt& inner) {
    if (inner.value) {
      walk(*inner.value, [&](const Value& v) {
        if (v.kind == ValueKind::load) visit(v.buffer, v.subscripts);
      });
    }
    if (inner.kind == StmtKind::store) visit(inner.buffer, inner.subscripts);
    if (inner.kind == StmtKind::zero) visit(inner.buffer, all);
  });
}

Block iteration(const Stmt& nest, std::int64_t at) {
  Substitution by;
  by.vars[nest.var] = {at, {}};
  Block body;
  for (const StmtPtr& stmt : nest.body) body.push_back(substitute(stmt, by));
  return body;
}

Block first_iteration(const Stmt& nest) { return iteration(nest, nest.from); }

bool touches_move(const StmtPtr& nest, BufferId id) {
  bool moves = false;
  each_touch(nest, [&](BufferId touched, const std::vector<Affine>& at) {
    moves = moves || (touched == id && moves_with(at, nest->var));
  });
  return moves;
}

/// A loop that touches the same elements of a buffer in every iteration is replaced by its first
/// iteration: the other iterations write before they read exactly if the first does.
Block without_repeats(const Block& body, BufferId id) {
  Block once;
  for (const StmtPtr& stmt : body) {
    if (stmt->kind == StmtKind::loop && stmt->from < stmt->to && !touches_move(stmt, id)) {
      for (const StmtPtr& inner : without_repeats(first_iteration(*stmt), id))
        once.push_back(inner);
    } else {
      once.push_back(stmt);
    }
  }
  return once;
}

/// The iterations of short loops one after the other: one may read what another has written.
Block one_by_one(const Block& body, BufferId id) {
  Block all;
  for (const StmtPtr& stmt : body) {
    if (stmt->kind == StmtKind::loop && stmt->to - stmt->from <= iterations_examined_max &&
        touches_move(stmt, id)) {
      for (std::int64_t at = stmt->from; at < stmt->to; ++at) {
        for (StmtPtr& inner : iteration(*stmt, at)) {
          bool touches = false;
          each_touch(inner, [&](BufferId touched, const std::vector<Affine>&) {
            touches = touches || touched == id;
          });
          if (touches) all.push_back(std::move(inner));
        }
      }
    } else {
      all.push_back(stmt);
    }
  }
  return all;
}

Interface interface_of(const Loop& loop, Block body) {
  return read_interface({loop.buffers, loop.statics, std::move(body)});
}

}  // namespace

std::set<BufferId> own_scratch(const Loop& loop) {
  std::set<BufferId> own;
  for (BufferId id = 0; id < loop.buffers.size(); ++id) {
    if (loop.buffers[id].role == Role::scratch) own.insert(id);
  }
  for (const StmtPtr& stmt : loop.body) {
    if (own.empty()) break;
    const bool is_nest = stmt->kind == StmtKind::loop;
    std::set<BufferId> touched;
    each_touch(stmt, [&](BufferId id, const std::vector<Affine>& at) {
      if (!own.contains(id)) return;
      touched.insert(id);
      if (!is_nest || moves_with(at, stmt->var)) own.erase(id);
    });
    std::erase_if(touched, [&](BufferId id) { return !own.contains(id); });
    if (touched.empty()) continue;
    const Block first = first_iteration(*stmt);
    const Interface as_it_is = interface_of(loop, first);
    const auto reads_first = [&](const Block& body, BufferId id) {
      return interface_of(loop, body).buffers[id].reads_before_writing;
    };
    for (const BufferId id : touched) {
      if (!as_it_is.buffers[id].reads_before_writing) continue;
      const Block once = without_repeats(first, id);
      if (reads_first(once, id) && reads_first(one_by_one(once, id), id)) own.erase(id);
    }
  }
  return own;
}

}  // namespace heddle::jit
