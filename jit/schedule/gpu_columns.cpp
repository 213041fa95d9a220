// See gpu_columns.hpp.
#include "jit/schedule/gpu_columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/gpu_sums.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

constexpr std::int64_t threads_of_column = 8;
/// Terms that are worth more than one thread, and those that are worth a separate group.
constexpr std::int64_t column_terms_min = 64;
constexpr std::int64_t part_of_column_terms = 256;
/// Groups that occupy a GPU, a few for each multiprocessor.
constexpr std::int64_t groups_of_columns_wanted = 4 * gpu_groups_wanted;

/// A reduction at the head of a body, and the code after it.
struct ColumnSum {
  Reduction reduction;
  Block rest;
};

std::optional<ColumnSum> match_column(const Loop& kernel, const std::vector<StmtPtr>& columns,
                                      const Block& body) {
  if (columns.empty() || body.size() < 2 || iterations_of(*columns.back()) < warp_threads)
    return std::nullopt;
  std::optional<Reduction> r = match_reduction(body[0], body[1]);
  const Block rest(body.begin() + 2, body.end());
  if (!r || !neutral(r->op, r->declare->value->dtype) || !is_straight(rest)) return std::nullopt;
  if (iterations_of(*r->loops[longest_loop(r->loops)]) < column_terms_min) return std::nullopt;
  bool lies_across = false;
  walk(*r->term, [&](const Value& v) {
    const VarId column = columns.back()->var;
    lies_across = lies_across || (v.kind == ValueKind::load &&
                                  stride(kernel, v.buffer, v.subscripts, column) == 1);
  });
  return lies_across ? std::optional(ColumnSum{std::move(*r), rest}) : std::nullopt;
}

class Columns {
 public:
  Columns(Scheduling& in, const std::vector<StmtPtr>& columns, const ColumnSum& sum)
      : in_(in), columns_(columns), sum_(sum), r_(sum.reduction) {}

  Block build() {
    Block result{comment()};
    for (const Segment& segment : whole_tiles(iterations_of(*columns_.back()), warp_threads))
      result.push_back(nest(segment));
    return result;
  }

 private:
  [[nodiscard]] StmtPtr comment() const {
    const std::string text = fmt::format("columns: {} threads each", threads_of_column);
    const bool sums = is_floating(r_.declare->value->dtype);
    return make_comment(text, sums ? fmt::format("{} sums", threads_of_column) : std::string());
  }

  StmtPtr nest(const Segment& segment) {
    by_ = {};
    at_once_ = segment.size;
    const VarId group = in_.fresh.var();
    first_ = affine_add(affine_var(group, segment.size),
                        Affine{columns_.back()->from + segment.offset, {}});
    for (std::size_t k = 0; k + 1 < columns_.size(); ++k)
      by_.loops[columns_[k]->var] = in_.fresh.var();
    StmtPtr made = make_loop(group, 0, segment.count, group_body(), LoopMark::parallel);
    for (std::size_t k = columns_.size() - 1; k-- > 0;) {
      const Stmt& loop = *columns_[k];
      made = make_loop(by_.loops.at(loop.var), loop.from, loop.to, {made}, LoopMark::parallel);
    }
    return made;
  }

  /// A thread for each of the columns of a group, and each of `count` places:
  /// body(place, column of the group).
  using Body = std::function<Block(const Affine& place, const Affine& column)>;
  StmtPtr each(std::int64_t count, const Body& body) {
    const VarId place = in_.fresh.var(), column = in_.fresh.var();
    const StmtPtr inner = make_loop(column, 0, at_once_,
                                    body(affine_var(place), affine_var(column)), LoopMark::block);
    return make_loop(place, 0, count, {inner}, LoopMark::block);
  }

  /// The statements for a column of the group, with the loops' variables substituted.
  Block in_column(const Block& body, const Affine& column, std::optional<Affine> term = {}) {
    Substitution by = by_;
    by.vars[columns_.back()->var] = affine_add(first_, column);
    if (term) by.vars[shared().var] = std::move(*term);
    return with_own_names(in_.fresh, body, std::move(by));
  }

  [[nodiscard]] const Stmt& shared() const { return *r_.loops[longest_loop(r_.loops)]; }

  Block group_body() {
    const DType type = r_.declare->value->dtype;
    const ValuePtr none = make_constant(*neutral(r_.op, type));
    const LocalId sums = in_.fresh.local(), own = in_.fresh.local();
    const auto sum_at = [&](const Affine& place, const Affine& column) {
      return make_local(sums, type, {place, column});
    };
    const Block terms = terms_of(r_, longest_loop(r_.loops), own);
    // A thread's own sum of terms, which begins as `start`.
    const auto added = [&](const Affine& place, const Affine& column, const ValuePtr& start,
                           Block made) {
      made.insert(made.begin(), make_declare(own, start));
      made.push_back(make_assign(sums, make_local(own, type), {place, column}));
      return with_own_names(in_.fresh, made, {});
    };
    const std::int64_t extent = iterations_of(shared()), threads = threads_of_column;
    Block body{make_declare(sums, none, {threads, at_once_})};
    body.push_back(each(threads, [&](const Affine& place, const Affine& column) {
      const VarId turn = in_.fresh.var();
      const Affine term =
          affine_add(affine_add(place, affine_var(turn, threads)), Affine{shared().from, {}});
      return added(place, column, none,
                   {make_loop(turn, 0, extent / threads, in_column(terms, column, term))});
    }));
    if (extent % threads > 0) {
      body.push_back(each(extent % threads, [&](const Affine& place, const Affine& column) {
        const Affine term =
            affine_add(place, Affine{shared().from + extent / threads * threads, {}});
        return added(place, column, sum_at(place, column), in_column(terms, column, term));
      }));
    }
    for (std::int64_t half = threads / 2; half > 0; half /= 2) {
      body.push_back(each(half, [&](const Affine& place, const Affine& column) {
        const ValuePtr both =
            joined(r_, sum_at(place, column), sum_at(affine_add(place, Affine{half, {}}), column));
        return Block{make_assign(sums, both, {place, column})};
      }));
    }
    const VarId column = in_.fresh.var();
    const LocalId all = r_.declare->local;
    Block last{r_.declare, make_assign(all, joined(r_, make_local(all, type),
                                                   sum_at(Affine(), affine_var(column))))};
    append(last, sum_.rest);
    body.push_back(
        make_loop(column, 0, at_once_, in_column(last, affine_var(column)), LoopMark::block));
    return body;
  }

  Scheduling& in_;
  const std::vector<StmtPtr>& columns_;
  const ColumnSum& sum_;
  const Reduction& r_;
  // State of the current nest:
  std::int64_t at_once_ = 1;  ///< columns of a group
  Substitution by_;
  Affine first_;  ///< the first column of a group
};

}  // namespace

std::optional<Block> schedule_columns_on_gpu(Scheduling& in, const std::vector<StmtPtr>& columns,
                                             const Block& body) {
  const std::optional<ColumnSum> sum = match_column(in.lowered.loop, columns, body);
  if (!sum) return std::nullopt;
  Block made = Columns(in, columns, *sum).build();
  if (!std::ranges::all_of(made, shared_out_loops_share_nothing)) return std::nullopt;
  return made;
}

std::optional<Block> cut_columns_on_gpu(Scheduling& in, const std::vector<StmtPtr>& columns,
                                        const Block& body) {
  const std::optional<ColumnSum> sum = match_column(in.lowered.loop, columns, body);
  if (!sum) return std::nullopt;
  const std::int64_t terms =
      iterations_of(*sum->reduction.loops[longest_loop(sum->reduction.loops)]);
  std::int64_t groups = (iterations_of(*columns.back()) + warp_threads - 1) / warp_threads;
  for (std::size_t k = 0; k + 1 < columns.size() && groups < gpu_groups_wanted; ++k)
    groups *= iterations_of(*columns[k]);
  if (groups >= gpu_groups_wanted || terms < 2 * part_of_column_terms) return std::nullopt;
  const std::int64_t parts = std::max<std::int64_t>(
      2, std::min(terms / part_of_column_terms, groups_of_columns_wanted / groups));
  Block nests;
  for (GpuNest& nest : cut_sum(in, columns, sum->reduction, sum->rest, parts)) {
    // A loop over parts goes around the columns, which lie side by side.
    if (nest.loops.size() > columns.size()) std::swap(nest.loops.back(), nest.loops.end()[-2]);
    Block made = std::move(nest.body);
    for (auto loop = nest.loops.rbegin(); loop != nest.loops.rend(); ++loop)
      made = {with_body(**loop, std::move(made))};
    append(nests, made);
  }
  return nests;
}

}  // namespace heddle::jit
