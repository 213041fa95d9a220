// Finds buffers that can be recomputed where they are read: an element's definition, or the reason
// why there is none. Pure; any thread.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "jit/loop/interval.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/lower/passes.hpp"

namespace heddle::jit {
namespace {

/// Thrown inside this file only: the first reason ends the search.
struct Refused {
  std::string cause;
};

[[noreturn]] void differing_indices() {
  throw Refused{"1: a statement that assigns it also reads it at other subscripts"};
}
[[noreturn]] void repeated_symbol() { throw Refused{"2: one index subscripts two of its axes"}; }
[[noreturn]] void partial() {
  throw Refused{
      "3: a statement assigns it other than element by element, by plain indices over whole axes"};
}
[[noreturn]] void writes_others() {
  throw Refused{"4: the loops that assign it assign another tensor too"};
}
[[noreturn]] void source_changes() {
  throw Refused{"5: a tensor that its definition reads is assigned before its last use"};
}
[[noreturn]] void escaping_local() {
  throw Refused{"6: its definition passes a value from one of its elements to another"};
}
[[noreturn]] void read_early() { throw Refused{"7: it is read before its last assignment"}; }
[[noreturn]] void no_setter() { throw Refused{"8: no statement assigns it"}; }
[[noreturn]] void computed_position() {
  throw Refused{
      "11: a statement that assigns it reads or writes at computed positions, and its reader is no "
      "scatter of single elements"};
}
[[noreturn]] void loose_static() {
  throw Refused{
      "9: it is read through a static index whose range is not known to stay inside it; declare "
      "the index with a range"};
}

bool is_write(const Stmt& stmt) {
  return stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero;
}

using Position = KernelUses::Position;

class DefinitionFinder {
 public:
  DefinitionFinder(const KernelUses& uses, BufferId buffer)
      : uses_(uses), loop_(uses.loop()), buffer_(buffer), dims_(loop_.buffers[buffer].type.dims) {}

  Definition find() {
    const KernelUses::Positions& writers = uses_.writers(buffer_);
    if (writers.empty()) no_setter();
    Definition result;
    result.positions.assign(writers.begin(), writers.end());
    const KernelUses::Reads& readers = uses_.readers(buffer_);
    if (!readers.empty() && readers.begin()->first < result.positions.back()) read_early();
    last_read_ = readers.empty() ? result.positions.back() : readers.rbegin()->first;
    for (const Position position : result.positions) {
      result.parts.push_back(part(position, result.parts.empty()));
      check_sources(position);
    }
    if (!loop_.statics.empty())
      for (const auto& [reader, loads] : readers) check_bounds(uses_[reader]);
    return result;
  }

  Pieces find_pieces() {
    const KernelUses::Positions& writers = uses_.writers(buffer_);
    const KernelUses::Reads& readers = uses_.readers(buffer_);
    constexpr std::size_t pieces_max = 32;
    if (writers.size() < 2 || writers.size() > pieces_max || readers.empty()) partial();
    if (readers.begin()->first < *writers.rbegin()) read_early();
    last_read_ = readers.rbegin()->first;
    Pieces result;
    result.positions.assign(writers.begin(), writers.end());
    Int128 covered = 0;
    for (const Position position : result.positions) {
      Piece next = piece(position);
      for (const Piece& other : result.pieces) {
        if (overlap(next.box, other.box)) partial();
      }
      Int128 elements = 1;
      for (const Interval& axis : next.box) elements *= axis.highest - axis.lowest + 1;
      covered += elements;
      result.pieces.push_back(std::move(next));
      check_sources(position);
    }
    if (covered != *loop_.buffers[buffer_].type.num_elements()) partial();
    return result;
  }

 private:
  static bool overlap(const Box& a, const Box& b) {
    return std::ranges::equal(a, b, [](const Interval& x, const Interval& y) {
      return x.lowest <= y.highest && y.lowest <= x.highest;
    });
  }

  Piece piece(Position position) const {
    const StmtPtr& top = uses_[position];
    if (top->kind == StmtKind::zero) partial();
    const Stmt& store = only_store(top);
    Piece result;
    std::set<VarId> axes;
    for (const Affine& a : store.subscripts) {
      result.offsets.push_back(a.constant);
      if (a.terms.empty()) {
        result.box.push_back({a.constant, a.constant});
        result.part.axes.emplace_back();
        continue;
      }
      const bool plain = a.terms.size() == 1 && a.terms[0].coefficient == 1 &&
                         a.terms[0].kind == AffineTerm::Kind::loop;
      if (!plain || !axes.insert(a.terms[0].id).second) partial();
      const auto [from, to] = uses_.bounds(a.terms[0].id);
      result.box.push_back({Int128{from} + a.constant, Int128{to} - 1 + a.constant});
      result.part.axes.emplace_back(a.terms[0].id);
    }
    walk_values(Block{top}, [&](const Value& v) {
      if (v.kind == ValueKind::load && v.buffer == buffer_) partial();
    });
    check_locals(position, axes);
    result.part.body = strip({top}, axes);
    for (std::size_t k = 0; k < result.part.body.size(); ++k) {
      const bool last = k + 1 == result.part.body.size();
      if (result.part.body[k]->kind != (last ? StmtKind::store : StmtKind::declare)) partial();
    }
    return result;
  }

  DefinitionPart part(Position position, bool first) const {
    const StmtPtr& top = uses_[position];
    DefinitionPart result;
    if (top->kind == StmtKind::zero) {  // every element is the constant 0
      const ValuePtr zero = make_constant(convert(Scalar{}, loop_.buffers[buffer_].type.dtype));
      result.axes.resize(dims_.size());
      result.body = {make_store(buffer_, std::vector<Affine>(dims_.size()), zero)};
      return result;
    }
    const Stmt& store = only_store(top);
    result.axes = axes_of(store);
    std::set<VarId> axes;
    for (const auto& axis : result.axes) {
      if (axis) axes.insert(*axis);
    }
    check_own_reads(top, store, first);
    check_locals(position, axes);
    result.body = strip({top}, axes);
    // The first part starts the element: no inner loop of it may omit the start or repeat it.
    const Stmt* last = result.body.back().get();
    while (last->kind == StmtKind::at) last = last->body.back().get();
    const bool starts = last == &store;
    if (first && !starts) partial();
    return result;
  }

  const Stmt& only_store(const StmtPtr& top) const {
    const Stmt* store = nullptr;
    walk(Block{top}, [&](const Stmt& s) {
      // Beside other work, a read at a computed position is no vector code; a scatter of single
      // elements is none.
      if (s.kind == StmtKind::at && !(s.nearest && a_scatter_reads_once())) computed_position();
      if (!is_write(s)) return;
      if (s.buffer != buffer_) writes_others();
      if (store != nullptr || s.kind == StmtKind::zero) partial();
      store = &s;
    });
    return *store;
  }

  bool a_scatter_reads_once() const {
    const KernelUses::Reads& readers = uses_.readers(buffer_);
    if (readers.size() != 1 || readers.begin()->second != 1) return false;
    bool scatters = false, rows = false;
    walk(Block{uses_[readers.begin()->first]}, [&](const Stmt& s) {
      if (s.kind != StmtKind::at || s.nearest) return;
      scatters = true;
      walk(s.body, [&](const Stmt& inner) { rows |= inner.kind == StmtKind::loop; });
    });
    return scatters && !rows;
  }

  /// The loop variable per axis: plain and distinct, covering the whole axis.
  std::vector<std::optional<VarId>> axes_of(const Stmt& store) const {
    std::vector<std::optional<VarId>> axes;
    std::set<VarId> used;
    for (std::size_t axis = 0; axis < dims_.size(); ++axis) {
      const Affine& a = store.subscripts[axis];
      if (dims_[axis] == 1 && a.terms.empty()) {
        axes.emplace_back();
        continue;
      }
      const bool plain = a.constant == 0 && a.terms.size() == 1 && a.terms[0].coefficient == 1 &&
                         a.terms[0].kind == AffineTerm::Kind::loop;
      if (!plain) partial();
      const VarId var = a.terms[0].id;
      if (!used.insert(var).second) repeated_symbol();
      if (uses_.bounds(var) != std::pair<std::int64_t, std::int64_t>(0, dims_[axis])) partial();
      axes.emplace_back(var);
    }
    return axes;
  }

  void check_own_reads(const StmtPtr& top, const Stmt& store, bool first) const {
    walk_values(Block{top}, [&](const Value& v) {
      if (v.kind != ValueKind::load || v.buffer != buffer_) return;
      if (first) read_early();
      if (v.subscripts != store.subscripts) differing_indices();
    });
  }

  /// Checks that locals assigned by the definition belong to a single element; outer locals must
  /// stay as they are.
  void check_locals(Position position, const std::set<VarId>& axes) const {
    const Block alone{uses_[position]};
    std::set<LocalId> inner;
    declared_inside(alone, axes.size(), axes, inner);
    walk(alone, [&](const Stmt& s) {
      if (s.kind == StmtKind::assign && !inner.contains(s.local)) escaping_local();
    });
    walk_values(alone, [&](const Value& v) {
      const bool outer = v.kind == ValueKind::local && !inner.contains(v.local);
      if (outer && uses_.assigns(v.local, position, last_read_)) escaping_local();
    });
  }

  /// Locals declared inside all loops over the axes.
  static void declared_inside(const Block& block, std::size_t missing, const std::set<VarId>& axes,
                              std::set<LocalId>& inner) {
    for (const StmtPtr& stmt : block) {
      if (stmt->kind == StmtKind::declare && missing == 0) inner.insert(stmt->local);
      const bool axis = stmt->kind == StmtKind::loop && axes.contains(stmt->var);
      declared_inside(stmt->body, axis ? missing - 1 : missing, axes, inner);
    }
  }

  /// The block without the loops over the axes.
  static Block strip(const Block& block, const std::set<VarId>& axes) {
    Block result;
    for (const StmtPtr& stmt : block) {
      if (!binds_variable(*stmt)) {
        result.push_back(stmt);
        continue;
      }
      Block body = strip(stmt->body, axes);
      if (stmt->kind == StmtKind::loop && axes.contains(stmt->var)) {
        result.insert(result.end(), body.begin(), body.end());
      } else {
        result.push_back(with_body(*stmt, std::move(body)));
      }
    }
    return result;
  }

  /// Checks that the buffers read by the part at `position` keep their values until the last use.
  void check_sources(Position position) const {
    walk_values(Block{uses_[position]}, [&](const Value& v) {
      if (v.kind != ValueKind::load || v.buffer == buffer_) return;
      const auto next = uses_.writers(v.buffer).upper_bound(position);
      if (next != uses_.writers(v.buffer).end() && *next <= last_read_) source_changes();
    });
  }

  /// Recomputing must not lose the bounds that a subscript puts on a static index.
  void check_bounds(const StmtPtr& reader) const {
    using Ends = std::optional<std::pair<std::int64_t, std::int64_t>>;
    const auto ends = [this](const AffineTerm& term) -> Ends {
      if (term.kind == AffineTerm::Kind::loop) {
        const auto [from, to] = uses_.bounds(term.id);
        return Ends({from, to - 1});
      }
      const auto range = loop_.statics[term.id].range;
      return range && *range > 1 ? Ends({0, *range - 1}) : Ends();
    };
    walk_values(Block{reader}, [&](const Value& v) {
      if (v.kind != ValueKind::load || v.buffer != buffer_) return;
      for (std::size_t axis = 0; axis < dims_.size(); ++axis) {
        const Affine& a = v.subscripts[axis];
        const bool bound = std::ranges::any_of(a.terms, [](const AffineTerm& term) {
          return term.kind == AffineTerm::Kind::static_index;
        });
        if (!bound) continue;
        const auto reached = reach(a, ends);
        if (!reached || !reached->inside(dims_[axis])) loose_static();
      }
    });
  }

  const KernelUses& uses_;
  const Loop& loop_;
  const BufferId buffer_;
  const Dims& dims_;
  Position last_read_;
};

}  // namespace

Inlinable find_definition(const KernelUses& uses, BufferId buffer) {
  try {
    return {DefinitionFinder(uses, buffer).find(), {}};
  } catch (const Refused& refused) {
    return {{}, refused.cause};
  }
}

std::optional<Pieces> find_pieces(const KernelUses& uses, BufferId buffer) {
  try {
    return DefinitionFinder(uses, buffer).find_pieces();
  } catch (const Refused&) {
    return std::nullopt;
  }
}

}  // namespace heddle::jit
