// See lower/pieces.hpp.
#include "jit/lower/pieces.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "jit/loop/affine_value.hpp"
#include "jit/loop/rewrite.hpp"

namespace heddle::jit {
namespace {

/// The most copies of a reader: three parts along each of two axes.
constexpr std::size_t parts_max = 9;

/// True if the block is declarations, assignments, and loops over these.
bool only_sums(const Block& body) {
  return std::ranges::all_of(body, [](const StmtPtr& stmt) {
    if (stmt->kind == StmtKind::loop)
      return stmt->mark == LoopMark::serial && only_sums(stmt->body);
    return stmt->kind == StmtKind::declare || stmt->kind == StmtKind::assign;
  });
}

/// True if an axis is subscripted by the variable alone.
bool has_own_axis(const std::vector<Affine>& subscripts, VarId var) {
  return std::ranges::any_of(subscripts, [&](const Affine& index) {
    return index.terms.size() == 1 && index.terms[0].kind == AffineTerm::Kind::loop &&
           index.terms[0].id == var;
  });
}

/// True if sums read each element once: a product has a better schedule as a whole.
bool sum_once(const Block& body, const std::set<VarId>& loops, bool in_sum = false) {
  return std::ranges::all_of(body, [&](const StmtPtr& stmt) {
    if (stmt->kind == StmtKind::loop) {
      std::set<VarId> inner = loops;
      inner.insert(stmt->var);
      return sum_once(stmt->body, inner, true);
    }
    bool once = true;
    if (!stmt->value || !in_sum) return once;
    walk(*stmt->value, [&](const Value& v) {
      if (v.kind != ValueKind::load) return;
      once = once &&
             std::ranges::all_of(loops, [&](VarId var) { return has_own_axis(v.subscripts, var); });
    });
    return once;
  });
}

/// True if the statement is serial loops around declarations, sums and a store to another buffer.
/// Each loop goes along an axis of that buffer: the parts of the loop then store boxes that cover
/// what the loop covers.
bool stores_elements(const StmtPtr& reader, BufferId buffer) {
  std::set<VarId> loops;
  const Block alone{reader};
  const Block* body = &alone;
  while (body->size() == 1 && body->front()->kind == StmtKind::loop) {
    if (body->front()->mark != LoopMark::serial) return false;
    loops.insert(body->front()->var);
    body = &body->front()->body;
  }
  if (body->empty()) return false;
  const Stmt& store = *body->back();
  if (store.kind != StmtKind::store || store.buffer == buffer) return false;
  std::set<VarId> others = loops;
  for (const Affine& index : store.subscripts) {
    if (index.terms.size() == 1 && index.terms[0].kind == AffineTerm::Kind::loop &&
        index.terms[0].coefficient == 1)
      others.erase(index.terms[0].id);
  }
  const Block before(body->begin(), body->end() - 1);
  const bool has_sums = std::ranges::any_of(
      before, [](const StmtPtr& stmt) { return stmt->kind != StmtKind::declare; });
  return others.empty() && only_sums(before) && (!has_sums || sum_once(before, loops));
}

class PieceReader {
 public:
  PieceReader(BufferId buffer, const Pieces& pieces, NewNames& names)
      : buffer_(buffer), pieces_(pieces), names_(names) {}

  /// Throws NotInPieces.
  Block read(const Block& body) {
    if (body.size() == 1 && body.front()->kind == StmtKind::loop) return parts(*body.front());
    return elements(body);
  }

  struct NotInPieces {};

 private:
  /// The statements of an element: loops among them are sums, which stay whole.
  Block elements(const Block& body) {
    done_.clear();
    Block result;
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::loop) {
        ranges_[stmt->var] = {stmt->from, stmt->to};
        result.push_back(with_body(*stmt, elements(stmt->body)));
        done_.clear();
        continue;
      }
      ValuePtr value = rebuild(stmt->value, [&](ValuePtr v) {
        return v->kind == ValueKind::load && v->buffer == buffer_ ? element(*v, result) : v;
      });
      result.push_back(with_value(*stmt, std::move(value)));
    }
    return result;
  }

  Block parts(const Stmt& loop) {
    ranges_[loop.var] = {loop.from, loop.to};
    const Cuts cuts = cuts_of(loop);
    const std::size_t most = parts_max_;
    parts_max_ /= 1 + cuts.at.size();
    if (parts_max_ == 0) throw NotInPieces();
    Block result;
    std::int64_t from = loop.from;
    const auto add = [&](std::int64_t to) {
      const StmtPtr part = part_of(loop, from, to);
      ranges_[part->var] = {part->from, part->to};
      result.push_back(with_body(*part, read(part->body)));
      from = to;
    };
    for (const std::int64_t at : cuts.at) add(at);
    add(loop.to);
    parts_max_ = most;
    return result;
  }

  /// The first iterations of the loop that read another piece than the iterations before.
  [[nodiscard]] Cuts cuts_of(const Stmt& loop) const {
    Cuts cuts{loop.var};
    walk_values(loop.body, [&](const Value& v) {
      if (v.kind != ValueKind::load || v.buffer != buffer_) return;
      for (const Piece& piece : pieces_.pieces) {
        for (std::size_t axis = 0; axis < piece.box.size(); ++axis) {
          add_cut(v.subscripts[axis], narrow(piece.box[axis].lowest), ranges_, cuts);
          add_cut(v.subscripts[axis], narrow(piece.box[axis].highest + 1), ranges_, cuts);
        }
      }
    });
    return cuts;
  }

  /// Iterations `from` .. `to` of the loop, with new names; the part begins at 0.
  StmtPtr part_of(const Stmt& loop, std::int64_t from, std::int64_t to) {
    const VarId var = names_.var++;
    Substitution by = new_names(loop.body);
    by.vars[loop.var] = affine_add(affine_var(var), Affine{from, {}});
    Block body;
    for (const StmtPtr& stmt : loop.body) body.push_back(substitute(stmt, by));
    return make_loop(var, 0, to - from, std::move(body), loop.mark);
  }

  Substitution new_names(const Block& body) {
    Substitution by;
    walk(body, [&](const Stmt& stmt) {
      if (binds_variable(stmt)) by.loops[stmt.var] = names_.var++;
      if (stmt.kind == StmtKind::declare) by.locals[stmt.local] = names_.local++;
    });
    return by;
  }

  /// The loaded element as a local, declared at the end of `before`. The local has the buffer's
  /// type: 16-bit floats round as if they had been stored.
  ValuePtr element(const Value& load, Block& before) {
    for (const auto& [at, local] : done_) {
      if (at == load.subscripts) return local;
    }
    const Piece& piece = piece_at(load.subscripts);
    Substitution by = new_names(piece.part.body);
    for (std::size_t axis = 0; axis < piece.offsets.size(); ++axis) {
      if (const auto& var = piece.part.axes[axis])
        by.vars[*var] = affine_add(load.subscripts[axis], Affine{-piece.offsets[axis], {}});
    }
    ValuePtr local = make_local(names_.local++, load.dtype);
    for (const StmtPtr& stmt : piece.part.body) {
      StmtPtr made = substitute(stmt, by);
      before.push_back(made->kind == StmtKind::store ? make_declare(local->local, made->value)
                                                     : std::move(made));
    }
    done_.emplace_back(load.subscripts, local);
    return local;
  }

  [[nodiscard]] const Piece& piece_at(const std::vector<Affine>& subscripts) const {
    Box box;
    for (const Affine& index : subscripts) {
      const auto range = reach(index, ranges_);
      if (!range) throw NotInPieces();
      box.push_back(*range);
    }
    for (const Piece& piece : pieces_.pieces) {
      if (std::ranges::equal(box, piece.box, [](const Interval& a, const Interval& b) {
            return a.lowest >= b.lowest && a.highest <= b.highest;
          }))
        return piece;
    }
    throw NotInPieces();
  }

  const BufferId buffer_;
  const Pieces& pieces_;
  NewNames& names_;
  std::size_t parts_max_ = parts_max;
  LoopRanges ranges_;
  // elements computed in the present part
  std::vector<std::pair<std::vector<Affine>, ValuePtr>> done_;
};

}  // namespace

std::optional<Block> read_in_pieces(const StmtPtr& reader, BufferId buffer, const Pieces& pieces,
                                    NewNames& names) {
  if (!stores_elements(reader, buffer)) return std::nullopt;
  try {
    return PieceReader(buffer, pieces, names).read({reader});
  } catch (const PieceReader::NotInPieces&) {
    return std::nullopt;
  }
}

}  // namespace heddle::jit
