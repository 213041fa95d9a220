// See sums_of_stored_rows.hpp.
#include "jit/schedule/sums_of_stored_rows.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "jit/schedule/shrunk_scratch.hpp"

namespace heddle::jit {
namespace {

constexpr std::int64_t stored_elements_max = 15, stored_terms_max = 24;

bool is_loop_along_row(const StmtPtr& stmt) {
  const std::int64_t extent = stmt->to - stmt->from;
  return is_serial_loop(stmt) && extent >= 2 && extent <= stored_elements_max;
}

/// By buffer: the statements of the top level that access it, and how often each does.
using AccessesByBuffer = std::map<BufferId, std::map<std::size_t, std::int64_t>>;

AccessesByBuffer accesses_by_buffer(const Loop& loop) {
  AccessesByBuffer users;
  for (std::size_t k = 0; k < loop.body.size(); ++k)
    each_touched({loop.body[k]}, [&](BufferId buffer) { ++users[buffer][k]; });
  return users;
}

/// for ... { positions { for element of row { row[..., element] = value } } }
struct StoredRow {
  std::vector<StmtPtr> loops, positions;
  StmtPtr row;
  StmtPtr store;

  static std::optional<StoredRow> find(const StmtPtr& nest) {
    StoredRow found;
    StmtPtr at = nest;
    const auto enter = [&] {
      if (at->body.size() != 1) return false;
      at = StmtPtr(at->body[0]);
      return true;
    };
    for (; is_serial_loop(at) && at->from == 0; found.loops.push_back(at), at = at->body[0])
      if (at->body.size() != 1) return std::nullopt;
    while (at->kind == StmtKind::at && at->nearest) {
      found.positions.push_back(at);
      if (!enter()) return std::nullopt;
    }
    if (found.positions.empty() || found.loops.empty() || !is_loop_along_row(at))
      return std::nullopt;
    found.row = at;
    if (!enter() || at->kind != StmtKind::store || at->atomic || at->subscripts.empty() ||
        at->subscripts.back() != affine_var(found.row->var))
      return std::nullopt;
    found.store = at;
    return found;
  }

  /// The row with these subscripts; none: the statement stores others, or not all of it.
  [[nodiscard]] std::optional<Substitution> place(const std::vector<Affine>& subscripts,
                                                  const Dims& dims) const {
    Substitution by;
    std::set<VarId> left;
    for (const StmtPtr& loop : loops) left.insert(loop->var);
    for (std::size_t axis = 0; axis + 1 < subscripts.size(); ++axis) {
      const Affine& at = store->subscripts[axis];
      if (at.terms.empty()) {
        if (at != subscripts[axis]) return std::nullopt;
        continue;
      }
      const auto loop = std::ranges::find_if(
          loops, [&](const StmtPtr& each) { return at == affine_var(each->var); });
      if (loop == loops.end() || left.erase((*loop)->var) == 0 || (*loop)->to != dims[axis])
        return std::nullopt;
      by.vars[(*loop)->var] = subscripts[axis];
    }
    return left.empty() && row->from == 0 && row->to == dims.back() ? std::optional(by)
                                                                    : std::nullopt;
  }
};

/// for ... { for element of row { let sum = ...; for term { sum = ... row[term, element] } ... } }
class SumOfStoredRows {
 public:
  SumOfStoredRows(Scheduling& in, AccessesByBuffer& users, std::size_t at)
      : in_(in), users_(users), at_(at) {}

  /// True if the sum was rewritten; `dead`: the statements that no other needs.
  [[nodiscard]] bool join(std::set<std::size_t>& dead) {
    if (!find_sum() || !find_rows()) return false;
    StmtPtr nest = made();
    if (!nest) return false;
    for (auto loop = loops_.rbegin(); loop != loops_.rend(); ++loop)
      nest = with_body(**loop, {std::move(nest)});
    in_.lowered.loop.body[at_] = std::move(nest);
    leave_one_element(in_.lowered, rows_);
    dead.insert(writers_.begin(), writers_.end());
    return true;
  }

 private:
  [[nodiscard]] const Block& body() const { return in_.lowered.loop.body; }

  bool find_sum() {
    StmtPtr at = body()[at_];
    for (; is_serial_loop(at) && at->from == 0 && at->body.size() == 1; at = at->body[0])
      loops_.push_back(at);
    if (loops_.empty() || !is_loop_along_row(at) || at->body.size() < 3) return false;
    row_ = at;
    const Block& of_row = row_->body;
    if (of_row[0]->kind != StmtKind::declare || !is_serial_loop(of_row[1])) return false;
    terms_ = of_row[1];
    return terms_->from == 0 && terms_->to >= 1 && terms_->to <= stored_terms_max &&
           terms_->body.size() == 1 && terms_->body[0]->kind == StmtKind::assign &&
           is_straight(Block(of_row.begin() + 2, of_row.end()));
  }

  /// Scratch of rows that the terms alone read.
  bool find_rows() {
    std::optional<BufferId> rows;
    walk(*terms_->body[0]->value, [&](const Value& v) {
      if (v.kind != ValueKind::load || rows ||
          in_.lowered.loop.buffers[v.buffer].role != Role::scratch)
        return;
      if (!v.subscripts.empty() && v.subscripts.back() == affine_var(row_->var)) rows = v.buffer;
    });
    if (!rows) return false;
    rows_ = *rows;
    std::int64_t loads = 0;
    walk(*terms_->body[0]->value, [&](const Value& v) {
      if (v.kind != ValueKind::load || v.buffer != rows_) return;
      ++loads;
      load_ = v.subscripts;
    });
    if (loads != 1 || !reads_once()) return false;
    for (const auto& [k, uses] : users_[rows_]) {
      if (uses != 1) return false;
      if (k == at_) continue;
      const std::optional<StoredRow> writer = k < at_ ? StoredRow::find(body()[k]) : std::nullopt;
      if (!writer || writer->store->buffer != rows_ || !stays(*writer, k) ||
          !std::ranges::all_of(stored_,
                               [&](const StoredRow& other) { return are_apart(*writer, other); }))
        return false;
      stored_.push_back(*writer);
      writers_.push_back(k);
    }
    return !writers_.empty();
  }

  /// True if each row is read in one iteration, along the row.
  [[nodiscard]] bool reads_once() const {
    const auto count = [&](VarId var) {
      return std::ranges::count_if(load_, [&](const Affine& at) { return moves_with(at, var); });
    };
    return count(row_->var) == 1 && count(terms_->var) == 1 &&
           std::ranges::all_of(loops_, [&](const StmtPtr& loop) { return count(loop->var) == 1; });
  }
  /// True if the statements store different rows: numbers differ on an axis.
  [[nodiscard]] static bool are_apart(const StoredRow& a, const StoredRow& b) {
    for (std::size_t axis = 0; axis < a.store->subscripts.size(); ++axis) {
      const Affine &of_a = a.store->subscripts[axis], &of_b = b.store->subscripts[axis];
      if (of_a.terms.empty() && of_b.terms.empty() && of_a != of_b) return true;
    }
    return false;
  }

  /// True if nothing up to the sum, and nothing in it, changes what the statement reads, nor could
  /// take its memory once that is read.
  [[nodiscard]] bool stays(const StoredRow& writer, std::size_t from) const {
    std::set<BufferId> read;
    walk_values({body()[from]}, [&](const Value& v) {
      if (v.kind == ValueKind::load) read.insert(v.buffer);
    });
    bool fits = !read.contains(writer.store->buffer);
    for (std::size_t k = from; k <= at_; ++k) {
      walk(Block{body()[k]}, [&](const Stmt& stmt) {
        if (stmt.kind != StmtKind::store && stmt.kind != StmtKind::zero) return;
        fits =
            fits && !read.contains(stmt.buffer) && (k == at_ || !takes_memory(stmt.buffer, read));
      });
    }
    return fits;
  }
  [[nodiscard]] bool takes_memory(BufferId buffer, const std::set<BufferId>& read) const {
    const std::vector<BufferDecl>& buffers = in_.lowered.loop.buffers;
    return buffers[buffer].role != Role::scratch && std::ranges::any_of(read, [&](BufferId each) {
             return buffers[each].type == buffers[buffer].type;
           });
  }

  /// The positions of all terms around the row; null: a row is stored by none.
  [[nodiscard]] StmtPtr made() {
    const Dims& dims = in_.lowered.loop.buffers[rows_].type.dims;
    Block of_row{row_->body[0]}, around;
    for (std::int64_t k = 0; k < terms_->to; ++k) {
      Substitution of_term;
      of_term.vars[terms_->var] = {k, {}};
      std::vector<Affine> at;
      for (const Affine& index : load_) at.push_back(substitute(index, of_term));
      std::optional<Substitution> by;
      const StoredRow* writer = nullptr;
      for (const StoredRow& each : stored_) {
        if (by) break;
        by = each.place(at, dims);
        writer = &each;
      }
      if (!by) return nullptr;
      by->vars[writer->row->var] = affine_var(row_->var);
      for (const StmtPtr& position : writer->positions) {
        by->loops[position->var] = in_.fresh.var();
        around.push_back(substitute(with_body(*position, {}), *by));
      }
      const ValuePtr element = substitute(writer->store->value, *by);
      const StmtPtr term = substitute(terms_->body[0], of_term);
      of_row.push_back(with_value(*term, rebuild(term->value, [&](ValuePtr v) {
        return v->kind == ValueKind::load && v->buffer == rows_ ? element : v;
      })));
    }
    of_row.insert(of_row.end(), row_->body.begin() + 2, row_->body.end());
    StmtPtr nest = with_body(*row_, std::move(of_row));
    for (auto at = around.rbegin(); at != around.rend(); ++at)
      nest = with_body(**at, {std::move(nest)});
    return nest;
  }

  Scheduling& in_;
  AccessesByBuffer& users_;
  const std::size_t at_;
  std::vector<StmtPtr> loops_;
  StmtPtr row_, terms_;
  BufferId rows_ = 0;
  std::vector<Affine> load_;
  std::vector<StoredRow> stored_;
  std::vector<std::size_t> writers_;
};

}  // namespace

void join_stored_rows(Scheduling& in) {
  Block& body = in.lowered.loop.body;
  std::set<std::size_t> dead;
  AccessesByBuffer users = accesses_by_buffer(in.lowered.loop);
  for (std::size_t k = 0; k < body.size(); ++k) {
    if (!is_serial_loop(body[k]) || !declares_local({body[k]})) continue;
    if (SumOfStoredRows(in, users, k).join(dead)) users = accesses_by_buffer(in.lowered.loop);
  }
  for (auto k = dead.rbegin(); k != dead.rend(); ++k)
    body.erase(body.begin() + static_cast<std::ptrdiff_t>(*k));
}

}  // namespace heddle::jit
