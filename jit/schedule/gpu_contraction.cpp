// See gpu_contraction.hpp. Tiles in registers and shared memory: V. Volkov, J. Demmel,
// "Benchmarking GPUs to tune dense linear algebra" (SC 2008).
#include "jit/schedule/gpu_contraction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "heddle/status.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/loop/wide_access.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/contraction_tile.hpp"
#include "jit/schedule/gpu_sums.hpp"
#include "jit/schedule/gpu_wide.hpp"
#include "jit/schedule/tiles.hpp"

namespace heddle::jit {
namespace {

/// Threads of a group along each side of a tile: 256 in total.
constexpr std::int64_t side_threads = 16;
/// Terms per block that a group shares, unless the user asked for a number.
constexpr std::int64_t usual_terms = 16;

/// Tiles along one side: `count` tiles from `offset` on, of `threads` threads with `each` elements
/// per thread. Pieces of `at_once` neighbours are a thread's; neighbouring threads have
/// neighbouring pieces.
struct Side {
  std::int64_t offset = 0, count = 0, threads = 0, each = 0, at_once = 1;
  [[nodiscard]] std::int64_t size() const { return threads * each; }
};

/// Whole tiles, or a tile of fewer threads where no whole tile fits; then the remaining elements in
/// as many threads as possible; then the last remainder. Threads take `wide` neighbours at once, or
/// as many as divide their elements.
std::vector<Side> sides_of(std::int64_t extent, std::int64_t each, std::int64_t wide) {
  std::vector<Side> sides;
  std::int64_t offset = 0;
  const auto add = [&](std::int64_t count, std::int64_t threads, std::int64_t elements) {
    if (count == 0 || threads == 0 || elements == 0) return;
    sides.push_back({offset, count, threads, elements, std::gcd(elements, wide)});
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
    const std::int64_t wide = wide_bytes_max / static_cast<std::int64_t>(size_of(c_.type));
    for (const Side& row : sides_of(rows, tile.rows, wide)) {
      for (const Side& lane : sides_of(lanes, tile.vectors, wide)) {
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
    places_.clear();
    do {
      const Shared a = shared(body, row_, c_.a_is_contiguous);
      places_.emplace_back(a, shared(body, lane_, !c_.b_is_contiguous));
    } while (places_.size() < 2 && terms_.to > block_terms_ &&
             2 * block_bytes(Block{body.end() - 2, body.end()}) <= group_bytes_max);
    Block terms = all_terms();
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

  /// Reads and multiplies all terms, block by block. With two places for a block, the next block is
  /// read while the present one is multiplied.
  Block all_terms() {
    const std::int64_t size = block_terms_, whole = terms_.to / size, rest = terms_.to % size;
    Block made;
    if (places_.size() == 1) {
      if (whole > 0) {
        const VarId block = in_.fresh.var();
        Block body;
        read(body, 0, affine_var(block, size), size);
        multiply(body, 0, size);
        made.push_back(make_loop(block, 0, whole, std::move(body)));
      }
      if (rest > 0) {
        read(made, 0, Affine{whole * size, {}}, rest);
        multiply(made, 0, rest);
      }
      return made;
    }
    read(made, 0, {}, size);
    const std::int64_t pairs = (whole - 1) / 2;
    if (pairs > 0) {
      const VarId pair = in_.fresh.var();
      Block body;
      for (const std::size_t place : {0U, 1U}) {
        const auto next = static_cast<std::int64_t>(place + 1) * size;
        read(body, 1 - place, affine_add(affine_var(pair, 2 * size), Affine{next, {}}), size);
        multiply(body, place, size);
      }
      made.push_back(make_loop(pair, 0, pairs, std::move(body)));
    }
    std::size_t place = 0;  // of the last block that was read
    const auto then = [&](std::int64_t first, std::int64_t count) {
      read(made, 1 - place, Affine{first, {}}, count);
      multiply(made, place, size);
      place = 1 - place;
    };
    if (2 * pairs + 1 < whole) then((2 * pairs + 1) * size, size);
    if (rest > 0) then(whole * size, rest);
    multiply(made, place, rest > 0 ? rest : size);
    return made;
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
      return each_element(row_, y, LoopMark::unroll, [&](const Affine& row, const Affine& r) {
        const auto lanes = [&](LoopMark mark) {
          return each_element(lane_, x, mark, [&](const Affine& lane, const Affine& l) {
            Where where = outside_;
            where[c_.row->var] = affine_add(first_row_, row);
            where[c_.lane->var] = affine_add(first_lane_, lane);
            return body(where, std::vector{y, x, r, l});
          });
        };
        Block wide = lanes(LoopMark::lanes);
        return lanes_are_wide(wide) ? wide : lanes(LoopMark::unroll);
      });
    });
  }
  /// body(place, number) for each element of a thread along a side: its place in the group's tile,
  /// and its number among the thread's. Loops over pieces have the mark `at_once`.
  template <class Body>
  Block each_element(const Side& side, const Affine& thread, LoopMark at_once, const Body& body) {
    const VarId piece = in_.fresh.var(), lane = in_.fresh.var();
    const std::int64_t wide = side.at_once, pieces = side.each / wide;
    Affine place = affine_scale(thread, wide), number;
    if (pieces > 1) {
      place = affine_add(place, affine_var(piece, side.threads * wide));
      number = affine_var(piece, wide);
    }
    if (wide > 1) {
      place = affine_add(place, affine_var(lane));
      number = affine_add(number, affine_var(lane));
    }
    Block made = body(place, number);
    if (wide > 1) made = {make_loop(lane, 0, wide, std::move(made), at_once)};
    if (pieces > 1) made = {make_loop(piece, 0, pieces, std::move(made), LoopMark::unroll)};
    return made;
  }
  /// True if all lanes loops of the block are legal, and access neighbours at once.
  [[nodiscard]] bool lanes_are_wide(const Block& block) const {
    return std::ranges::all_of(block, [this](const StmtPtr& stmt) {
      return stmt->mark == LoopMark::lanes ? accesses_are_wide(in_.lowered.loop, stmt)
                                           : lanes_are_wide(stmt->body);
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
    // Neighbouring threads store a column: the padding puts its elements into different banks, and
    // keeps the alignment of pieces.
    const std::int64_t padded = side.size() + (along_terms ? side.at_once : 0);
    body.push_back(make_declare(made.block, make_constant(Scalar::of_float(c_.type, 0)),
                                {std::min(block_terms_, terms_.to), padded}));
    return made;
  }

  /// Reads the `count` terms of a block from `first` on.
  void read(Block& body, std::size_t place, const Affine& first, std::int64_t count) {
    const auto& [a, b] = places_[place];
    read(body, a, c_.a, c_.row->var, first_row_, row_, first, count);
    read(body, b, c_.b, c_.lane->var, first_lane_, lane_, first, count);
  }
  /// Adds the products of a block of `count` terms to the sums.
  void multiply(Block& body, std::size_t place, std::int64_t count) {
    const Shared a = places_[place].first, b = places_[place].second;
    body.push_back(each_thread([&](const Affine& y, const Affine& x) {
      const VarId k = in_.fresh.var();
      Block step;
      const LocalId rows = taken(step, a, affine_var(k), y, row_);
      const LocalId lanes = taken(step, b, affine_var(k), x, lane_);
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
  }

  /// Copies the elements of a term that a thread multiplies to registers.
  LocalId taken(Block& step, const Shared& from, const Affine& term, const Affine& thread,
                const Side& side) {
    const LocalId made = in_.fresh.local();
    step.push_back(make_declare(made, make_constant(Scalar::of_float(c_.type, 0)), {side.each}));
    append(step,
           each_element(side, thread, LoopMark::lanes, [&](const Affine& at, const Affine& number) {
             return Block{make_assign(made, make_local(from.block, c_.type, {term, at}), {number})};
           }));
    return made;
  }

  void read(Block& body, const Shared& to, const ValuePtr& factor, VarId var,
            const Affine& first_of_side, const Side& side, const Affine& first,
            std::int64_t count) {
    const std::int64_t fast = to.along_terms ? count : side.size();
    const auto with = [&](std::int64_t wide) {
      return read_pieces(to, factor, var, first_of_side, side, first, count, wide);
    };
    const Block copy{make_assign(to.block, factor)};
    const VarId along = to.along_terms ? terms_.var : var;
    // A column is copied element by element: such copies go on while the threads multiply.
    const bool alone = to.along_terms && factor->kind == ValueKind::load;
    const std::int64_t most =
        alone ? 1 : wide_bytes_max / static_cast<std::int64_t>(size_of(c_.type));
    const std::int64_t wide =
        std::gcd(fast, std::min(neighbours_at_once(in_.lowered.loop, copy, along), most));
    StmtPtr made = with(wide);
    body.push_back(lanes_are_wide({made}) ? std::move(made) : with(1));
  }

  /// The threads read pieces of `wide` neighbours.
  StmtPtr read_pieces(const Shared& to, const ValuePtr& factor, VarId var,
                      const Affine& first_of_side, const Side& side, const Affine& first,
                      std::int64_t count, std::int64_t wide) {
    const bool along_terms = to.along_terms;
    const std::int64_t fast = (along_terms ? count : side.size()) / wide;
    const std::int64_t slow = along_terms ? side.size() : count;
    const std::int64_t all = row_.threads * lane_.threads;
    const std::int64_t inner = largest_divisor(fast, std::min(all, warp_threads));
    const std::int64_t outer = largest_divisor(slow, all / inner);
    return threads(outer, inner, [&](const Affine& y, const Affine& x) {
      const VarId s = in_.fresh.var();
      const Affine at_slow = affine_add(y, affine_var(s, outer));
      const Block pieces =
          each_element({0, 1, inner, fast / inner * wide, wide}, x, LoopMark::lanes,
                       [&](const Affine& at_fast, const Affine&) {
                         const Affine& term = along_terms ? at_fast : at_slow;
                         const Affine& place = along_terms ? at_slow : at_fast;
                         Where where = outside_;
                         where[var] = affine_add(first_of_side, place);
                         where[terms_.var] = affine_add(first, term);
                         return Block{make_assign(
                             to.block, substitute(factor, {where, {}, {}, {}, {}}), {term, place})};
                       });
      return Block{make_loop(s, 0, slow / outer, pieces, LoopMark::unroll)};
    });
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
  /// The group's copies of a block of terms of both factors, at one or two places.
  std::vector<std::pair<Shared, Shared>> places_;
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
