// See gathers_joined.hpp.
#include "jit/schedule/gathers_joined.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/shrunk_scratch.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// for row { nearest ... { for element { scratch[row, element] = value } } }
struct Gather {
  StmtPtr rows;
  std::vector<StmtPtr> positions;  ///< outermost first
  StmtPtr elements;
  StmtPtr store;
};

/// Single elements are computed where the scatter reads them (pass_definition.cpp).
constexpr std::int64_t row_elements_min = 2;

std::optional<Gather> match_gather(const StmtPtr& nest) {
  if (!is_serial_loop(nest) || nest->from != 0 || nest->body.size() != 1) return std::nullopt;
  Gather found;
  found.rows = nest;
  StmtPtr inner = nest->body[0];
  while (inner->kind == StmtKind::at && inner->nearest && inner->body.size() == 1) {
    found.positions.push_back(inner);
    inner = StmtPtr(inner->body[0]);
  }
  if (found.positions.empty() || !is_serial_loop(inner) || inner->from != 0 ||
      inner->to < row_elements_min || inner->body.size() != 1 ||
      inner->body[0]->kind != StmtKind::store)
    return std::nullopt;
  found.elements = inner;
  found.store = inner->body[0];
  return has_costly(*found.store->value) ? std::nullopt : std::optional(found);
}

/// How statements access buffers.
struct TouchedBuffers {
  std::set<BufferId> read, written;

  explicit TouchedBuffers(const Block& body) {
    walk(body, [&](const Stmt& stmt) {
      const bool writes = stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero;
      if (writes) written.insert(stmt.buffer);
      if (stmt.kind == StmtKind::prefetch) read.insert(stmt.buffer);
      if (!stmt.value) return;
      walk(*stmt.value, [&](const Value& v) {
        if (v.kind == ValueKind::load) read.insert(v.buffer);
      });
    });
  }
  [[nodiscard]] bool touches(BufferId buffer) const {
    return read.contains(buffer) || written.contains(buffer);
  }
};

/// for row { at ... { for element { straight-line code } } }, with a position that may be out of
/// range: each element of a row is read once.
bool is_scatter_nest(const StmtPtr& nest) {
  if (!is_serial_loop(nest) || nest->from != 0 || nest->body.size() != 1) return false;
  StmtPtr inner = nest->body[0];
  bool scatters = false;
  while (inner->kind == StmtKind::at && inner->body.size() == 1) {
    scatters = scatters || !inner->nearest;
    inner = StmtPtr(inner->body[0]);
  }
  return scatters && is_serial_loop(inner) && is_straight(inner->body);
}

/// True if the value or a position of the gather needs a local from outside.
bool has_local(const Gather& gather) {
  bool found = false;
  const auto look = [&](const Value& v) { found = found || v.kind == ValueKind::local; };
  walk(*gather.store->value, look);
  for (const StmtPtr& position : gather.positions) walk(*position->value, look);
  return found;
}

class GatherJoiner {
 public:
  GatherJoiner(Scheduling& in, Block body) : in_(in), body_(std::move(body)) {}

  Block joined() && {
    for (std::size_t k = 0; k < body_.size(); ++k) {
      const std::optional<Gather> gather = match_gather(body_[k]);
      if (gather && join(*gather, k)) --k;  // the next statement is at this place now
    }
    return std::move(body_);
  }

 private:
  /// Removes the gather; false, with nothing changed, where it stays.
  bool join(const Gather& gather, std::size_t at) {
    const BufferId scratch = gather.store->buffer;
    if (in_.lowered.loop.buffers[scratch].role != Role::scratch || !is_whole(gather) ||
        has_local(gather))
      return false;
    const TouchedBuffers own({gather.rows});
    // Rows from beyond the caches are gathered by several processors, where a scatter has one.
    const bool is_near = std::ranges::all_of(own.read, [&](BufferId buffer) {
      return in_.lowered.loop.buffers[buffer].type.num_bytes().value_or(0) <= in_.target.l3_bytes;
    });
    if (!is_near) return false;
    std::optional<std::size_t> reader;
    for (std::size_t k = 0; k < body_.size(); ++k) {
      const TouchedBuffers theirs({body_[k]});
      if (k != at && theirs.touches(scratch)) {
        if (reader || k < at) return false;
        reader = k;
      }
      // From here to the reader, what the gather reads stays as it is.
      const bool changes = std::ranges::any_of(
          theirs.written, [&](BufferId buffer) { return own.read.contains(buffer); });
      if (k >= at && (!reader || k == *reader) && changes) return false;
    }
    if (!reader || own.read.contains(scratch) || !is_scatter_nest(body_[*reader]) ||
        body_[*reader]->to != gather.rows->to || !reads_rows(body_[*reader], gather))
      return false;
    body_[*reader] = with_rows(body_[*reader], gather);
    body_.erase(body_.begin() + static_cast<std::ptrdiff_t>(at));
    leave_one_element(in_.lowered, scratch);
    return true;
  }

  /// True if the gather stores each element of its scratch once: its first subscript is the row,
  /// its last the element, and other axes have one element.
  [[nodiscard]] bool is_whole(const Gather& gather) const {
    const Dims& dims = in_.lowered.loop.buffers[gather.store->buffer].type.dims;
    const std::vector<Affine>& at = gather.store->subscripts;
    return at.size() > 1 && at.front() == affine_var(gather.rows->var) &&
           dims.front() == gather.rows->to && at.back() == affine_var(gather.elements->var) &&
           dims.back() == gather.elements->to &&
           std::all_of(dims.begin() + 1, dims.end() - 1, [](std::int64_t n) { return n == 1; });
  }

  /// True if the nest only reads the scratch, in each iteration its own row.
  [[nodiscard]] static bool reads_rows(const StmtPtr& nest, const Gather& gather) {
    const BufferId scratch = gather.store->buffer;
    bool rows = true;
    walk({nest}, [&](const Stmt& stmt) {
      rows = rows && !((stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero ||
                        stmt.kind == StmtKind::prefetch) &&
                       stmt.buffer == scratch);
      // A position that depends on a row would stand outside of what it needs.
      if (stmt.kind == StmtKind::at) rows = rows && !loads(*stmt.value, scratch);
    });
    walk_values({nest}, [&](const Value& v) {
      if (v.kind == ValueKind::load && v.buffer == scratch)
        rows = rows && v.subscripts.front() == affine_var(nest->var);
    });
    return rows;
  }
  [[nodiscard]] static bool loads(const Value& value, BufferId buffer) {
    bool found = false;
    walk(value, [&](const Value& v) {
      found = found || (v.kind == ValueKind::load && v.buffer == buffer);
    });
    return found;
  }

  /// The scatter, within the positions of the gather.
  [[nodiscard]] StmtPtr with_rows(const StmtPtr& nest, const Gather& gather) {
    Substitution here;
    here.vars[gather.rows->var] = affine_var(nest->var);
    std::vector<StmtPtr> positions;
    for (const StmtPtr& each : gather.positions) {
      const VarId var = in_.fresh.var();
      positions.push_back(
          make_at(var, each->from, each->to, substitute(each->value, here), true, {}));
      here.vars[each->var] = affine_var(var);
    }
    Block body;
    for (const StmtPtr& stmt : nest->body) body.push_back(reading(stmt, gather, here));
    for (std::size_t k = positions.size(); k-- > 0;)
      body = {with_body(*positions[k], std::move(body))};
    return with_body(*nest, std::move(body));
  }

  [[nodiscard]] static StmtPtr reading(const StmtPtr& stmt, const Gather& gather,
                                       const Substitution& here) {
    Stmt copy = *stmt;
    if (copy.value) {
      copy.value = rebuild(copy.value, [&](ValuePtr v) {
        if (v->kind != ValueKind::load || v->buffer != gather.store->buffer) return v;
        Substitution by = here;
        by.vars[gather.elements->var] = v->subscripts.back();
        return substitute(gather.store->value, by);
      });
    }
    for (StmtPtr& inner : copy.body) inner = reading(inner, gather, here);
    return std::make_shared<const Stmt>(std::move(copy));
  }

  Scheduling& in_;
  Block body_;
};

}  // namespace

Block with_gathers_joined(Scheduling& in, const Block& body) {
  constexpr std::size_t statements_max = 256;  // the work is square
  const bool may_join = body.size() <= statements_max && std::ranges::any_of(body, is_scatter_nest);
  return may_join ? GatherJoiner(in, body).joined() : body;
}

}  // namespace heddle::jit
