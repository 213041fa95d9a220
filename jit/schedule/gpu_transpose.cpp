// See gpu_transpose.hpp. Tiles in shared memory with rows of an odd number of words: G. Ruetsch,
// P. Micikevicius, "Optimizing matrix transpose in CUDA" (NVIDIA, 2009).
#include "jit/schedule/gpu_transpose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/gpu_rows.hpp"
#include "jit/schedule/gpu_sums.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/schedule/transpose.hpp"

namespace heddle::jit {
namespace {

/// Elements of a tile along each side.
constexpr std::int64_t tile_side = 32;
/// Tiles, of 8 bytes an element, that fit in the memory of a group.
constexpr std::size_t turned_max = 4;

class TurnedTiles {
 public:
  TurnedTiles(Scheduling& in, const Transpose& t) : in_(in), t_(t) {}

  std::optional<Block> build() {
    Block result{make_comment(fmt::format("transpose: tiles of {0} x {0}", tile_side))};
    for (const Segment& along : whole_tiles(extent(t_.along), tile_side)) {
      for (const Segment& across : whole_tiles(extent(t_.across), tile_side)) {
        StmtPtr made = nest(along, across);
        if (!shared_out_loops_share_nothing(made)) return std::nullopt;
        result.push_back(std::move(made));
      }
    }
    return result;
  }

 private:
  StmtPtr nest(const Segment& along, const Segment& across) {
    outside_.clear();
    std::vector<std::pair<VarId, const Stmt*>> others;
    for (const StmtPtr& loop : t_.loops) {
      if (loop == t_.along || loop == t_.across) continue;
      others.emplace_back(in_.fresh.var(), loop.get());
      outside_[loop->var] = affine_var(others.back().first);
    }
    const VarId at_along = in_.fresh.var(), at_across = in_.fresh.var();
    const auto first = [](const Segment& segment, VarId at, const StmtPtr& loop) {
      return affine_add(affine_var(at, segment.size), Affine{loop->from + segment.offset, {}});
    };
    const Affine first_along = first(along, at_along, t_.along);
    const Affine first_across = first(across, at_across, t_.across);
    Block group;
    std::vector<LocalId> tiles;
    for (const ValuePtr& value : t_.turned) {
      tiles.push_back(in_.fresh.local());
      const Scalar zero = Scalar::of_float(value->dtype, 0);
      // Neighbouring threads read a column: the padding puts its elements into different banks.
      group.push_back(
          make_declare(tiles.back(), make_constant(zero), {along.size, across.size + 1}));
    }
    const auto place = [&](const Affine& in_along, const Affine& in_across) {
      Substitution by;
      by.vars = outside_;
      by.vars[t_.along->var] = affine_add(first_along, in_along);
      by.vars[t_.across->var] = affine_add(first_across, in_across);
      return by;
    };
    group.push_back(threads(along.size, across.size, [&](const Affine& y, const Affine& x) {
      Block body;
      for (std::size_t k = 0; k < tiles.size(); ++k)
        body.push_back(make_assign(tiles[k], substitute(t_.turned[k], place(y, x)), {y, x}));
      return body;
    }));
    group.push_back(threads(across.size, along.size, [&](const Affine& y, const Affine& x) {
      Block body;
      for (const StmtPtr& stmt : t_.loops.back()->body)
        body.push_back(stmt->value ? with_value(*stmt, from_tiles(stmt->value, tiles, x, y))
                                   : stmt);
      return with_own_names(in_.fresh, body, place(x, y));
    }));
    StmtPtr made =
        make_loop(at_along, 0, along.count,
                  {make_loop(at_across, 0, across.count, std::move(group), LoopMark::parallel)},
                  LoopMark::parallel);
    for (std::size_t k = others.size(); k-- > 0;) {
      const auto& [var, loop] = others[k];
      made = make_loop(var, loop->from, loop->to, {made}, LoopMark::parallel);
    }
    return made;
  }

  ValuePtr from_tiles(const ValuePtr& value, const std::vector<LocalId>& tiles,
                      const Affine& in_along, const Affine& in_across) const {
    return with_turned(t_, value, [&](std::size_t k) {
      return make_local(tiles[k], t_.turned[k]->dtype, {in_along, in_across});
    });
  }

  /// body(outer, inner) for each element of a tile; neighbouring threads have neighbouring inner
  /// elements.
  template <class Body>
  StmtPtr threads(std::int64_t outer, std::int64_t inner, const Body& body) {
    const std::int64_t rows = largest_divisor(outer, group_threads / inner);
    const VarId y = in_.fresh.var(), x = in_.fresh.var(), turn = in_.fresh.var();
    const Affine at = affine_add(affine_var(y), affine_var(turn, rows));
    const StmtPtr turns =
        make_loop(turn, 0, outer / rows, body(at, affine_var(x)), LoopMark::unroll);
    return make_loop(y, 0, rows, {make_loop(x, 0, inner, {turns}, LoopMark::block)},
                     LoopMark::block);
  }

  Scheduling& in_;
  const Transpose& t_;
  std::map<VarId, Affine> outside_;
};

}  // namespace

std::optional<Block> schedule_transpose_on_gpu(Scheduling& in, const StmtPtr& nest) {
  const std::optional<Transpose> t = find_transpose(in.lowered.loop, nest);
  if (!t || t->turned.size() > turned_max) return std::nullopt;
  const bool computes = std::ranges::all_of(
      t->turned, [](const ValuePtr& value) { return compute_type(value->dtype) == value->dtype; });
  if (!computes) return std::nullopt;
  return TurnedTiles(in, *t).build();
}

}  // namespace heddle::jit
