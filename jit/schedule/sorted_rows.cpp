// See sorted_rows.hpp.
#include "jit/schedule/sorted_rows.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace heddle::jit {
namespace {

/// The fewest rows of a block.
constexpr std::int64_t rows_min = 8;

/// Two nests over the rows of a buffer: the first assigns every element, the second reads and
/// writes elements of each row by themselves. A third nest may be all that reads the buffer then,
/// element by element.
class SortedRows {
 public:
  SortedRows(Scheduling& in, const StmtPtr& assign, const StmtPtr& sort)
      : in_(in), assign_(*assign), sort_(*sort) {}

  [[nodiscard]] bool match() {
    if (!is_plain_loop(assign_) || !is_plain_loop(sort_) || assign_.to != sort_.to ||
        sort_.to < rows_min || assign_.body.size() != 1 || !is_plain_loop(*assign_.body[0]))
      return false;
    const Stmt& along = *assign_.body[0];
    if (along.body.empty() || !is_straight(along.body)) return false;
    const Stmt& store = *along.body.back();
    if (store.kind != StmtKind::store) return false;
    buffer_ = store.buffer;
    const ArrayType& type = in_.lowered.loop.buffers[buffer_].type;
    dtype_ = type.dtype;
    count_ = along.to;
    return (dtype_ == DType::u32 || dtype_ == DType::u64) &&
           type.dims == Dims{assign_.to, count_} &&
           store.subscripts == std::vector{affine_var(assign_.var), affine_var(along.var)} &&
           stores_once(along.body) &&
           std::ranges::all_of(sort_.body, [this](const StmtPtr& s) { return sorts(*s); });
  }

  /// Takes the nest after the two as the third, if it is one.
  [[nodiscard]] bool takes(const StmtPtr& nest) {
    const Loop& kernel = in_.lowered.loop;
    if (kernel.buffers[buffer_].role != Role::scratch || !is_plain_loop(*nest) ||
        nest->to != sort_.to || nest->body.size() != 1 || !is_plain_loop(*nest->body[0]) ||
        nest->body[0]->to != count_ || !is_straight(nest->body[0]->body))
      return false;
    const std::vector element{affine_var(nest->var), affine_var(nest->body[0]->var)};
    bool works = true;
    walk_values(nest->body, [&](const Value& v) {
      works =
          works && (v.kind != ValueKind::load || v.buffer != buffer_ || v.subscripts == element);
    });
    std::set<BufferId> stored;
    walk(nest->body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store) stored.insert(stmt.buffer);
      works = works && stmt.kind != StmtKind::assign;
    });
    const auto reads = [&](const Block& statements, const auto& buffers) {
      bool found = false;
      walk_values(statements, [&](const Value& v) {
        found = found || (v.kind == ValueKind::load && buffers.contains(v.buffer));
      });
      return found;
    };
    works = works && !stored.contains(buffer_) && !reads(assign_.body, stored) &&
            !reads({nest}, stored);
    for (const StmtPtr& stmt : kernel.body) {
      const bool is_own = stmt.get() == &assign_ || stmt.get() == &sort_ || stmt == nest;
      works = works && (is_own || !reads({stmt}, std::set{buffer_}));
    }
    if (works) after_ = nest;
    return works;
  }

  [[nodiscard]] Block make() {
    lanes_ = in_.target.lanes(dtype_);
    if (sort_.to < lanes_) lanes_ = rows_min;
    scratch_ = after_ ? buffer_ : in_.add_scratch("rows side by side", dtype_, {count_, lanes_});
    if (after_) {
      const Dims dims{count_, lanes_};
      in_.lowered.loop.buffers[buffer_].type.dims = dims;
      in_.lowered.tensors[buffer_] = Tensor("rows side by side", dtype_, dims);
    }
    const std::int64_t blocks = (sort_.to + lanes_ - 1) / lanes_;
    const VarId block = in_.fresh.var();
    const Affine whole = affine_var(block, lanes_);
    if (sort_.to % lanes_ == 0) return {make_loop(block, 0, blocks, rows_from(whole))};
    const VarId first = in_.fresh.var();
    Block body = rows_from(affine_var(first));
    return {make_loop(
        block, 0, blocks,
        {make_at(first, 0, sort_.to - lanes_ + 1, make_embed(whole), true, std::move(body))})};
  }

 private:
  static bool is_plain_loop(const Stmt& stmt) {
    return stmt.kind == StmtKind::loop && stmt.mark == LoopMark::serial && stmt.from == 0;
  }

  /// True if the last statement alone touches the buffer.
  [[nodiscard]] bool stores_once(const Block& body) const {
    bool once = true;
    walk({body.begin(), body.end() - 1},
         [&](const Stmt& s) { once = once && s.kind == StmtKind::declare; });
    walk_values(body, [&](const Value& v) {
      once = once && (v.kind != ValueKind::load || v.buffer != buffer_);
    });
    return once;
  }

  [[nodiscard]] bool is_of_row(const std::vector<Affine>& subscripts) const {
    return subscripts[0] == affine_var(sort_.var) &&
           std::ranges::none_of(subscripts[1].terms,
                                [this](const AffineTerm& term) { return term.id == sort_.var; });
  }

  /// True if the statement touches the row alone, at places that are the same in every row.
  [[nodiscard]] bool sorts(const Stmt& stmt) const {
    bool same = true;
    const auto value = [&](const Value& v) {
      same = same && v.kind != ValueKind::embed && v.kind != ValueKind::constant &&
             (v.kind != ValueKind::load || (v.buffer == buffer_ && is_of_row(v.subscripts)));
    };
    const auto one = [&](const Stmt& s) {
      same =
          same && (s.kind == StmtKind::loop || s.kind == StmtKind::declare ||
                   (s.kind == StmtKind::store && s.buffer == buffer_ && is_of_row(s.subscripts)));
      same = same && s.dims.empty();
      if (s.value) walk(*s.value, value);
    };
    one(stmt);
    walk(stmt.body, one);
    return same;
  }

  /// The statements of `lanes_` rows from `row` on.
  [[nodiscard]] Block rows_from(const Affine& row) {
    const Stmt& along = *assign_.body[0];
    const VarId lane = in_.fresh.var();
    Substitution by;
    by.vars[assign_.var] = affine_add(row, affine_var(lane));
    Block first;
    for (const StmtPtr& stmt : along.body) first.push_back(substitute(stmt, by));
    first.back() =
        make_store(scratch_, {affine_var(along.var), affine_var(lane)}, first.back()->value);
    Block body{make_loop(lane, 0, lanes_, {with_body(along, std::move(first))})};
    append(body, side_by_side(sort_.body));
    append(body, turned_back(row));
    return body;
  }

  /// The sorted rows, or what the third nest makes of them.
  [[nodiscard]] Block turned_back(const Affine& row) {
    const VarId of = in_.fresh.var(), place = in_.fresh.var();
    const ValuePtr sorted = make_load(scratch_, dtype_, {affine_var(place), affine_var(of)});
    const Affine own = affine_add(row, affine_var(of));
    Block each{make_store(buffer_, {own, affine_var(place)}, sorted)};
    if (after_) {
      Substitution by;
      by.vars[after_->var] = own;
      by.vars[after_->body[0]->var] = affine_var(place);
      each.clear();
      for (const StmtPtr& stmt : after_->body[0]->body) {
        if (stmt->kind == StmtKind::comment) continue;
        const ValuePtr value = rebuild(stmt->value, [&](ValuePtr v) {
          return v->kind == ValueKind::load && v->buffer == buffer_ ? sorted : std::move(v);
        });
        each.push_back(substitute(with_value(*stmt, value), by));
      }
    }
    return {make_loop(of, 0, lanes_, {make_loop(place, 0, count_, std::move(each))})};
  }

  /// Each run of statements that are no loops, in a loop over the lanes.
  [[nodiscard]] Block side_by_side(const Block& body) {
    Block made, run;
    const auto close = [&] {
      if (run.empty()) return;
      const VarId lane = in_.fresh.var();
      Block lanes;
      for (const StmtPtr& stmt : run) lanes.push_back(of_lane(stmt, lane));
      made.push_back(make_loop(lane, 0, lanes_, std::move(lanes), LoopMark::lanes));
      run.clear();
    };
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::loop) {
        close();
        made.push_back(with_body(*stmt, side_by_side(stmt->body)));
      } else {
        run.push_back(stmt);
      }
    }
    close();
    return made;
  }

  [[nodiscard]] StmtPtr of_lane(const StmtPtr& stmt, VarId lane) const {
    const auto moved = [&](const std::vector<Affine>& at) {
      return std::vector{at[1], affine_var(lane)};
    };
    const ValuePtr value = rebuild(stmt->value, [&](ValuePtr v) {
      return v->kind == ValueKind::load ? make_load(scratch_, dtype_, moved(v->subscripts)) : v;
    });
    return stmt->kind == StmtKind::store ? make_store(scratch_, moved(stmt->subscripts), value)
                                         : with_value(*stmt, value);
  }

  Scheduling& in_;
  const Stmt& assign_;
  const Stmt& sort_;
  StmtPtr after_;  ///< the third nest, if there is one
  BufferId buffer_ = 0, scratch_ = 0;
  DType dtype_ = DType::u32;
  std::int64_t count_ = 0, lanes_ = 0;
};

}  // namespace

Block with_sorted_rows_side_by_side(Scheduling& in, const Block& body) {
  Block made;
  for (std::size_t k = 0; k < body.size(); ++k) {
    const std::size_t next = past_comments(body, k + 1);
    if (next < body.size()) {
      SortedRows rows(in, body[k], body[next]);
      if (rows.match()) {
        const std::size_t after = past_comments(body, next + 1);
        const std::size_t last = after < body.size() && rows.takes(body[after]) ? after : next;
        append_comments(made, body, k, last);
        append(made, rows.make());
        k = last;
        continue;
      }
    }
    made.push_back(body[k]);
  }
  return made;
}

}  // namespace heddle::jit
