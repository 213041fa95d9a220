// Transposes and other permutations, with any elementwise code around them: elements that are
// contiguous in the written memory are strided in some memory that is read. Blocks of the read
// memory are read along their rows and used along their columns. Pure; any thread.
#include <fmt/format.h>

#include <algorithm>

#include "jit/loop/address.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/schedule/transpose.hpp"
#include "jit/value/int128.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// Bytes of each row that are read at a time. As many rows are written as a page has elements, each
/// in a separate page; second-level TLBs hold so many pages.
constexpr std::int64_t page_bytes = 4096;
/// Bytes of a row whose functions are computed ahead at a time: a strip of such rows, 16 KiB where
/// elements have four bytes, stays in the first-level cache.
constexpr std::int64_t computed_bytes = 1024;
/// A strip takes as many blocks of memory.
constexpr std::size_t computed_max = 2;

class Turned {
 public:
  Turned(Scheduling& in, const Transpose& what) : in_(in), what_(what) {
    size_ = 1;
    for (const ValuePtr& value : what.turned)
      size_ = std::max(size_, static_cast<std::int64_t>(size_of(value->dtype)));
    rows_ = cache_line_bytes / size_;
    columns_ = in.target.vector_bytes() / size_;
    in_registers_ = runs_in_registers();
    if (!in_registers_ && !what.computed.empty() && what.computed.size() <= computed_max) {
      what_.turned = what.computed;
      computes_ = true;
      in_registers_ = runs_in_registers();
    }
    if (!in_registers_) columns_ = rows_;
  }

  std::optional<Block> build() {
    const Int128 bytes = Int128{size_} * extent(what_.along) * extent(what_.across);
    if (!in_registers_ && bytes <= in_.target.l1_bytes) return std::nullopt;
    Block result{make_comment(fmt::format("transpose: blocks of {} x {} turned in {}", rows_,
                                          columns_, in_registers_ ? "registers" : "cache"))};
    if (!in_registers_) declare(rows_, columns_, result);
    Block tiled = tiles();
    for (auto each = what_.loops.rbegin(); each != what_.loops.rend(); ++each) {
      if (*each != what_.along && *each != what_.across)
        tiled = {make_loop((*each)->var, (*each)->from, (*each)->to, std::move(tiled))};
    }
    result.insert(result.end(), tiled.begin(), tiled.end());
    return result;
  }

 private:
  /// A range of a loop.
  struct Range {
    Affine from;
    std::int64_t extent = 0;
  };

  /// `body` for each tile of at most `size` elements.
  template <class Body>
  Block each_tile(const Range& range, std::int64_t size, const Body& body,
                  LoopMark mark = LoopMark::serial) {
    Block result;
    for (const Segment& segment : whole_tiles(range.extent, size)) {
      const Affine from = affine_add(range.from, Affine{segment.offset, {}});
      if (segment.count == 1) {
        const Block tile = body(Range{from, segment.size});
        result.insert(result.end(), tile.begin(), tile.end());
      } else {
        const VarId var = in_.fresh.var();
        const Affine at = affine_add(from, affine_var(var, segment.size));
        result.push_back(make_loop(var, 0, segment.count, body(Range{at, segment.size}), mark));
      }
    }
    return result;
  }

  Block tiles() {
    const Range along{Affine{what_.along->from, {}}, extent(what_.along)};
    const Range across{Affine{what_.across->from, {}}, extent(what_.across)};
    Int128 bytes = size_;
    for (const StmtPtr& each : what_.loops) bytes *= extent(each);
    const bool large = bytes > in_.target.l2_bytes && writes_whole_lines() && is_cheap();
    const std::int64_t strip = large ? in_.target.profile.lines_written * rows_ : rows_;
    // Each load of a strip is then a separate instruction, whose addresses move evenly: prefetchers
    // that track instructions follow it.
    const LoopMark mark = in_registers_ && is_cheap() ? LoopMark::unroll : LoopMark::serial;
    if (computes_) {
      return each_tile(along, rows_, [&](const Range& lines) {
        return each_tile(across, computed_bytes / size_,
                         [&](const Range& page) { return computed_and_turned(lines, page); });
      });
    }
    // The last strip prefetches beyond the rows that are read, by at most the number of rows that
    // there are.
    const bool fetches =
        large && in_registers_ && columns_ % lines_fetched() == 0 && along.extent >= 2 * strip;
    return each_tile(across, page_bytes / size_, [&](const Range& page) {
      return each_tile(along, strip, [&](const Range& lines) {
        if (!fetches) return turned(lines, page, mark);
        if (lines.extent != strip) return turned(lines, page, LoopMark::serial);
        const std::int64_t whole = page.extent / tile_columns() * tile_columns();
        Block result = whole > 0 ? turned_and_fetched(lines, {page.from, whole}) : Block{};
        const Affine rest = affine_add(page.from, Affine{whole, {}});
        const Block other = turned(lines, {rest, page.extent - whole}, LoopMark::serial);
        result.insert(result.end(), other.begin(), other.end());
        return result;
      });
    });
  }

  Block turned(const Range& lines, const Range& page, LoopMark mark) {
    return each_tile(page, columns_, [&](const Range& columns) {
      const auto turn = [&](const Range& rows) { return block(rows, columns); };
      return each_tile(lines, rows_, turn, mark);
    });
  }

  /// Computes functions of a strip along the rows of the memory that lies across, where compilers
  /// make vectors of functions that lanes cannot compute, and then turns their results.
  Block computed_and_turned(const Range& lines, const Range& page) {
    Block result = begin_strip(lines, page);
    const VarId row = in_.fresh.var();
    const VarId column = in_.fresh.var();
    Substitution by;
    by.vars[what_.along->var] = affine_add(lines.from, affine_var(row));
    by.vars[what_.across->var] = affine_add(page.from, affine_var(column));
    Block values;
    for (std::size_t k = 0; k < what_.turned.size(); ++k) {
      values.push_back(make_assign(strip_.values[k], substitute(what_.turned[k], by),
                                   {affine_var(row), affine_var(column)}));
    }
    result.push_back(
        make_loop(row, 0, lines.extent, {make_loop(column, 0, page.extent, std::move(values))}));
    append(result, turned(lines, page, LoopMark::serial));
    return result;
  }

  /// Declares the blocks of memory for a strip.
  Block begin_strip(const Range& lines, const Range& page) {
    strip_ = {affine_scale(lines.from, -1), affine_scale(page.from, -1), {}};
    Block result;
    for (const ValuePtr& value : what_.turned) {
      strip_.values.push_back(in_.fresh.local());
      result.push_back(make_declare(strip_.values.back(),
                                    make_constant(Scalar::of_int(value->dtype, 0)),
                                    {lines.extent, page.extent}));
    }
    return result;
  }

  /// Lines of a row fetched together: memory is faster with several lines of a row than with single
  /// lines, as for written strips.
  std::int64_t lines_fetched() const { return in_.target.profile.lines_fetched; }
  std::int64_t tile_columns() const { return lines_fetched() * rows_; }

  /// A strip in tiles. Each tile prefetches the next one a few lines at a time, so that the next
  /// tile's rows are read in order, by more than a line. The last tile prefetches the first tile of
  /// the next strip.
  Block turned_and_fetched(const Range& lines, const Range& page) {
    const std::int64_t before = page.extent / tile_columns() - 1;
    Block result;
    if (before > 0) {
      const VarId var = in_.fresh.var();
      const Affine from = affine_add(page.from, affine_var(var, tile_columns()));
      const Affine next = affine_add(from, Affine{tile_columns(), {}});
      result.push_back(
          make_loop(var, 0, before, {tile(lines, from, lines.from, next, LoopMark::unroll)}));
    }
    const Affine last = affine_add(page.from, Affine{before * tile_columns(), {}});
    const Affine next_strip = affine_add(lines.from, Affine{lines.extent, {}});
    result.push_back(tile(lines, last, next_strip, page.from, LoopMark::serial));
    return result;
  }

  StmtPtr tile(const Range& lines, const Affine& from, const Affine& next_row,
               const Affine& next_column, LoopMark mark) {
    const VarId column = in_.fresh.var();
    const VarId row = in_.fresh.var();
    const std::int64_t blocks = lines.extent / rows_;
    const std::int64_t fetched = columns_ / lines_fetched();  // rows fetched by each block
    Affine first = affine_add(next_row, affine_var(column, blocks * fetched));
    first = affine_add(first, affine_var(row, fetched));
    Block body = fetch({first, fetched}, next_column);
    const Block block_of = block({affine_add(lines.from, affine_var(row, rows_)), rows_},
                                 {affine_add(from, affine_var(column, columns_)), columns_});
    body.insert(body.end(), block_of.begin(), block_of.end());
    return make_loop(column, 0, tile_columns() / columns_,
                     {make_loop(row, 0, blocks, std::move(body), mark)});
  }

  /// Prefetches the lines of a tile in these rows.
  Block fetch(const Range& rows, const Affine& column) {
    const VarId row = in_.fresh.var();
    const VarId line = in_.fresh.var();
    Substitution at;
    at.vars[what_.along->var] = affine_add(rows.from, affine_var(row));
    at.vars[what_.across->var] = affine_add(column, affine_var(line, rows_));
    Block lines;
    for (const ValuePtr& read : what_.reads) {
      lines.push_back(
          make_prefetch(read->buffer, substitute(read, at)->subscripts, Prefetch::load_later));
    }
    return {make_loop(row, 0, rows.extent,
                      {make_loop(line, 0, lines_fetched(), std::move(lines), LoopMark::unroll)},
                      LoopMark::unroll)};
  }

  void declare(std::int64_t rows, std::int64_t columns, Block& to) {
    locals_.clear();
    for (const ValuePtr& value : what_.turned) {
      locals_.push_back(in_.fresh.local());
      to.push_back(make_declare(locals_.back(), make_constant(Scalar::of_int(value->dtype, 0)),
                                {rows, columns}));
    }
  }

  /// True if memory takes longer than the computation, and copies of the code are short.
  bool is_cheap() const {
    constexpr int cost_max = 4;
    int cost = 0;
    for (const StmtPtr& stmt : what_.loops.back()->body)
      if (stmt->value) cost += cost_of(*stmt->value, cost_max + 1);
    return cost <= cost_max;
  }

  /// True if rows begin at line boundaries.
  bool writes_whole_lines() const {
    const Loop& loop = in_.lowered.loop;
    return std::ranges::all_of(what_.loops.back()->body, [&](const StmtPtr& stmt) {
      if (stmt->kind != StmtKind::store) return true;
      const ArrayType& type = loop.buffers[stmt->buffer].type;
      const std::int64_t line = cache_line_bytes / static_cast<std::int64_t>(size_of(type.dtype));
      Affine start = split_lane(flatten(type, stmt->subscripts), what_.along->var).first;
      start.constant += what_.along->from;
      return start.constant % line == 0 &&
             std::ranges::all_of(start.terms, [line](const AffineTerm& term) {
               return term.coefficient % line == 0;
             });
    });
  }

  /// Prefetches, for writing, the lines that contain the ends of the block's rows: loading the
  /// block's columns takes long enough for the lines to arrive. Where lines are written whole, rows
  /// also begin in those lines; otherwise the previous block left the first line in the cache. Rows
  /// that are adjacent in memory need no prefetch.
  Block prefetched(const Range& rows, const Range& columns) {
    Block result;
    const VarId column = in_.fresh.var();
    Substitution at;
    at.vars[what_.along->var] = affine_add(rows.from, Affine{rows.extent - 1, {}});
    at.vars[what_.across->var] = affine_add(columns.from, affine_var(column));
    for (const StmtPtr& stmt : what_.loops.back()->body) {
      if (stmt->kind != StmtKind::store) continue;
      const std::int64_t row =
          stride(in_.lowered.loop, stmt->buffer, stmt->subscripts, what_.across->var);
      if (-rows_ <= row && row <= rows_) continue;
      const StmtPtr store = substitute(stmt, at);
      result.push_back(make_prefetch(store->buffer, store->subscripts, Prefetch::store));
    }
    if (result.empty()) return {};
    return {make_loop(column, 0, columns.extent, std::move(result),
                      in_registers_ ? LoopMark::unroll : LoopMark::serial)};
  }

  /// Computes the turned values, row by row of the memory that lies across, into local blocks, and
  /// then computes with the columns of the blocks.
  Block block(const Range& rows, const Range& columns) {
    const LoopMark outer = in_registers_ ? LoopMark::unroll : LoopMark::serial;
    const LoopMark inner = in_registers_ ? LoopMark::lanes : LoopMark::serial;
    Block result = prefetched(rows, columns);
    if (in_registers_) declare(rows.extent, columns.extent, result);
    const auto at = [&](VarId row, VarId column) {
      Substitution by;
      by.vars[what_.along->var] = affine_add(rows.from, affine_var(row));
      by.vars[what_.across->var] = affine_add(columns.from, affine_var(column));
      return by;
    };
    const VarId row = in_.fresh.var();
    const VarId column = in_.fresh.var();
    Block reads;
    for (std::size_t k = 0; k < what_.turned.size(); ++k) {
      const ValuePtr value =
          computes_
              ? make_local(
                    strip_.values[k], what_.turned[k]->dtype,
                    {affine_add(affine_add(rows.from, strip_.less_row), affine_var(row)),
                     affine_add(affine_add(columns.from, strip_.less_column), affine_var(column))})
              : substitute(what_.turned[k], at(row, column));
      reads.push_back(make_assign(locals_[k], value, {affine_var(row), affine_var(column)}));
    }
    result.push_back(make_loop(row, 0, rows.extent,
                               {make_loop(column, 0, columns.extent, std::move(reads), inner)},
                               outer));
    const VarId out_row = in_.fresh.var();
    const VarId out_column = in_.fresh.var();
    result.push_back(make_loop(
        out_column, 0, columns.extent,
        {make_loop(
            out_row, 0, rows.extent,
            with_blocks(at(out_row, out_column), {affine_var(out_row), affine_var(out_column)}),
            inner)},
        outer));
    return result;
  }

  /// The statements, with the turned values replaced by elements of the local blocks.
  Block with_blocks(const Substitution& by, const std::vector<Affine>& at) {
    Block body;
    for (const StmtPtr& stmt : what_.loops.back()->body) {
      if (!stmt->value) continue;
      const auto element = [&](std::size_t k) {
        return make_local(locals_[k], what_.turned[k]->dtype, at);
      };
      body.push_back(with_value(*stmt, with_turned(what_, stmt->value, element)));
    }
    return copied(in_, body, by);
  }

  bool runs_in_registers() {
    if (columns_ < 2) return false;
    in_registers_ = true;
    const Range rows{{}, std::min(rows_, extent(what_.along))};
    const Range columns{{}, std::min(columns_, extent(what_.across))};
    Block trial = computes_ ? begin_strip(rows, columns) : Block{};
    append(trial, block(rows, columns));
    if (!broken_mark(trial).empty()) return false;
    const LanePlan plan = plan_lanes(in_.lowered.loop.buffers, trial, in_.target);
    bool all = std::ranges::all_of(locals_, [&](LocalId id) { return plan.turned.contains(id); });
    walk(trial, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::loop && stmt.mark == LoopMark::lanes)
        all = all && plan.vectors.contains(stmt.var);
    });
    return all;
  }

  Scheduling& in_;
  Transpose what_;
  std::int64_t size_ = 1;  ///< bytes of the largest element that is turned
  /// Elements of a block: rows_ are contiguous in the written memory, columns_ in the read memory.
  std::int64_t rows_ = 0, columns_ = 0;
  bool in_registers_ = false;
  std::vector<LocalId> locals_;  ///< a block for each turned value
  bool computes_ = false;        ///< the turned values are computed ahead
  /// A strip that is computed ahead: its negated first row and column, and the values in memory.
  struct Strip {
    Affine less_row, less_column;
    std::vector<LocalId> values{};
  } strip_;
};

}  // namespace

std::optional<Block> schedule_transpose(Scheduling& in, const StmtPtr& nest) {
  const std::optional<Transpose> found = find_transpose(in.lowered.loop, nest);
  if (!found) return std::nullopt;
  return Turned(in, *found).build();
}

}  // namespace heddle::jit
