// See short_rows.hpp.
#include "jit/schedule/short_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "jit/loop/verify.hpp"
#include "jit/schedule/lanes.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

bool is_plain_loop(const Stmt& stmt) {
  return stmt.kind == StmtKind::loop && stmt.mark == LoopMark::serial && stmt.from == 0;
}

/// Calls visit(buffer, type of the element, subscripts, whether it is a store) for each access of
/// the statement itself, in order of execution.
template <class Visit>
void accesses(const Stmt& stmt, const Visit& visit) {
  if (stmt.value) {
    walk(*stmt.value, [&](const Value& v) {
      if (v.kind == ValueKind::load) visit(v.buffer, v.dtype, v.subscripts, false);
    });
  }
  if (stmt.kind == StmtKind::store) visit(stmt.buffer, stmt.value->dtype, stmt.subscripts, true);
}

/// True if compilers themselves find the vectors: few elements, of plain arithmetic.
bool is_plain(const Stmt& along) {
  constexpr std::int64_t elements_max = 8;
  return along.to <= elements_max && has_plain_arithmetic(along.body);
}

/// A nest over rows: straight-line code, and loops of straight-line code along the row.
class ShortRows {
 public:
  ShortRows(Scheduling& in, const StmtPtr& nest)
      : in_(in), nest_(*nest), along_(in.fresh.var()), block_(in.fresh.var()) {
    for (const StmtPtr& stmt : nest_.body) {
      const bool is_loop = stmt->kind == StmtKind::loop && stmt->mark == LoopMark::serial;
      body_.push_back(is_loop ? with_body(*stmt, unrolled(stmt->body)) : stmt);
    }
  }

  [[nodiscard]] std::optional<Block> build() {
    if (!is_plain_loop(nest_) || !has_short_loops() || nest_.to < lanes_ || !find_rows())
      return std::nullopt;
    const std::size_t buffers = in_.lowered.loop.buffers.size();
    for (Row& row : rows_) {
      if (!row.is_private)
        row.turned = in_.add_scratch("rows side by side", row.dtype, {row.extent, lanes_});
    }
    const auto give_private = [this](const auto& dims_of) {
      for (const Row& row : rows_)
        if (row.is_private) in_.lowered.loop.buffers[row.buffer].type.dims = dims_of(row);
    };
    std::map<BufferId, Dims> before;
    for (const Row& row : rows_)
      before[row.buffer] = in_.lowered.loop.buffers[row.buffer].type.dims;
    give_private([this](const Row& row) { return Dims{row.extent, lanes_}; });
    std::optional<Block> made = side_by_side();
    if (!made || block_bytes(*made) > in_.block_bytes_left) {
      give_private([&](const Row& row) { return before.at(row.buffer); });
      in_.drop_scratch(buffers);
      return std::nullopt;
    }
    for (const Row& row : rows_) {
      if (!row.is_private) continue;
      Tensor& tensor = in_.lowered.tensors[row.buffer];
      tensor = Tensor(tensor.label(), row.dtype, {row.extent, lanes_});
    }
    return made;
  }

 private:
  /// The statements, with the terms of sums over a few coordinates one after the other.
  [[nodiscard]] Block unrolled(const Block& body) {
    constexpr std::int64_t terms_max = 8;
    Block made;
    for (const StmtPtr& stmt : body) {
      if (!is_plain_loop(*stmt) || stmt->to > terms_max || !is_straight(stmt->body)) {
        made.push_back(stmt);
        continue;
      }
      is_computed_ = true;
      for (std::int64_t k = 0; k < stmt->to; ++k) {
        Substitution by;
        by.vars[stmt->var] = Affine{k, {}};
        append(made, with_own_names(in_.fresh, stmt->body, std::move(by)));
      }
    }
    return made;
  }

  /// What the nest touches element by element along a row.
  struct Row {
    BufferId buffer = 0;
    std::vector<Affine> subscripts;  ///< with the variable `along_`
    DType dtype{};
    std::int64_t extent = 0;
    bool is_private = false;  ///< scratch for one row at a time
    bool is_read_first = false;
    bool is_stored = false;
    BufferId turned = 0;  ///< [extent, lanes]
  };

  /// True if all loops along rows are short, and one of them reduces, or has costly functions.
  [[nodiscard]] bool has_short_loops() {
    bool gains = false, plain = true;
    std::set<LocalId> own;
    for (const StmtPtr& stmt : body_) {
      if (stmt->kind == StmtKind::declare) {
        if (!stmt->dims.empty()) return false;
        own.insert(stmt->local);
        locals_[stmt->local] = {in_.fresh.local(), stmt->value->dtype};
        continue;
      }
      if (stmt->kind == StmtKind::assign && !own.contains(stmt->local)) return false;
      if (stmt->kind != StmtKind::loop) {
        if (!is_straight({stmt})) return false;
        continue;
      }
      if (!is_plain_loop(*stmt) || stmt->to < 2 || !is_straight(stmt->body)) return false;
      const std::optional<DType> type = lane_type(stmt->body);
      if (!type || in_.target.lanes(*type) < 4) return false;
      if (lanes_ == 0) lanes_ = in_.target.lanes(*type);
      if (lanes_ != in_.target.lanes(*type) || (!is_short(stmt->to) && !may_be_computed(stmt->to)))
        return false;
      std::set<LocalId> inner;
      for (const StmtPtr& each : stmt->body) {
        if (each->kind == StmtKind::declare) inner.insert(each->local);
        if (each->kind != StmtKind::assign || inner.contains(each->local)) continue;
        if (!own.contains(each->local) || !each->subscripts.empty()) return false;
        gains = true;
      }
      plain = plain && is_plain(*stmt);
      walk_values(stmt->body, [&](const Value& v) {
        gains = gains || (stmt->to < lanes_ && v.kind == ValueKind::op && own_cost(v) >= costly);
      });
    }
    return gains && (!plain || is_computed_);
  }

  /// True if turning rows takes less time than leaving lanes idle, at the end of a row and where
  /// the lanes of a row are joined.
  [[nodiscard]] bool is_short(std::int64_t extent) const {
    const std::int64_t vectors_max = extent % lanes_ == 0 ? 2 : 3;
    return extent / lanes_ <= vectors_max;
  }

  /// True if rows that are computed, hence not turned, gain in lanes: their scratch stays in the
  /// first-level cache.
  [[nodiscard]] bool may_be_computed(std::int64_t extent) const {
    constexpr std::int64_t extent_max = 128;
    return is_computed_ && extent <= extent_max;
  }

  /// Finds what rows touch; false where rows may depend on each other, or lanes cannot read them.
  [[nodiscard]] bool find_rows() {
    std::set<BufferId> stored;
    accesses_ = accesses_of_buffers(nest_.body, in_.lowered.loop.buffers.size());
    walk(nest_.body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store) stored.insert(stmt.buffer);
    });
    bool works = true;
    const auto note = [&](const Stmt& stmt, const Stmt* along) {
      accesses(stmt, [&](BufferId buffer, DType type, const std::vector<Affine>& at, bool stores) {
        works = works && note_access(buffer, type, at, along, stores, stored.contains(buffer));
      });
    };
    for (const StmtPtr& stmt : body_) {
      if (stmt->kind != StmtKind::loop) {
        note(*stmt, nullptr);
      } else {
        for (const StmtPtr& each : stmt->body) note(*each, stmt.get());
      }
    }
    return works;
  }

  [[nodiscard]] bool note_access(BufferId buffer, DType type, const std::vector<Affine>& at,
                                 const Stmt* along, bool stores, bool is_stored) {
    const Loop& kernel = in_.lowered.loop;
    const bool is_private = is_stored && is_row_of_scratch(buffer);
    if (is_stored && !is_private && !is_of_own_row(buffer, at)) return false;
    const std::int64_t step = stride(kernel, buffer, at, nest_.var);
    if (!is_private && (step == 1 || (step == 0 && !is_stored) || (along == nullptr && stores))) {
      as_they_are_.insert(buffer);
      return !is_stored || !row_of(buffer);
    }
    if (along == nullptr || in_.target.lanes(type) != lanes_) return false;
    const std::optional<Element> element = stride(kernel, buffer, at, along->var) == 1
                                               ? next_element(at, *along)
                                               : same_element(buffer, at, *along);
    if (!element || (is_stored && !element->moves)) return false;
    Row* const known = row_of(buffer, element->row, element->extent);
    if (known != nullptr) {
      known->is_stored = known->is_stored || stores;
      return true;
    }
    if (!is_private && !is_short(element->extent)) return false;
    // A buffer that is stored is touched in one way alone.
    if (is_stored && (row_of(buffer) || as_they_are_.contains(buffer))) return false;
    if (is_private && !stores) return false;
    if (is_private && kernel.buffers[buffer].type.num_elements() != along->to) return false;
    rows_.push_back({buffer, element->row, type, element->extent, is_private, !stores, stores});
    return true;
  }

  /// True if the scratch has elements of one row, which no other nest touches.
  [[nodiscard]] bool is_row_of_scratch(BufferId buffer) const {
    const Loop& kernel = in_.lowered.loop;
    bool in_row = kernel.buffers[buffer].role == Role::scratch &&
                  in_.all_accesses().at(buffer) == accesses_.at(buffer);
    walk(nest_.body, [&](const Stmt& stmt) {
      accesses(stmt, [&](BufferId b, DType, const std::vector<Affine>& at, bool) {
        in_row = in_row && (b != buffer || std::ranges::none_of(at, [&](const Affine& each) {
                              return split_lane(each, nest_.var).second != 0;
                            }));
      });
    });
    return in_row;
  }

  /// True if each row touches elements of the buffer that no other row touches.
  [[nodiscard]] bool is_of_own_row(BufferId buffer, const std::vector<Affine>& at) {
    const auto axis = std::ranges::find(at, affine_var(nest_.var));
    if (axis == at.end() || std::ranges::count_if(at, [&](const Affine& each) {
                              return split_lane(each, nest_.var).second != 0;
                            }) != 1)
      return false;
    return axes_.emplace(buffer, axis - at.begin()).first->second == axis - at.begin();
  }

  /// An element of a row.
  struct Element {
    std::vector<Affine> row;  ///< subscripts, with the variable `along_`
    std::int64_t extent = 0;  ///< of the row
    Affine place;
    bool moves = false;  ///< the next element in the next iteration along the row
  };
  /// The element of an access that goes along the row.
  [[nodiscard]] Element next_element(const std::vector<Affine>& at, const Stmt& along) const {
    Substitution by;
    by.vars[along.var] = affine_var(along_);
    std::vector<Affine> row;
    for (const Affine& each : at) row.push_back(substitute(each, by));
    return Element{std::move(row), along.to, affine_var(along.var), true};
  }
  /// The element of an access that stays, as to one coordinate of a point; none if its row is no
  /// vector.
  [[nodiscard]] std::optional<Element> same_element(BufferId buffer, const std::vector<Affine>& at,
                                                    const Stmt& along) const {
    const Dims& dims = in_.lowered.loop.buffers[buffer].type.dims;
    const auto moves = [&](const Affine& each) { return split_lane(each, along.var).second != 0; };
    if (at.empty() || std::ranges::any_of(at, moves) || dims.back() < 2 || dims.back() > lanes_ ||
        !at.back().terms.empty())
      return std::nullopt;
    Element element{at, dims.back(), at.back()};
    element.row.back() = affine_var(along_);
    return element;
  }

  [[nodiscard]] bool row_of(BufferId buffer) const {
    return std::ranges::any_of(rows_, [&](const Row& row) { return row.buffer == buffer; });
  }
  [[nodiscard]] Row* row_of(BufferId buffer, const std::vector<Affine>& key, std::int64_t extent) {
    const auto found = std::ranges::find_if(rows_, [&](const Row& row) {
      return row.buffer == buffer && row.subscripts == key && row.extent == extent;
    });
    return found == rows_.end() ? nullptr : &*found;
  }

  /// The blocks of rows, and the rows after the last block; none where a loop has no vector form.
  [[nodiscard]] std::optional<Block> side_by_side() {
    for (const auto& [local, block] : locals_)
      declares_.push_back(
          make_declare(block.first, make_constant(Scalar::of_int(block.second, 0)), {lanes_}));
    Block each = declares_;
    for (const Row& row : rows_) {
      if (row.is_read_first) append(each, turned_in(row));
    }
    for (const StmtPtr& stmt : body_) {
      if (stmt->kind == StmtKind::comment) continue;
      if (stmt->kind != StmtKind::loop) {
        append(each, one_by_one(stmt));
        continue;
      }
      const StmtPtr lanes = in_lanes(stmt->body, stmt.get());
      if (!is_vector(lanes)) return std::nullopt;
      each.push_back(make_loop(stmt->var, 0, stmt->to, {lanes}));
    }
    for (const Row& row : rows_) {
      if (row.is_stored && !row.is_private) append(each, turned_out(row));
    }
    const std::int64_t blocks = nest_.to / lanes_;
    Block made{make_comment(fmt::format("short rows: {} side by side", lanes_))};
    append(made, with_own_names(in_.fresh, {make_loop(block_, 0, blocks, std::move(each))}, {}));
    if (blocks * lanes_ < nest_.to)
      made.push_back(make_loop(nest_.var, blocks * lanes_, nest_.to, rest()));
    return made;
  }

  /// The row of a lane.
  [[nodiscard]] Affine row_in(const Affine& lane) const {
    return affine_add(affine_var(block_, lanes_), lane);
  }

  /// lanes { the statements, of the row of each lane }
  [[nodiscard]] StmtPtr in_lanes(const Block& body, const Stmt* along) {
    const VarId lane = in_.fresh.var();
    Block made;
    for (const StmtPtr& stmt : body) made.push_back(of_lane(*stmt, along, affine_var(lane)));
    return make_loop(lane, 0, lanes_, std::move(made), LoopMark::lanes);
  }

  [[nodiscard]] StmtPtr of_lane(const Stmt& stmt, const Stmt* along, const Affine& lane) {
    using TurnedPlace = std::pair<BufferId, std::vector<Affine>>;
    const auto turned_place = [&](BufferId buffer,
                                  const std::vector<Affine>& at) -> std::optional<TurnedPlace> {
      if (along == nullptr) return std::nullopt;
      // Private scratch has other axes by now.
      std::optional<Element> element = next_element(at, *along);
      const Row* row = row_of(buffer, element->row, element->extent);
      if (row == nullptr) element = same_element(buffer, at, *along);
      if (row == nullptr && element) row = row_of(buffer, element->row, element->extent);
      if (row == nullptr) return std::nullopt;
      return TurnedPlace{buffer_of(*row), {element->place, lane}};
    };
    Substitution by;
    by.vars[nest_.var] = row_in(lane);
    const ValuePtr value = substitute(
        rebuild(stmt.value,
                [&](ValuePtr v) {
                  if (v->kind == ValueKind::local) return of_lane(std::move(v), lane);
                  if (v->kind != ValueKind::load) return v;
                  const auto place = turned_place(v->buffer, v->subscripts);
                  return place ? make_load(place->first, v->dtype, place->second) : std::move(v);
                }),
        by);
    if (stmt.kind == StmtKind::store) {
      if (const auto place = turned_place(stmt.buffer, stmt.subscripts))
        return make_store(place->first, place->second, value);
      std::vector<Affine> at;
      for (const Affine& each : stmt.subscripts) at.push_back(substitute(each, by));
      return make_store(stmt.buffer, std::move(at), value);
    }
    const auto block = locals_.find(stmt.local);
    return block == locals_.end() ? with_value(stmt, value)
                                  : make_assign(block->second.first, value, {lane});
  }
  [[nodiscard]] ValuePtr of_lane(ValuePtr local, const Affine& lane) const {
    const auto block = locals_.find(local->local);
    return block == locals_.end() ? std::move(local)
                                  : make_local(block->second.first, local->dtype, {lane});
  }

  /// A statement for the rows of a block: in lanes, else row by row, from copies of the locals, as
  /// only vector code keeps blocks in registers.
  [[nodiscard]] Block one_by_one(const StmtPtr& stmt) {
    const StmtPtr lanes = in_lanes({stmt}, nullptr);
    if (is_vector(lanes)) return {lanes};
    Block made;
    std::map<LocalId, LocalId> copies;
    walk(*stmt->value, [&](const Value& v) {
      const auto block = v.kind == ValueKind::local ? locals_.find(v.local) : locals_.end();
      if (block == locals_.end() || copies.contains(block->second.first)) return;
      const auto& [local, type] = block->second;
      const LocalId copy = copies[local] = in_.fresh.local();
      const VarId lane = in_.fresh.var();
      made.push_back(make_declare(copy, make_constant(Scalar::of_int(type, 0)), {lanes_}));
      made.push_back(make_loop(
          lane, 0, lanes_,
          {make_assign(copy, make_local(local, type, {affine_var(lane)}), {affine_var(lane)})},
          LoopMark::lanes));
    });
    Substitution by;
    by.locals = copies;
    Stmt each = *lanes->body[0];
    each.value = substitute(each.value, by);
    made.push_back(make_loop(lanes->var, 0, lanes_, {std::make_shared<const Stmt>(std::move(each))},
                             LoopMark::lanes));
    return made;
  }

  [[nodiscard]] bool is_vector(const StmtPtr& lanes) {
    Block alone = declares_;
    alone.push_back(lanes);
    return broken_mark(alone).empty() &&
           plan_lanes(in_.lowered.loop.buffers, alone, in_.target).vectors.contains(lanes->var);
  }

  static BufferId buffer_of(const Row& row) { return row.is_private ? row.buffer : row.turned; }

  /// The access to the row's buffer at an element of the row.
  [[nodiscard]] std::vector<Affine> at(const Row& row, const Affine& lane,
                                       const Affine& element) const {
    Substitution by;
    by.vars[nest_.var] = row_in(lane);
    by.vars[along_] = element;
    std::vector<Affine> made;
    for (const Affine& each : row.subscripts) made.push_back(substitute(each, by));
    return made;
  }

  /// Reads the rows of a block along themselves, and stores them side by side.
  [[nodiscard]] Block turned_in(const Row& row) {
    return in_vectors(row, [&](std::int64_t count, const Affine& first) {
      return turned(
          row.dtype, lanes_, count,
          [&](const Affine& of, const Affine& k) {
            return make_load(row.buffer, row.dtype, at(row, of, affine_add(first, k)));
          },
          [&](const Affine& of, const Affine& k, const ValuePtr& element) {
            return make_store(row.turned, {affine_add(first, k), of}, element);
          });
    });
  }

  /// Stores the rows of a block along themselves.
  [[nodiscard]] Block turned_out(const Row& row) {
    return in_vectors(row, [&](std::int64_t count, const Affine& first) {
      return turned(
          row.dtype, count, lanes_,
          [&](const Affine& k, const Affine& of) {
            return make_load(row.turned, row.dtype, {affine_add(first, k), of});
          },
          [&](const Affine& k, const Affine& of, const ValuePtr& element) {
            return make_store(row.buffer, at(row, of, affine_add(first, k)), element);
          });
    });
  }

  /// The statements of `part(number of elements, the first)` for each vector of a row.
  template <class Part>
  [[nodiscard]] Block in_vectors(const Row& row, const Part& part) const {
    Block made;
    for (std::int64_t first = 0; first < row.extent; first += lanes_)
      append(made, part(std::min(lanes_, row.extent - first), Affine{first, {}}));
    return made;
  }

  /// Reads the elements read(row, column) along rows, and stores them along columns.
  template <class Read, class Store>
  [[nodiscard]] Block turned(DType type, std::int64_t rows, std::int64_t columns, const Read& read,
                             const Store& store) {
    const LocalId block = in_.fresh.local();
    const auto each = [&](std::int64_t outer_count, std::int64_t inner_count, const auto& body) {
      const VarId outer = in_.fresh.var(), inner = in_.fresh.var();
      const StmtPtr lanes = make_loop(
          inner, 0, inner_count, {body(affine_var(outer), affine_var(inner))}, LoopMark::lanes);
      return make_loop(outer, 0, outer_count, {lanes}, LoopMark::unroll);
    };
    return {make_declare(block, make_constant(Scalar::of_int(type, 0)), {rows, columns}),
            each(rows, columns,
                 [&](const Affine& row, const Affine& column) {
                   return make_assign(block, read(row, column), {row, column});
                 }),
            each(columns, rows, [&](const Affine& column, const Affine& row) {
              return store(row, column, make_local(block, type, {row, column}));
            })};
  }

  /// The body of the nest, with its scratch as the first lane has it.
  [[nodiscard]] Block rest() const {
    const auto moved = [this](BufferId buffer, std::vector<Affine> at) {
      const auto row = std::ranges::find_if(
          rows_, [&](const Row& each) { return each.is_private && each.buffer == buffer; });
      if (row == rows_.end()) return at;
      const auto along =
          std::ranges::find_if(at, [](const Affine& each) { return !each.terms.empty(); });
      return std::vector{*along, Affine()};
    };
    const auto change = [&](const StmtPtr& stmt, const auto& self) -> StmtPtr {
      Stmt made = *stmt;
      if (made.kind == StmtKind::store) made.subscripts = moved(made.buffer, made.subscripts);
      if (made.value) {
        made.value = rebuild(made.value, [&](ValuePtr v) {
          return v->kind == ValueKind::load
                     ? make_load(v->buffer, v->dtype, moved(v->buffer, v->subscripts))
                     : v;
        });
      }
      for (StmtPtr& inner : made.body) inner = self(inner, self);
      return std::make_shared<const Stmt>(std::move(made));
    };
    Block made;
    for (const StmtPtr& stmt : body_) made.push_back(change(stmt, change));
    return made;
  }

  Scheduling& in_;
  const Stmt& nest_;
  Block body_;                ///< of the nest, without loops inside loops
  bool is_computed_ = false;  ///< elements of rows are sums over a few coordinates
  /// The variable along a row in `subscripts`, and the variable of blocks of rows.
  const VarId along_, block_;
  std::int64_t lanes_ = 0;
  std::map<LocalId, std::pair<LocalId, DType>> locals_;  ///< the block of each local, its type
  Block declares_;                                       ///< of the blocks
  std::vector<std::int64_t> accesses_;                   ///< by buffer, in the nest
  std::map<BufferId, std::ptrdiff_t> axes_;  ///< the axis of rows of buffers that are stored
  std::set<BufferId> as_they_are_;           ///< buffers that lanes access without turning rows
  std::vector<Row> rows_;
};

}  // namespace

std::optional<Block> schedule_short_rows(Scheduling& in, const StmtPtr& nest) {
  return ShortRows(in, nest).build();
}

}  // namespace heddle::jit
