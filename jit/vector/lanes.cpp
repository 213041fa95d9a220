// See vector/lanes.hpp. Pure; any thread.
#include "jit/vector/lanes.hpp"

#include <algorithm>
#include <map>

#include "jit/loop/address.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/vector/lane_prims.hpp"
#include "jit/vector/lane_transpose.hpp"

namespace heddle::jit {
namespace {

bool mentions(const Affine& index, VarId var) { return split_lane(index, var).second != 0; }

/// True if the statement has a value of 8 or 16 bits that lanes cannot round: any but a declared or
/// stored f16.
bool rounds_in_place(const Stmt& stmt) {
  if (!stmt.value || stmt.value->dtype == DType::bool_ || size_of(stmt.value->dtype) >= 4)
    return false;
  return stmt.value->dtype != DType::f16 || stmt.kind == StmtKind::assign;
}

class Planner {
 public:
  /// Blocks of `turnable` may be read along columns.
  Planner(const std::vector<BufferDecl>& buffers, const Block& body, const Target& target,
          const std::set<LocalId>& turnable)
      : buffers_(buffers), target_(target), turnable_(turnable) {
    if (target.isa == Isa::none) return;
    walk(body, [this](const Stmt& stmt) {
      if (stmt.kind == StmtKind::declare && !stmt.dims.empty()) blocks_[stmt.local] = &stmt;
    });
    block(body);
    for (const auto& [local, declare] : blocks_) {
      if (!in_memory_.contains(local) && is_lane_type(declare->value->dtype))
        plan.in_registers.insert(local);
    }
  }

  /// Blocks that vector loops read along columns.
  [[nodiscard]] const std::set<LocalId>& turned() const noexcept { return turned_; }

  LanePlan plan;

 private:
  void block(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::loop && stmt->mark == LoopMark::lanes) {
        lanes(*stmt);
      } else if (stmt->kind == StmtKind::loop) {
        if (stmt->mark == LoopMark::unroll) unrolled_.insert(stmt->var);
        block(stmt->body);
      } else {
        scalar(*stmt);
        block(stmt->body);
      }
    }
  }

  /// Marks blocks that scalar code touches as arrays.
  void scalar(const Stmt& stmt) {
    if (stmt.kind == StmtKind::assign && !stmt.subscripts.empty()) in_memory_.insert(stmt.local);
    if (!stmt.value) return;
    walk(*stmt.value, [this](const Value& v) {
      if (v.kind == ValueKind::local && !v.subscripts.empty()) in_memory_.insert(v.local);
    });
  }

  void lanes(const Stmt& loop) {
    if (!is_vector(loop)) {
      for (const StmtPtr& stmt : loop.body) scalar(*stmt);
      return;
    }
    plan.vectors.insert(loop.var);
    const auto touch = [&](LocalId local, const std::vector<Affine>& at) {
      if (at.empty()) return;
      const std::int64_t row = blocks_.at(local)->dims.back();
      const bool whole_row = at.back() == affine_var(loop.var) && loop.from == 0 && loop.to == row;
      const bool fixed =
          std::all_of(at.begin(), at.end() - 1, [this](const Affine& a) { return is_fixed(a); });
      if (!whole_row || !fixed) in_memory_.insert(local);
    };
    for (const StmtPtr& stmt : loop.body) {
      if (stmt->kind == StmtKind::assign) touch(stmt->local, stmt->subscripts);
      if (!stmt->value) continue;
      walk(*stmt->value, [&](const Value& v) {
        if (v.kind != ValueKind::local || v.subscripts.empty()) return;
        // Scalar code computes a value that all lanes share.
        if (is_uniform(v, loop.var, {})) {
          in_memory_.insert(v.local);
        } else if (is_column(v.local, v.subscripts, loop)) {
          turned_.insert(v.local);
        } else {
          touch(v.local, v.subscripts);
        }
      });
    }
  }

  /// True if the index is known when the code is emitted.
  bool is_fixed(const Affine& a) const {
    return std::ranges::all_of(a.terms, [this](const AffineTerm& term) {
      return term.kind == AffineTerm::Kind::loop && unrolled_.contains(term.id);
    });
  }

  bool is_column(LocalId local, const std::vector<Affine>& at, const Stmt& loop) const {
    return turnable_.contains(local) && at[0] == affine_var(loop.var) && is_fixed(at[1]) &&
           loop.from == 0 && loop.to == blocks_.at(local)->dims[0];
  }

  bool is_vector(const Stmt& loop) const {
    std::set<LocalId> own;
    const std::optional<DType> of = lane_type(loop.body);
    if (!of || !is_lane_type(*of)) return false;
    if (uses_half(loop.body) && !has_half(target_)) return false;
    std::size_t rows_end = 0;  // of stores of rows
    for (std::size_t k = 0; k < loop.body.size(); ++k) {
      const StmtPtr& stmt = loop.body[k];
      if (!stmt->value) continue;
      // The assigned value may be a sum: f16 sums keep the order of plain loops.
      if (rounds_in_place(*stmt)) return false;
      const DType type = in_lanes(stmt->value->dtype);
      const bool is_mask = type == DType::bool_ && is_scalar(*stmt);
      if (!is_mask && (!is_lane_type(type) || size_of(type) != size_of(*of))) return false;
      if (!kind_of(*stmt->value, loop, size_of(*of), own).is_vector) return false;
      if (stmt->kind == StmtKind::store && k >= rows_end &&
          !moves_by_one(stmt->buffer, stmt->subscripts, loop.var)) {
        const std::size_t rows = has_whole_vectors(loop, *of)
                                     ? stores_of_rows(buffers_, loop.body, k, loop.var, target_)
                                     : 0;
        if (rows == 0) return false;
        rows_end = k + rows;
      }
      if (stmt->kind == StmtKind::assign && !stmt->subscripts.empty() &&
          !block_moves_by_one(stmt->local, stmt->subscripts, loop.var))
        return false;
      if (stmt->kind == StmtKind::declare) own.insert(stmt->local);
    }
    return true;
  }

  /// True if the statement sets a local that is no block.
  static bool is_scalar(const Stmt& stmt) {
    return stmt.kind == StmtKind::declare ||
           (stmt.kind == StmtKind::assign && stmt.subscripts.empty());
  }

  struct ValueKinds {
    bool is_uniform = false;  ///< equal in all lanes
    bool is_vector = false;   ///< vector code computes it, or lanes get copies of it
  };
  /// `bytes`: size of a lane.
  ValueKinds kind_of(const Value& v, const Stmt& loop, std::size_t bytes,
                     const std::set<LocalId>& own) const {
    const VarId lane = loop.var;
    const bool is_lane = is_lane_type(v.dtype);
    if (is_bool_load(v) && !is_uniform(v, lane, own))
      return {false, loads_widened(*v.args[0]->args[0], bytes, lane)};
    if (is_widened_load(v) && !is_uniform(v, lane, own)) {
      const Value& load = *v.args[0];
      return {false, load.dtype != DType::bool_ && loads_widened(load, bytes, lane)};
    }
    if (is_index(v) && !is_uniform(v, lane, own)) {
      const PrimFunction& sum = op_function(Op::add, v.dtype, target_.isa);
      return {false, size_of(v.dtype) == bytes && is_lane_function(sum, bytes, target_)};
    }
    if (v.kind == ValueKind::op || v.kind == ValueKind::cast) {
      ValueKinds all{true, true};
      for (const ValuePtr& arg : v.args) {
        const ValueKinds one = kind_of(*arg, loop, bytes, own);
        all.is_uniform = all.is_uniform && one.is_uniform;
        all.is_vector = all.is_vector && one.is_vector;
      }
      if (all.is_uniform) return {true, is_lane || v.dtype == DType::bool_};
      if (is_half_cast(v)) return all;
      return {false, all.is_vector && is_lane_function(lane_function(v, target_), bytes, target_)};
    }
    if (is_uniform(v, lane, own)) return {true, is_lane || v.dtype == DType::bool_};
    if (v.kind == ValueKind::load)
      return {false,
              is_lane && (moves_by_one(v.buffer, v.subscripts, lane) ||
                          (has_whole_vectors(loop, v.dtype) &&
                           row_access(buffers_[v.buffer].type, v.subscripts, lane, target_)))};
    if (v.kind != ValueKind::local) return {};
    if (v.subscripts.empty())
      return {false, is_lane || v.dtype == DType::bool_ || v.dtype == DType::f16};
    return {false, is_lane && (is_column(v.local, v.subscripts, loop) ||
                               block_moves_by_one(v.local, v.subscripts, lane))};
  }

  bool loads_widened(const Value& load, std::size_t bytes, VarId lane) const {
    return has_half(target_) && bytes == 4 && moves_by_one(load.buffer, load.subscripts, lane);
  }

  bool has_whole_vectors(const Stmt& loop, DType type) const {
    return (loop.to - loop.from) % target_.lanes(type) == 0;
  }
  bool moves_by_one(BufferId buffer, const std::vector<Affine>& at, VarId lane) const {
    return split_lane(flatten(buffers_[buffer].type, at), lane).second == 1;
  }
  bool block_moves_by_one(LocalId local, const std::vector<Affine>& at, VarId lane) const {
    const Stmt& declare = *blocks_.at(local);
    return split_lane(flatten({declare.value->dtype, declare.dims}, at), lane).second == 1;
  }

  const std::vector<BufferDecl>& buffers_;
  const Target& target_;
  const std::set<LocalId>& turnable_;
  std::map<LocalId, const Stmt*> blocks_;
  std::set<LocalId> in_memory_, turned_;
  std::set<VarId> unrolled_;
};

/// Matrices whose rows fit a vector, of a type that the target can transpose.
std::set<LocalId> turnable_blocks(const Block& body, const Target& target) {
  std::set<LocalId> found;
  walk(body, [&](const Stmt& stmt) {
    if (stmt.kind != StmtKind::declare || stmt.dims.size() != 2) return;
    const DType type = stmt.value->dtype;
    if (stmt.dims[1] <= target.lanes(type) && is_lane_type(type) &&
        !lane_transpose(type, target).empty())
      found.insert(stmt.local);
  });
  return found;
}

}  // namespace

LanePlan plan_lanes(const std::vector<BufferDecl>& buffers, const Block& body,
                    const Target& target) {
  // Planning finds out last whether a block is in registers; an array has no columns to read.
  // Therefore planning repeats without the refused blocks.
  std::set<LocalId> turnable = turnable_blocks(body, target);
  for (;;) {
    Planner planner(buffers, body, target, turnable);
    LanePlan& plan = planner.plan;
    const auto refused = std::erase_if(turnable, [&](LocalId local) {
      return planner.turned().contains(local) && !plan.in_registers.contains(local);
    });
    if (refused > 0) continue;
    plan.turned = planner.turned();
    return std::move(plan);
  }
}

const PrimFunction& lane_function(const Value& v, const Target& target) {
  return v.kind == ValueKind::op ? op_function(v.op, v.args.back()->dtype, target.isa)
                                 : cast_function(v.args[0]->dtype, v.dtype);
}

bool uses_half(const Block& body) {
  bool found = false;
  walk_values(body, [&found](const Value& v) {
    found = found || v.dtype == DType::f16 || v.dtype == DType::bf16;
  });
  return found;
}

bool is_half_cast(const Value& v) {
  if (v.kind != ValueKind::cast) return false;
  const DType from = v.args[0]->dtype;
  return (from == DType::f16 && v.dtype == DType::f32) ||
         (from == DType::f32 && v.dtype == DType::f16);
}

bool is_widened_load(const Value& v) {
  return v.kind == ValueKind::cast && v.dtype == DType::f32 && v.args[0]->kind == ValueKind::load &&
         size_of(v.args[0]->dtype) < 4;
}

bool is_bool_load(const Value& v) {
  return v.kind == ValueKind::op && v.op == Op::ne && is_widened_load(*v.args[0]) &&
         v.args[0]->args[0]->dtype == DType::bool_ && v.args[1]->kind == ValueKind::constant &&
         v.args[1]->scalar.f == 0;
}

bool is_index(const Value& v) {
  return v.kind == ValueKind::embed || (v.kind == ValueKind::cast && v.dtype == DType::i32 &&
                                        v.args[0]->kind == ValueKind::embed);
}

bool is_uniform(const Value& value, VarId lane, const std::set<LocalId>& lane_locals) {
  bool uniform = true;
  walk(value, [&](const Value& v) {
    const bool moves =
        mentions(v.index, lane) || (v.kind == ValueKind::local && lane_locals.contains(v.local)) ||
        std::ranges::any_of(v.subscripts, [&](const Affine& a) { return mentions(a, lane); });
    uniform = uniform && !moves;
  });
  return uniform;
}

std::optional<RowAccess> row_access(const ArrayType& type, const std::vector<Affine>& at,
                                    VarId lane, const Target& target) {
  constexpr std::int64_t columns_max = 4;
  if (!has_mask_registers(target) || at.size() != type.dims.size() || !is_lane_type(type.dtype))
    return std::nullopt;
  auto [row, step] = split_lane(flatten(type, at), lane);
  std::int64_t columns = 1, column = 0;  // of all last axes that the lane does not move along
  for (std::size_t axis = at.size(); axis-- > 0 && columns < step;) {
    if (!at[axis].terms.empty()) return std::nullopt;
    column += at[axis].constant * columns;
    columns *= type.dims[axis];
  }
  if (columns != step || columns < 2 || columns > columns_max || column < 0 || column >= columns)
    return std::nullopt;
  row.constant -= column;
  return RowAccess{columns, column, std::move(row)};
}

std::size_t stores_of_rows(const std::vector<BufferDecl>& buffers, const Block& body, std::size_t k,
                           VarId lane, const Target& target) {
  const BufferId buffer = body[k]->buffer;
  const auto access_of = [&](const Stmt& stmt) -> std::optional<RowAccess> {
    if (stmt.kind != StmtKind::store || stmt.buffer != buffer) return std::nullopt;
    bool reads = false;
    walk(*stmt.value, [&](const Value& v) {
      reads = reads || (v.kind == ValueKind::load && v.buffer == buffer);
    });
    return reads ? std::nullopt : row_access(buffers[buffer].type, stmt.subscripts, lane, target);
  };
  const std::optional<RowAccess> first = access_of(*body[k]);
  const auto columns = first ? static_cast<std::size_t>(first->columns) : 0;
  if (columns == 0 || k + columns > body.size()) return 0;
  for (std::size_t column = 0; column < columns; ++column) {
    const std::optional<RowAccess> each = access_of(*body[k + column]);
    if (!each || each->column != static_cast<std::int64_t>(column) || each->row != first->row)
      return 0;
  }
  return columns;
}

std::vector<LanePart> lane_parts(std::int64_t extent, std::int64_t width) {
  std::vector<LanePart> parts;
  for (std::int64_t first = 0; first < extent; first += width) {
    const std::int64_t count = std::min(width, extent - first);
    parts.push_back({first, count, count == width});
  }
  return parts;
}

std::optional<DType> lane_type(const Block& body) {
  for (const StmtPtr& stmt : body) {
    if (stmt->value && stmt->value->dtype != DType::bool_) return in_lanes(stmt->value->dtype);
  }
  return std::nullopt;
}

std::pair<Affine, std::int64_t> split_lane(const Affine& index, VarId lane) {
  Affine rest = index;
  std::int64_t coefficient = 0;
  std::erase_if(rest.terms, [&](const AffineTerm& term) {
    const bool own = term.kind == AffineTerm::Kind::loop && term.id == lane;
    if (own) coefficient = term.coefficient;
    return own;
  });
  return {std::move(rest), coefficient};
}

std::int64_t stride(const Loop& loop, BufferId buffer, const std::vector<Affine>& at, VarId var) {
  return split_lane(flatten(loop.buffers[buffer].type, at), var).second;
}

Block unrolled(const Stmt& loop, std::int64_t iteration) {
  Substitution at;
  at.vars[loop.var].constant = iteration;
  Block body;
  for (const StmtPtr& stmt : loop.body) body.push_back(substitute(stmt, at));
  return body;
}

}  // namespace heddle::jit
