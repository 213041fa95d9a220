// See positions_ahead.hpp.
#include "jit/schedule/positions_ahead.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "jit/loop/position.hpp"
#include "jit/schedule/lanes.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// Iterations of a block: its positions stay in the first-level cache, and are stored long enough
/// before they are loaded one by one.
constexpr std::int64_t rows_ahead = 256, rows_ahead_min = 128;
/// Beyond so many elements in a row, finding its positions takes a small part of the time.
constexpr std::int64_t elements_ahead_max = 4;

using Ranges = std::map<BufferId, ElementRange>;

/// A loop whose iterations read at nearest positions.
class ReadsAhead {
 public:
  /// `ranges`: of the scratch of the kernel.
  ReadsAhead(Scheduling& in, const Ranges& ranges, const StmtPtr& loop)
      : in_(in), ranges_(ranges), loop_(*loop), block_(in.fresh.var()), row_(in.fresh.var()) {}

  /// The loop, or blocks of it and the rest, behind its positions.
  [[nodiscard]] std::optional<Block> behind_positions() {
    const std::int64_t extent = loop_.to - loop_.from;
    if (loop_.kind != StmtKind::loop || loop_.mark != LoopMark::serial || extent < rows_ahead_min)
      return std::nullopt;
    const std::int64_t vector = in_.target.lanes(DType::i32);
    if (vector < 2) return std::nullopt;
    rows_ = extent >= 2 * rows_ahead ? rows_ahead : extent / vector * vector;
    is_cut_ = rows_ != extent;
    if (!is_narrow(loop_.body)) return std::nullopt;
    walk(loop_.body, [this](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) stored_.insert(stmt.buffer);
      if (binds_variable(stmt)) inner_.insert(stmt.var);
    });
    Block rows;
    for (const StmtPtr& stmt : loop_.body) rows.push_back(of_row(stmt));
    if (positions_.empty()) return std::nullopt;
    Block each = positions_;
    each.push_back(make_loop(row_, 0, rows_, std::move(rows)));
    if (!is_cut_) return with_own_names(in_.fresh, each, {});
    const std::int64_t blocks = extent / rows_;
    Block made = with_own_names(in_.fresh, {make_loop(block_, 0, blocks, std::move(each))}, {});
    const std::int64_t rest = loop_.from + blocks * rows_;
    if (rest < loop_.to) made.push_back(make_loop(loop_.var, rest, loop_.to, loop_.body));
    return made;
  }

 private:
  /// The iteration of a row.
  [[nodiscard]] Substitution at_row(const Affine& row) const {
    Substitution by;
    Affine& at = by.vars[loop_.var];
    at = affine_add(row, Affine{loop_.from, {}});
    if (is_cut_) at = affine_add(affine_var(block_, rows_), at);
    return by;
  }

  /// The statement in a row, with positions that were computed before.
  [[nodiscard]] StmtPtr of_row(const StmtPtr& stmt) {
    if (stmt->kind != StmtKind::at) return substitute(stmt, at_row(affine_var(row_)));
    Block body;
    for (const StmtPtr& inner : stmt->body) body.push_back(of_row(inner));
    const ValuePtr known = position_ahead(*stmt);
    const ValuePtr value = known ? known : substitute(stmt->value, at_row(affine_var(row_)));
    return with_body(*with_value(*stmt, value), std::move(body));
  }

  /// The position of the row, from scratch; null where it is not computed before.
  [[nodiscard]] ValuePtr position_ahead(const Stmt& at) {
    const ValuePtr value = value_in_range(at);
    if (!value || stays_inside(at, ranges_) || !may_run_before(*at.value)) return nullptr;
    const DType type = value->dtype;
    std::int64_t lanes = unrolled_vectors * in_.target.lanes(type);
    while (lanes > 1 && rows_ % lanes != 0) lanes /= 2;
    if (lanes < in_.target.lanes(type) || lanes < 2) return nullptr;
    const std::size_t buffers = in_.lowered.loop.buffers.size();
    const BufferId positions = in_.add_scratch("positions", type, {rows_});
    const VarId vectors = in_.fresh.var(), lane = in_.fresh.var();
    const Affine row = affine_add(affine_var(vectors, lanes), affine_var(lane));
    const StmtPtr store = make_store(positions, {row}, substitute(value, at_row(row)));
    const StmtPtr vector = make_loop(lane, 0, lanes, {store}, LoopMark::lanes);
    if (!runs_as_vectors(in_, vector)) {
      in_.drop_scratch(buffers);
      return nullptr;
    }
    positions_.push_back(make_loop(vectors, 0, rows_ / lanes, {vector}));
    return make_load(positions, type, {affine_var(row_)});
  }

  [[nodiscard]] static bool is_narrow(const Block& body) {
    std::int64_t elements = 1;
    walk(body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::loop) elements = std::max(elements, stmt.to - stmt.from);
    });
    return elements <= elements_ahead_max;
  }

  /// True if the value differs between iterations, and needs nothing that the loop computes.
  [[nodiscard]] bool may_run_before(const Value& value) const {
    bool before = true;
    const auto is_inner = [this](const Affine& index) {
      return std::ranges::any_of(index.terms, [this](const AffineTerm& term) {
        return term.kind == AffineTerm::Kind::loop && inner_.contains(term.id);
      });
    };
    walk(value, [&](const Value& v) {
      before = before && v.kind != ValueKind::local &&
               !(v.kind == ValueKind::load && stored_.contains(v.buffer)) && !is_inner(v.index) &&
               std::ranges::none_of(v.subscripts, is_inner);
    });
    return before && !is_uniform(value, loop_.var, {});
  }

  Scheduling& in_;
  const Ranges& ranges_;
  const Stmt& loop_;
  const VarId block_, row_;
  bool is_cut_ = false;
  std::int64_t rows_ = 0;  ///< of a block
  std::set<BufferId> stored_;
  std::set<VarId> inner_;  ///< bound within an iteration
  Block positions_;        ///< loops that compute them
};

Block behind_positions(Scheduling& in, const Ranges& ranges, const Block& body) {
  Block made;
  for (const StmtPtr& stmt : body) {
    const bool is_loop = stmt->kind == StmtKind::loop && stmt->mark == LoopMark::serial;
    std::optional<Block> behind =
        is_loop ? ReadsAhead(in, ranges, stmt).behind_positions() : std::nullopt;
    if (is_loop && !behind) behind = {with_body(*stmt, behind_positions(in, ranges, stmt->body))};
    append(made, behind.value_or(Block{stmt}));
  }
  return made;
}

}  // namespace

Block with_positions_ahead(Scheduling& in, const Block& body) {
  Loop kernel = in.lowered.loop;
  kernel.body = body;
  return behind_positions(in, ranges_of_scratch(kernel), body);
}

}  // namespace heddle::jit
