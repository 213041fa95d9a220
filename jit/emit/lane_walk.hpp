// The vector part of walk.hpp: lanes loops, and the local blocks that they work on. Each lane of a
// vector is computed by the same operation as in the plain loop, so both give the same bits. Not
// thread-safe: one object per kernel being emitted.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "jit/loop/address.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/vector/lane_prims.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {

template <class Dialect>
class LaneWalk {
 public:
  using Made = typename Dialect::Made;
  using MakeScalar = std::function<Made(const Value&)>;  ///< makes a scalar value through the walk

  LaneWalk(const Loop& loop, const LanePlan& plan, const Target& target, Dialect& to,
           MakeScalar scalar)
      : loop_(loop),
        plan_(plan),
        target_(target),
        streams_(has_streams(loop, target)),
        to_(to),
        scalar_(std::move(scalar)) {}

  /// True if some stores bypass the caches.
  [[nodiscard]] bool streams() const noexcept { return streams_; }
  [[nodiscard]] bool is_vector_loop(const Stmt& stmt) const {
    return stmt.mark == LoopMark::lanes && plan_.vectors.contains(stmt.var);
  }
  [[nodiscard]] bool has_vector_loop(const Block& body) const {
    bool found = false;
    walk(body, [&](const Stmt& stmt) { found = found || is_vector_loop(stmt); });
    return found;
  }
  /// The type of a block that was declared before.
  [[nodiscard]] const ArrayType& block(LocalId local) const { return blocks_.at(local); }
  /// The place of an element in a block, in elements.
  [[nodiscard]] Affine offset(LocalId local, const std::vector<Affine>& at) const {
    return flatten(blocks_.at(local), at);
  }
  /// The index of an element in a block that is an array.
  [[nodiscard]] Made element(LocalId local, const std::vector<Affine>& at) {
    return to_.index(offset(local, at));
  }
  /// Discards results computed for earlier statements, as the following code may be repeated or
  /// skipped.
  void forget() { turned_.clear(); }

  /// Declares a local block, as vector variables or as an array.
  void declare(const Stmt& stmt) {
    const ArrayType& type = blocks_[stmt.local] = {stmt.value->dtype, stmt.dims};
    const Made start = scalar_(*stmt.value);
    if (!plan_.in_registers.contains(stmt.local)) return to_.declare_array(stmt.local, type, start);
    const std::int64_t width = target_.lanes(type.dtype);
    const std::size_t vectors = lane_parts(type.dims.back(), width).size();
    std::vector<std::vector<std::string>> rows(
        static_cast<std::size_t>(*type.num_elements() / type.dims.back()));
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (std::size_t k = 0; k < vectors; ++k)
        rows[row].push_back(
            row_name(stmt.local, static_cast<std::int64_t>(row), static_cast<std::int64_t>(k)));
    }
    to_.declare_rows(stmt.local, type.dtype, rows, start);
    if (!plan_.turned.contains(stmt.local)) return;
    forget();
    const auto extent = static_cast<std::int64_t>(rows.size());
    to_.declare_columns(stmt.local, type.dtype, (extent + width - 1) / width * width);
  }

  void loop(const Stmt& stmt) {
    lanes_ = &stmt;
    const DType type = *lane_type(stmt.body);
    width_ = target_.lanes(type);
    own_.clear();
    shared_.clear();
    find_changed(stmt);
    to_.begin_lanes(type);
    for (const StmtPtr& inner : stmt.body) {
      if (inner->kind == StmtKind::declare) own_.insert(inner->local);
    }
    for (const StmtPtr& inner : stmt.body) {
      if (inner->value) share(inner->value);
    }
    for (const LanePart& part : lane_parts(stmt.to - stmt.from, width_)) {
      for (const StmtPtr& inner : stmt.body) {
        if (inner->value) statement(*inner, part);
      }
    }
  }

 private:
  using Place = typename Dialect::Place;

  void statement(const Stmt& stmt, const LanePart& part) {
    const DType type = stmt.value->dtype;
    const Made made = value(*stmt.value, part);
    if (stmt.kind == StmtKind::declare) {
      to_.declare_lanes(place(stmt.local, {}, part), in_lanes(type), made);
    } else if (stmt.kind == StmtKind::store && row_of(stmt.buffer, stmt.subscripts)) {
      store_column(stmt, *row_of(stmt.buffer, stmt.subscripts), made, part);
    } else if (stmt.kind == StmtKind::store) {
      store(stmt, in_buffer(stmt.buffer, stmt.subscripts, part), made, of(part, stmt.buffer));
    } else if (stmt.subscripts.empty() || plan_.in_registers.contains(stmt.local)) {
      to_.assign_lanes(place(stmt.local, stmt.subscripts, part), made);
      if (plan_.turned.contains(stmt.local)) forget();
    } else {
      to_.store_lanes(type, in_array(stmt.local, stmt.subscripts, part), made, part);
    }
  }

  void store(const Stmt& stmt, const Place& at, const Made& made, const LanePart& part) {
    const DType type = stmt.value->dtype;
    if (stmt.stream && streams_ && part.whole && is_lane_type(type)) {
      to_.stream_lanes(type, at, made);
    } else {
      to_.store_lanes(type, at, made, part);
    }
  }

  [[nodiscard]] std::optional<RowAccess> row_of(BufferId buffer,
                                                const std::vector<Affine>& at) const {
    return row_access(loop_.buffers[buffer].type, at, lanes_->var, target_);
  }
  /// The place of a vector of these lanes' rows.
  [[nodiscard]] Place in_rows(BufferId buffer, const RowAccess& access, std::int64_t vector,
                              const LanePart& part) {
    Affine at = access.row;
    at.constant += access.columns * (lanes_->from + part.first) + vector * width_;
    return to_.in_buffer(buffer, at);
  }
  /// One of vectors, element by element: of each lane the vector and the lane there.
  [[nodiscard]] Made permuted(DType type, const std::vector<Made>& vectors,
                              const std::vector<std::pair<std::int64_t, std::int64_t>>& from) {
    Made made = vectors[0];
    for (std::int64_t k = 1; k < std::ssize(vectors); ++k) {
      std::vector<std::int64_t> indices;
      for (std::int64_t lane = 0; lane < width_; ++lane) {
        const auto& [vector, place] = from[static_cast<std::size_t>(lane)];
        const std::int64_t kept = k == 1 ? place : lane;
        indices.push_back(vector == k ? width_ + place : kept);
      }
      made = to_.permute(type, made, vectors[static_cast<std::size_t>(k)], indices);
    }
    return made;
  }
  [[nodiscard]] Made load_column(const Value& v, const RowAccess& access, const LanePart& part) {
    std::vector<Made> rows;
    std::vector<std::pair<std::int64_t, std::int64_t>> from;
    for (std::int64_t k = 0; k < access.columns; ++k)
      rows.push_back(to_.load_lanes(v.dtype, in_rows(v.buffer, access, k, part), part));
    for (std::int64_t lane = 0; lane < width_; ++lane) {
      const std::int64_t at = access.columns * lane + access.column;
      from.emplace_back(at / width_, at % width_);
    }
    return permuted(v.dtype, rows, from);
  }
  /// Keeps the column; the last one stores the rows.
  void store_column(const Stmt& stmt, const RowAccess& access, const Made& column,
                    const LanePart& part) {
    const DType type = stmt.value->dtype;
    if (access.column == 0) columns_.clear();
    // Variables: the first store may write what the other columns are computed from.
    const std::string name = fmt::format("column{}", columns_made_++);
    to_.declare_lanes(name, type, column);
    columns_.push_back(to_.lanes(name));
    if (access.column + 1 < access.columns) return;
    for (std::int64_t k = 0; k < access.columns; ++k) {
      std::vector<std::pair<std::int64_t, std::int64_t>> from;
      for (std::int64_t lane = 0; lane < width_; ++lane) {
        const std::int64_t at = k * width_ + lane;
        from.emplace_back(at % access.columns, at / access.columns);
      }
      store(stmt, in_rows(stmt.buffer, access, k, part), permuted(type, columns_, from), part);
    }
  }

  void find_changed(const Stmt& lanes) {
    changed_.clear();
    std::set<BufferId> loaded;
    walk_values(lanes.body, [&](const Value& v) {
      if (v.kind == ValueKind::load) loaded.insert(v.buffer);
    });
    for (const StmtPtr& inner : lanes.body) {
      if (inner->kind == StmtKind::store && loaded.contains(inner->buffer))
        changed_.insert(inner->buffer);
    }
  }
  [[nodiscard]] LanePart of(LanePart part, BufferId buffer) const {
    part.changed = changed_.contains(buffer);
    return part;
  }

  /// The offset of these lanes from the start of an array.
  [[nodiscard]] Affine offset(const ArrayType& type, const std::vector<Affine>& at,
                              const LanePart& part) const {
    auto [start, step] = split_lane(flatten(type, at), lanes_->var);
    start.constant += step * (lanes_->from + part.first);
    return start;
  }
  [[nodiscard]] Place in_buffer(BufferId buffer, const std::vector<Affine>& at,
                                const LanePart& part) {
    return to_.in_buffer(buffer, offset(loop_.buffers[buffer].type, at, part));
  }
  [[nodiscard]] Place in_array(LocalId local, const std::vector<Affine>& at, const LanePart& part) {
    return to_.in_array(local, offset(blocks_.at(local), at, part));
  }

  [[nodiscard]] static std::string row_name(LocalId local, std::int64_t row, std::int64_t vector) {
    return fmt::format("x{}_{}_{}", local, row, vector);
  }
  /// The variable that holds these lanes of a row, or of a local of the loop itself.
  [[nodiscard]] std::string place(LocalId local, const std::vector<Affine>& at,
                                  const LanePart& part) const {
    if (at.empty()) return fmt::format("x{}_{}", local, part.first);
    std::vector<Affine> row(at.begin(), at.end() - 1);
    ArrayType rows = blocks_.at(local);
    rows.dims.pop_back();
    return row_name(local, flatten(rows, row).constant, part.first / width_);
  }

  /// These lanes of a column of a block in registers; the first request makes these lanes of all
  /// columns.
  [[nodiscard]] Made column(const Value& v, const LanePart& part) {
    const ArrayType& type = blocks_.at(v.local);
    if (turned_.emplace(v.local, part.first).second) {
      std::vector<std::string> rows;
      for (std::int64_t k = part.first; k < part.first + width_; ++k)
        rows.push_back(row_name(v.local, k < type.dims[0] ? k : part.first, 0));
      to_.turn(v.local, type, part.first, rows);
    }
    return to_.column(v.local, part.first + v.subscripts[1].constant);
  }

  /// Makes a vector of each value that all lanes share, before the first part.
  void share(const ValuePtr& v) {
    if (!is_uniform(*v, lanes_->var, own_)) {
      for (const ValuePtr& arg : v->args) share(arg);
      return;
    }
    for (const auto& [known, made] : shared_) {
      if (equal(*known, *v)) return;
    }
    shared_.emplace_back(v, to_.in_all_lanes(v->dtype, scalar_(*v)));
  }

  /// The index in the first lane, plus the constant steps to the other lanes.
  [[nodiscard]] Made index(const Value& v, const LanePart& part) {
    const bool cast = v.kind == ValueKind::cast;
    auto [first, step] = split_lane(cast ? v.args[0]->index : v.index, lanes_->var);
    first.constant += step * (lanes_->from + part.first);
    const ValuePtr whole = make_embed(std::move(first));
    std::vector<Scalar> steps;
    for (std::int64_t k = 0; k < width_; ++k) steps.push_back(Scalar::of_int(v.dtype, k * step));
    std::vector<Made> args;
    args.push_back(to_.lane_operand(
        v.dtype, to_.in_all_lanes(v.dtype, scalar_(cast ? *make_cast(whole, v.dtype) : *whole))));
    args.push_back(to_.lane_operand(v.dtype, to_.constant_lanes(v.dtype, steps)));
    return to_.apply_lanes(op_function(Op::add, v.dtype, target_.isa), std::move(args));
  }

  [[nodiscard]] Made value(const Value& v, const LanePart& part) {
    for (const auto& [known, made] : shared_) {
      if (equal(*known, v)) return made;
    }
    if (v.kind == ValueKind::load) {
      if (const auto access = row_of(v.buffer, v.subscripts)) return load_column(v, *access, part);
    }
    if (v.kind == ValueKind::load)
      return to_.load_lanes(v.dtype, in_buffer(v.buffer, v.subscripts, part), of(part, v.buffer));
    if (v.kind == ValueKind::local) {
      if (plan_.is_column(v, lanes_->var)) return column(v, part);
      if (v.subscripts.empty() || plan_.in_registers.contains(v.local))
        return to_.lanes(place(v.local, v.subscripts, part));
      return to_.load_lanes(v.dtype, in_array(v.local, v.subscripts, part), part);
    }
    if (is_index(v)) return index(v, part);
    if (is_half_cast(v) || is_widened_load(v)) {
      const Made of = value(*v.args[0], part);
      return v.dtype == DType::f16 ? to_.round_to_half(of) : of;
    }
    std::vector<Made> args;
    for (const ValuePtr& arg : v.args)
      args.push_back(to_.lane_operand(in_lanes(arg->dtype), value(*arg, part)));
    return to_.apply_lanes(lane_function(v, target_), std::move(args));
  }

  const Loop& loop_;
  const LanePlan& plan_;
  const Target target_;
  const bool streams_;
  Dialect& to_;
  const MakeScalar scalar_;
  std::map<LocalId, ArrayType> blocks_;
  // Blocks whose columns are up to date, and their first lane.
  std::set<std::pair<LocalId, std::int64_t>> turned_;
  // State of the current loop:
  const Stmt* lanes_ = nullptr;
  std::int64_t width_ = 0;
  std::set<LocalId> own_;
  std::set<BufferId> changed_;  // loaded and stored
  std::vector<Made> columns_;   // of rows that are being stored
  int columns_made_ = 0;
  std::vector<std::pair<ValuePtr, Made>> shared_;  // values that are equal in all lanes
};

}  // namespace heddle::jit
