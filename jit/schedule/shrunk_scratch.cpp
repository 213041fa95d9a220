// See shrunk_scratch.hpp.
#include "jit/schedule/shrunk_scratch.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/footprint.hpp"
#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {
namespace {

/// Leaves one element of the axis; false where that would be the buffer's only element, which would
/// keep iterations of an innermost loop from running side by side.
bool shrink(Lowered& lowered, BufferId buffer, std::size_t axis) {
  const BufferDecl& decl = lowered.loop.buffers[buffer];
  Dims dims = decl.type.dims;
  dims[axis] = 1;
  if (ArrayType{decl.type.dtype, dims}.num_elements() == 1) return false;
  set_extent(lowered, buffer, axis, 1);
  return true;
}

bool runs_in_order(const Stmt& stmt) {
  return stmt.kind == StmtKind::loop && stmt.mark == LoopMark::serial;
}

/// The axis on which each iteration of the loop uses a row of the buffer for itself.
std::optional<std::size_t> axis_of_own_rows(const Stmt& loop, BufferId buffer) {
  if (!runs_in_order(loop)) return std::nullopt;
  const Footprint touched = footprint(loop);
  const FootprintPart& of = touched.at(buffer);
  if (of.whole || !of.own_axes) return std::nullopt;
  const auto own = std::ranges::find_if(
      *of.own_axes, [](const auto& each) { return each.second.all().are_one(); });
  return own == of.own_axes->end() ? std::nullopt : std::optional(own->first);
}

/// Rows of a buffer of which a loop, the last of the statements that touch the buffer, computes
/// each from the row before; the other statements touch the first row.
class RunningRows {
 public:
  RunningRows(BufferId buffer, Block users) : buffer_(buffer), users_(std::move(users)) {}

  /// The axis of the rows; none where rows are used otherwise.
  [[nodiscard]] std::optional<std::size_t> axis() const {
    const Stmt& loop = *users_.back();
    const std::optional<std::size_t> axis = axis_of_rows(loop);
    if (!axis || !is_element_by_element(loop, *axis)) return std::nullopt;
    const bool begin = std::all_of(users_.begin(), users_.end() - 1, [&](const StmtPtr& stmt) {
      return uses_first_row(stmt, *axis);
    });
    return begin ? axis : std::nullopt;
  }

 private:
  template <class Visit>
  void accesses(const Block& body, const Visit& visit) const {
    walk(body, [&](const Stmt& stmt) {
      if (stmt.value) {
        walk(*stmt.value, [&](const Value& v) {
          if (v.kind == ValueKind::load && v.buffer == buffer_) visit(stmt, v.subscripts, false);
        });
      }
      if (stmt.kind == StmtKind::store && stmt.buffer == buffer_)
        visit(stmt, stmt.subscripts, true);
    });
  }
  /// The axis on which each iteration of the loop writes the next row, and reads that row and the
  /// row before.
  [[nodiscard]] std::optional<std::size_t> axis_of_rows(const Stmt& stmt) const {
    if (!runs_in_order(stmt) || stmt.from != 0) return std::nullopt;
    const Footprint touched = footprint(stmt);
    const FootprintPart& part = touched.at(buffer_);
    if (part.whole || !part.own_axes) return std::nullopt;
    const auto found = std::ranges::find_if(*part.own_axes, [](const auto& axis) {
      const auto& [reads, writes] = axis.second;
      return writes && reads && writes->lowest == 1 && writes->highest == 1 && reads->lowest == 0 &&
             reads->highest <= 1;
    });
    return found == part.own_axes->end() ? std::nullopt : std::optional(found->first);
  }

  /// True if the loop reads elements of the row before only to compute the same element of the next
  /// row.
  [[nodiscard]] bool is_element_by_element(const Stmt& loop, std::size_t axis) const {
    const Stmt* store = nullptr;
    bool one = true;
    accesses(loop.body, [&](const Stmt& stmt, const std::vector<Affine>&, bool writes) {
      one = one && (!writes || store == nullptr);
      if (writes) store = &stmt;
    });
    if (!one || store == nullptr || !stores_each_once(loop, *store)) return false;
    std::vector<Affine> before = store->subscripts;
    before[axis] = affine_var(loop.var);
    bool apart = true;
    accesses(loop.body, [&](const Stmt& stmt, const std::vector<Affine>& at, bool writes) {
      if (!writes && (at.size() != before.size() || at[axis] == before[axis]))
        apart = apart && &stmt == store && at == before;
    });
    return apart;
  }

  /// True if an iteration of the loop stores each element once: each loop around the store moves it
  /// along an axis.
  static bool stores_each_once(const Stmt& loop, const Stmt& store) {
    return std::ranges::all_of(loop.body, [&](const StmtPtr& stmt) {
      bool is_around = false;
      walk({stmt}, [&](const Stmt& each) { is_around = is_around || &each == &store; });
      if (!is_around || !binds_variable(*stmt)) return true;
      const bool moves =
          std::ranges::find(store.subscripts, affine_var(stmt->var)) != store.subscripts.end();
      return stmt->kind == StmtKind::loop && moves && stores_each_once(*stmt, store);
    });
  }

  /// True if the statement touches the first row at most.
  [[nodiscard]] bool uses_first_row(const StmtPtr& stmt, std::size_t axis) const {
    bool first = true;
    accesses({stmt}, [&](const Stmt&, const std::vector<Affine>& at, bool) {
      first = first && axis < at.size() && at[axis] == Affine();
    });
    walk({stmt}, [&](const Stmt& each) {
      first = first && (each.kind != StmtKind::zero || each.buffer != buffer_);
    });
    return first;
  }

  const BufferId buffer_;
  const Block users_;
};

}  // namespace

StmtPtr with_axes_at(const StmtPtr& stmt, const ShrunkAxes& axes, const Affine& place) {
  return with_subscripts(stmt, [&](BufferId buffer, std::vector<Affine> at) {
    if (const auto axis = axes.find(buffer); axis != axes.end()) at[axis->second] = place;
    return at;
  });
}

void set_extent(Lowered& lowered, BufferId buffer, std::size_t axis, std::int64_t extent) {
  BufferDecl& decl = lowered.loop.buffers[buffer];
  Dims dims = decl.type.dims;
  dims[axis] = extent;
  decl.type.dims = dims;
  lowered.tensors[buffer] =
      Tensor(lowered.tensors[buffer].label(), decl.type.dtype, std::move(dims));
}

void leave_one_element(Lowered& lowered, BufferId buffer) {
  const std::size_t axes = lowered.loop.buffers[buffer].type.dims.size();
  for (std::size_t axis = 0; axis < axes; ++axis) set_extent(lowered, buffer, axis, 1);
}

void shrink_scratch(Lowered& lowered) {
  Block& body = lowered.loop.body;
  constexpr std::size_t users_max = 8;
  const auto users = users_of_buffers(body, lowered.loop.buffers.size());
  std::map<std::size_t, ShrunkAxes> shrunk;  // by statement
  for (BufferId buffer = 0; buffer < users.size(); ++buffer) {
    const std::vector<std::size_t>& of = users[buffer];
    if (of.empty() || of.size() > users_max || lowered.loop.buffers[buffer].role != Role::scratch)
      continue;
    std::optional<std::size_t> axis;
    if (of.size() == 1) axis = axis_of_own_rows(*body[of[0]], buffer);
    if (!axis) {
      Block statements;
      for (const std::size_t k : of) statements.push_back(body[k]);
      axis = RunningRows(buffer, std::move(statements)).axis();
    }
    if (!axis || !shrink(lowered, buffer, *axis)) continue;
    for (const std::size_t k : of) shrunk[k][buffer] = *axis;
  }
  for (const auto& [k, axes] : shrunk) body[k] = with_axes_at(body[k], axes, Affine());
}

}  // namespace heddle::jit
