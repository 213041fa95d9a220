// See schedule/sum_blocks.hpp.
#include "jit/schedule/sum_blocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "jit/loop/rewrite.hpp"
#include "jit/schedule/lanes.hpp"
#include "jit/schedule/tiles.hpp"

namespace heddle::jit {
namespace {

bool is_element_of(const Value& v, LocalId local) {
  return v.kind == ValueKind::local && v.local == local;
}

bool mentions(const Value& value, LocalId local) {
  bool found = false;
  walk(value, [&](const Value& v) { found = found || is_element_of(v, local); });
  return found;
}

/// The number of terms that sum + term + ... adds to the element of `local` at `at`: by additions,
/// of which one operand leads to the element, and fused multiply-adds. Nothing where the value has
/// another form.
std::optional<std::int64_t> terms_added(const Value& value, LocalId local,
                                        const std::vector<Affine>& at) {
  if (is_element_of(value, local))
    return value.subscripts == at ? std::optional<std::int64_t>(0) : std::nullopt;
  if (value.kind != ValueKind::op || (value.op != Op::add && value.op != Op::fma))
    return std::nullopt;
  const Value* sum = nullptr;
  for (const ValuePtr& arg : value.args) {
    if (!mentions(*arg, local)) continue;
    if (sum != nullptr || (value.op == Op::fma && arg != value.args.back())) return std::nullopt;
    sum = arg.get();
  }
  if (sum == nullptr) return std::nullopt;
  const std::optional<std::int64_t> inner = terms_added(*sum, local, at);
  return inner ? std::optional(*inner + 1) : std::nullopt;
}

/// A statement, and the most terms that it adds to an element of the sum.
struct Adding {
  StmtPtr stmt;
  std::int64_t terms = 0;
};

/// A sum, and the statements that add to it.
class Sum {
 public:
  Sum(Scheduling& in, const Stmt& declare)
      : in_(in), local_(declare.local), type_(declare.value->dtype), dims_(declare.dims) {}

  /// The statement with blocks, if it uses the sum only to add to it; otherwise nothing.
  std::optional<Adding> in_blocks(const StmtPtr& stmt) {
    count_step();
    if (stmt->value && stmt->kind != StmtKind::assign && mentions(*stmt->value, local_))
      return std::nullopt;
    if (stmt->kind == StmtKind::assign) return assigned(stmt);
    if (!binds_variable(*stmt)) return Adding{stmt};
    Block body;
    std::int64_t terms = 0;
    bool every = true;  // whether all elements have the variable in their subscripts
    for (const StmtPtr& inner : stmt->body) {
      const std::optional<Adding> added = in_blocks(inner);
      if (!added) return std::nullopt;
      terms += added->terms;
      body.push_back(added->stmt);
    }
    if (terms == 0) return Adding{stmt};
    if (stmt->mark == LoopMark::parallel || stmt->mark == LoopMark::block) return std::nullopt;
    walk(body, [&](const Stmt& inner) {
      if (inner.kind == StmtKind::assign && inner.local == local_)
        every = every && moves_with(inner.subscripts, stmt->var);
    });
    const StmtPtr here = with_body(*stmt, std::move(body));
    if (stmt->kind == StmtKind::at || every) return Adding{here, terms};
    return loop_in_blocks(here, terms);
  }

  [[nodiscard]] bool is_cut() const noexcept { return cut_; }

 private:
  std::optional<Adding> assigned(const StmtPtr& stmt) const {
    if (stmt->local != local_)
      return mentions(*stmt->value, local_) ? std::nullopt : std::optional(Adding{stmt});
    const auto terms = terms_added(*stmt->value, local_, stmt->subscripts);
    return terms && *terms > 0 ? std::optional(Adding{stmt, *terms}) : std::nullopt;
  }

  /// Cuts a loop with `terms` terms per iteration.
  Adding loop_in_blocks(const StmtPtr& loop, std::int64_t terms) {
    const std::int64_t extent = loop->to - loop->from;
    constexpr std::int64_t no_end = std::numeric_limits<std::int64_t>::max();
    const std::int64_t all = extent > no_end / terms ? no_end : extent * terms;
    if (all <= terms_in_order_max || loop->mark != LoopMark::serial) return {loop, all};
    cut_ = true;
    const std::int64_t most_each = std::max<std::int64_t>(1, block_terms / terms);
    // Equal blocks, where possible: a smaller block for the rest needs separate code.
    const std::int64_t equal = largest_divisor(extent, most_each);
    const std::int64_t each = 4 * equal >= most_each ? equal : most_each;
    const std::vector<Segment> segments = whole_tiles(extent, each);
    Block blocks;
    for (const Segment& segment : segments) {
      const VarId outer = in_.fresh.var();
      const Affine first =
          affine_add(affine_var(outer, segment.size), Affine{loop->from + segment.offset, {}});
      blocks.push_back(make_loop(outer, 0, segment.count, block_of(*loop, first, segment.size)));
    }
    const std::int64_t count = num_tiles(segments);
    if (count <= terms_in_order_max) {
      // A loop around both blocks, so that they are a single statement.
      if (blocks.size() == 1) return {blocks[0], count};
      return {make_loop(in_.fresh.var(), 0, 1, std::move(blocks)), count};
    }
    // Cuts the loop over whole blocks again; an iteration of it adds one term.
    const Adding whole = loop_in_blocks(blocks[0], 1);
    blocks[0] = whole.stmt;
    if (blocks.size() == 1) return whole;
    return {make_loop(in_.fresh.var(), 0, 1, std::move(blocks)), whole.terms + 1};
  }

  /// let part = 0; `count` iterations of the loop from `first` on, which add to part; sum += part
  Block block_of(const Stmt& loop, const Affine& first, std::int64_t count) {
    const LocalId part = in_.fresh.local();
    const VarId var = in_.fresh.var();
    Substitution by;
    by.vars[loop.var] = affine_add(first, affine_var(var));
    by.locals[local_] = part;
    Block body = with_own_names(in_.fresh, loop.body, std::move(by));
    Block block{make_declare(part, make_constant(*neutral(Op::add, type_)), dims_)};
    block.push_back(make_loop(var, 0, count, std::move(body)));
    add_part(part, block);
    return block;
  }

  void add_part(LocalId part, Block& to) {
    const auto add = [&](const std::vector<Affine>& at) {
      return make_assign(
          local_, make_op(Op::add, {make_local(local_, type_, at), make_local(part, type_, at)}),
          at);
    };
    if (dims_.empty()) {
      to.push_back(add({}));
      return;
    }
    std::vector<Affine> at;
    std::vector<VarId> rows;
    for (std::size_t axis = 0; axis + 1 < dims_.size(); ++axis) {
      rows.push_back(in_.fresh.var());
      at.push_back(affine_var(rows.back()));
    }
    at.emplace_back();
    const std::int64_t width = in_.target.lanes(type_);
    Block all;
    // Rows of a tile are few vectors, which stay in registers if a loop has them whole.
    const std::int64_t most = unrolled_vectors * std::max<std::int64_t>(1, width);
    const bool whole = dims_.back() <= sums_max * width;
    for (const Segment& segment : whole_tiles(dims_.back(), whole ? dims_.back() : most)) {
      const VarId piece = in_.fresh.var();
      const VarId lane = in_.fresh.var();
      at.back() = affine_var(lane);
      if (!whole) {
        at.back() = affine_add(affine_add(affine_var(piece, segment.size), at.back()),
                               Affine{segment.offset, {}});
      }
      const StmtPtr lanes = make_loop(lane, 0, segment.size, {add(at)}, LoopMark::lanes);
      all.push_back(whole ? lanes : make_loop(piece, 0, segment.count, {lanes}));
    }
    std::int64_t elements = 1;
    for (const std::int64_t extent : dims_) elements *= extent;
    const LoopMark mark = elements <= copies_max / 4 ? LoopMark::unroll : LoopMark::serial;
    for (std::size_t axis = rows.size(); axis-- > 0;)
      all = {make_loop(rows[axis], 0, dims_[axis], std::move(all), mark)};
    to.insert(to.end(), all.begin(), all.end());
  }

  Scheduling& in_;
  const LocalId local_;
  const DType type_;
  const Dims dims_;
  bool cut_ = false;
};

}  // namespace

Block with_sums_in_blocks(Scheduling& in, const Block& body) {
  if (!declares_local(body)) return body;
  Block result;
  std::map<LocalId, const Stmt*> sums;  // declared by this block
  for (const StmtPtr& stmt : body) {
    // On a GPU, local blocks belong to groups of threads.
    const bool may_be_sum = stmt->kind == StmtKind::declare && is_floating(stmt->value->dtype) &&
                            (stmt->dims.empty() || !in.target.is_gpu());
    if (may_be_sum) sums[stmt->local] = stmt.get();
    if (!binds_variable(*stmt)) {
      result.push_back(stmt);
      continue;
    }
    StmtPtr made = with_body(*stmt, with_sums_in_blocks(in, stmt->body));
    std::set<LocalId> assigned;
    walk(made->body, [&](const Stmt& inner) {
      if (inner.kind == StmtKind::assign && sums.contains(inner.local))
        assigned.insert(inner.local);
    });
    bool cut = false;
    for (const LocalId local : assigned) {
      Sum sum(in, *sums.at(local));
      const std::optional<Adding> added = sum.in_blocks(made);
      if (!added || !sum.is_cut() || block_bytes({added->stmt}) > block_bytes_max / 2) continue;
      made = added->stmt;
      cut = true;
    }
    const std::string about = fmt::format("sum in blocks of {} terms", block_terms);
    if (cut) result.push_back(make_comment(about, about));
    result.push_back(made);
  }
  return result;
}

}  // namespace heddle::jit
