// See gpu_contraction.hpp. Tiles in registers and shared memory: V. Volkov, J. Demmel,
// "Benchmarking GPUs to tune dense linear algebra" (SC 2008).
#include "jit/schedule/gpu_contraction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "heddle/status.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/contraction_tile.hpp"
#include "jit/schedule/gpu_sums.hpp"
#include "jit/schedule/tiles.hpp"

namespace heddle::jit {
namespace {

/// Threads of a group along each side of a tile: 256 in total.
constexpr std::int64_t side_threads = 16;
/// Terms per block that a group shares, unless the user asked for a number.
constexpr std::int64_t usual_terms = 16;

/// Tiles along one side: `count` tiles from `offset` on, of `threads` threads with `each` elements
/// per thread.
struct Side {
  std::int64_t offset = 0, count = 0, threads = 0, each = 0;
  [[nodiscard]] std::int64_t size() const { return threads * each; }
};

/// Whole tiles, or a tile of fewer threads where no whole tile fits; then the remaining elements in
/// as many threads as possible; then the last remainder.
std::vector<Side> sides_of(std::int64_t extent, std::int64_t each) {
  std::vector<Side> sides;
  std::int64_t offset = 0;
  const auto add = [&](std::int64_t count, std::int64_t threads, std::int64_t elements) {
    if (count == 0 || threads == 0 || elements == 0) return;
    sides.push_back({offset, count, threads, elements});
    offset += count * threads * elements;
  };
  add(extent / (side_threads * each), side_threads, each);
  if (sides.empty()) add(1, extent / each, each);
  add(1, side_threads, (extent - offset) / side_threads);
  if (extent > offset) add(1, extent - offset, 1);
  return sides;
}

class GroupTiles {
 public:
  GroupTiles(Scheduling& in, const Contraction& c)
      : in_(in), c_(c), which_(longest_loop(c.reduced)), terms_(*c.reduced[which_]) {}

  std::optional<Block> build() {
    const std::int64_t rows = c_.row->to, lanes = c_.lane->to;
    if (std::min(rows, lanes) < side_threads || std::max(rows, lanes) < 2 * side_threads)
      return std::nullopt;
    std::int64_t others = 1;
    for (const StmtPtr& loop : c_.kept) {
      if (loop != c_.row && loop != c_.lane)
        others = std::min(others * loop->to, gpu_groups_wanted);
    }
    const ContractionTile tile = in_.tile.value_or(tile_for(rows, lanes, others));
    if (tile.terms > 0) block_terms_ = tile.terms;
    const std::string order =
        which_ + 1 == c_.reduced.size() ? "products" : fmt::format("products, i{} inside", which_);
    Block result{
        make_comment(fmt::format("contraction: tiles of {} x {} a thread, {} terms at a time",
                                 tile.rows, tile.vectors, block_terms_),
                     is_floating(c_.type) ? order : std::string())};
    for (const Side& row : sides_of(rows, tile.rows)) {
      for (const Side& lane : sides_of(lanes, tile.vectors)) {
        StmtPtr made = nest(row, lane);
        if (!shared_out_loops_share_nothing(made)) return std::nullopt;
        result.push_back(std::move(made));
      }
    }
    return result;
  }

 private:
  using Where = std::map<VarId, Affine>;

  /// The largest tile that still leaves work for the whole GPU.
  [[nodiscard]] ContractionTile tile_for(std::int64_t rows, std::int64_t lanes,
                                         std::int64_t others) const {
    std::int64_t each = size_of(c_.type) == 8 ? 4 : 8;
    const auto tiles = [&] {
      const std::int64_t size = side_threads * each;
      return ((rows + size - 1) / size) * ((lanes + size - 1) / size) * others;
    };
    while (each > 2 && tiles() < gpu_groups_wanted) each /= 2;
    return {each, each};
  }

  StmtPtr nest(const Side& row, const Side& lane) {
    row_ = row;
    lane_ = lane;
    outside_.clear();
    const VarId at_row = in_.fresh.var(), at_lane = in_.fresh.var();
    first_row_ = affine_add(affine_var(at_row, row.size()), Affine{row.offset, {}});
    first_lane_ = affine_add(affine_var(at_lane, lane.size()), Affine{lane.offset, {}});
    std::vector<std::pair<VarId, std::int64_t>> loops;
    for (const StmtPtr& loop : c_.kept) {
      if (loop == c_.row || loop == c_.lane) continue;
      loops.emplace_back(in_.fresh.var(), loop->to);
      outside_[loop->var] = affine_var(loops.back().first);
    }
    loops.emplace_back(at_row, row.count);
    loops.emplace_back(at_lane, lane.count);
    StmtPtr made =
        make_loop(loops.back().first, 0, loops.back().second, group(), LoopMark::parallel);
    for (std::size_t k = loops.size() - 1; k-- > 0;)
      made = make_loop(loops[k].first, 0, loops[k].second, {made}, LoopMark::parallel);
    return made;
  }

  Block group() {
    Block body;
    sums_ = in_.fresh.local();
    const bool constant = c_.start->kind == ValueKind::constant;
    const ValuePtr zero = make_constant(Scalar::of_float(c_.type, 0));
    body.push_back(make_declare(sums_, constant ? c_.start : zero,
                                {row_.threads, lane_.threads, row_.each, lane_.each}));
    if (!constant) {
      body.push_back(each_result([&](const Where& where, const std::vector<Affine>& at) {
        return Block{make_assign(sums_, substitute(c_.start, {where, {}, {}, {}, {}}), at)};
      }));
    }
    a_ = shared(body, row_, c_.a_is_contiguous);
    b_ = shared(body, lane_, !c_.b_is_contiguous);
    Block terms;
    const std::int64_t whole = terms_.to / block_terms_, rest = terms_.to % block_terms_;
    if (whole > 0) {
      const VarId block = in_.fresh.var();
      terms.push_back(
          make_loop(block, 0, whole, of_terms(affine_var(block, block_terms_), block_terms_)));
    }
    if (rest > 0) append(terms, of_terms(Affine{whole * block_terms_, {}}, rest));
    for (std::size_t k = c_.reduced.size(); k-- > 0;) {
      if (k == which_) continue;
      const VarId var = in_.fresh.var();
      terms = {make_loop(var, 0, c_.reduced[k]->to, renamed(terms, c_.reduced[k]->var, var))};
    }
    append(body, terms);
    body.push_back(each_result([&](const Where& where, const std::vector<Affine>& at) {
      return after_sum(in_, c_, where, sums_, at);
    }));
    return body;
  }

  static Block renamed(const Block& body, VarId from, VarId to) {
    Substitution by;
    by.vars[from] = affine_var(to);
    Block made;
    for (const StmtPtr& stmt : body) made.push_back(substitute(stmt, by));
    return made;
  }

  /// `body` for each result of the tile: every thread has some rows and lanes.
  template <class Body>
  StmtPtr each_result(const Body& body) {
    return each_thread([&](const Affine& y, const Affine& x) {
      const VarId r = in_.fresh.var(), l = in_.fresh.var();
      Where where = outside_;
      where[c_.row->var] = affine_add(first_row_, affine_add(y, affine_var(r, row_.threads)));
      where[c_.lane->var] = affine_add(first_lane_, affine_add(x, affine_var(l, lane_.threads)));
      const Block inner = body(where, std::vector{y, x, affine_var(r), affine_var(l)});
      return Block{make_loop(r, 0, row_.each,
                             {make_loop(l, 0, lane_.each, inner, LoopMark::unroll)},
                             LoopMark::unroll)};
    });
  }
  template <class Body>
  StmtPtr each_thread(const Body& body) {
    return threads(row_.threads, lane_.threads, body);
  }
  template <class Body>
  StmtPtr threads(std::int64_t outer, std::int64_t inner, const Body& body) {
    const VarId y = in_.fresh.var(), x = in_.fresh.var();
    return make_loop(y, 0, outer,
                     {make_loop(x, 0, inner, body(affine_var(y), affine_var(x)), LoopMark::block)},
                     LoopMark::block);
  }

  /// The group's copy of a factor's terms of a block: [term, row or lane].
  struct Shared {
    LocalId block = 0;
    bool along_terms = false;  ///< neighbours in memory are terms
  };
  Shared shared(Block& body, const Side& side, bool along_terms) {
    const Shared made{in_.fresh.local(), along_terms};
    // Neighbouring threads store a column: the padding puts its elements into different banks.
    const std::int64_t padded = side.size() + (along_terms ? 1 : 0);
    body.push_back(make_declare(made.block, make_constant(Scalar::of_float(c_.type, 0)),
                                {std::min(block_terms_, terms_.to), padded}));
    return made;
  }

  /// The `count` terms of a block from `first` on.
  Block of_terms(const Affine& first, std::int64_t count) {
    Block body;
    read(body, a_, c_.a, c_.row->var, first_row_, row_, first, count);
    read(body, b_, c_.b, c_.lane->var, first_lane_, lane_, first, count);
    body.push_back(each_thread([&](const Affine& y, const Affine& x) {
      const VarId k = in_.fresh.var();
      Block step;
      const LocalId rows = taken(step, a_, affine_var(k), y, row_);
      const LocalId lanes = taken(step, b_, affine_var(k), x, lane_);
      const VarId r = in_.fresh.var(), l = in_.fresh.var();
      const std::vector<Affine> at{y, x, affine_var(r), affine_var(l)};
      const ValuePtr sum = make_local(sums_, c_.type, at);
      const ValuePtr left = make_local(rows, c_.type, {affine_var(r)});
      const ValuePtr right = make_local(lanes, c_.type, {affine_var(l)});
      const StmtPtr add = make_assign(sums_, make_op(Op::fma, {left, right, sum}), at);
      step.push_back(make_loop(r, 0, row_.each,
                               {make_loop(l, 0, lane_.each, {add}, LoopMark::unroll)},
                               LoopMark::unroll));
      return Block{make_loop(k, 0, count, step)};
    }));
    return body;
  }

  /// Copies the elements of a term that a thread multiplies to registers.
  LocalId taken(Block& step, const Shared& from, const Affine& term, const Affine& thread,
                const Side& side) {
    const LocalId made = in_.fresh.local();
    const VarId n = in_.fresh.var();
    const Affine at = affine_add(thread, affine_var(n, side.threads));
    step.push_back(make_declare(made, make_constant(Scalar::of_float(c_.type, 0)), {side.each}));
    step.push_back(
        make_loop(n, 0, side.each,
                  {make_assign(made, make_local(from.block, c_.type, {term, at}), {affine_var(n)})},
                  LoopMark::unroll));
    return made;
  }

  void read(Block& body, const Shared& to, const ValuePtr& factor, VarId var,
            const Affine& first_of_side, const Side& side, const Affine& first,
            std::int64_t count) {
    const bool along_terms = to.along_terms;
    const std::int64_t fast = along_terms ? count : side.size();
    const std::int64_t slow = along_terms ? side.size() : count;
    const std::int64_t all = row_.threads * lane_.threads;
    const std::int64_t inner = largest_divisor(fast, std::min(all, warp_threads));
    const std::int64_t outer = largest_divisor(slow, all / inner);
    body.push_back(threads(outer, inner, [&](const Affine& y, const Affine& x) {
      const VarId s = in_.fresh.var(), f = in_.fresh.var();
      const Affine at_slow = affine_add(y, affine_var(s, outer));
      const Affine at_fast = affine_add(x, affine_var(f, inner));
      const Affine& term = along_terms ? at_fast : at_slow;
      const Affine& place = along_terms ? at_slow : at_fast;
      Where where = outside_;
      where[var] = affine_add(first_of_side, place);
      where[terms_.var] = affine_add(first, term);
      const StmtPtr store =
          make_assign(to.block, substitute(factor, {where, {}, {}, {}, {}}), {term, place});
      return Block{make_loop(s, 0, slow / outer,
                             {make_loop(f, 0, fast / inner, {store}, LoopMark::unroll)},
                             LoopMark::unroll)};
    }));
  }

  Scheduling& in_;
  const Contraction& c_;
  const std::size_t which_;
  const Stmt& terms_;  ///< the reduced loop that is cut into blocks
  std::int64_t block_terms_ = usual_terms;
  // State of the current nest:
  Side row_, lane_;
  Affine first_row_, first_lane_;
  Where outside_;
  LocalId sums_ = 0;
  Shared a_, b_;
};

}  // namespace

void check_gpu_tile(const ContractionTile& tile) {
  // Of 255 registers, some hold addresses.
  constexpr std::int64_t registers = 200, bytes = 48 << 10, most = 64;
  const bool small = tile.rows <= most && tile.vectors <= most && tile.terms <= bytes;
  const std::int64_t terms = tile.terms > 0 ? tile.terms : usual_terms;
  if (!small || tile.rows * tile.vectors + tile.rows + tile.vectors > registers) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("contraction_tile has {} rows of {} results for a thread; they and a "
                            "row and a column more are to fit {} registers: choose fewer",
                            tile.rows, tile.vectors, registers));
  }
  const std::int64_t side = side_threads * (tile.rows + tile.vectors) + 2;
  if (terms > bytes / (8 * side)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("contraction_tile has {} terms at a time; for {} rows of {} results, {} "
                    "fit the memory of a group: choose fewer",
                    terms, tile.rows, tile.vectors, bytes / (8 * side)));
  }
}

std::optional<Block> schedule_contraction_on_gpu(Scheduling& in, const StmtPtr& nest) {
  const std::optional<Contraction> c = find_contraction(in.lowered.loop, nest);
  if (!c || !c->row) return std::nullopt;
  return GroupTiles(in, *c).build();
}

}  // namespace heddle::jit
