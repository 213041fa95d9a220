// See one_hot_sums.hpp.
#include "jit/schedule/one_hot_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "jit/loop/kernel_uses.hpp"
#include "jit/schedule/lanes.hpp"
#include "jit/schedule/terms.hpp"
#include "jit/schedule/tiles.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// Fewer columns are faster as a product: of terms that are added one by one, where these and their
/// places have 32 bits, and where one of them has not; and of rows that are added by vectors.
constexpr std::int64_t columns_min = 12;
constexpr std::int64_t other_columns_min = 3;
constexpr std::int64_t columns_of_rows_min = 8;
constexpr std::int64_t row_min = 8;  ///< elements of a row for vectors
/// Sums of fewer terms are faster as a product: all columns are written several times.
constexpr std::int64_t terms_min = 64;
/// Terms whose NaN an f32 counts.
constexpr std::int64_t counted_max = 1 << 24;
/// Terms of a block of a floating sum, at least, and at least as many for each column.
constexpr std::int64_t block_terms_min = 1024;
constexpr std::int64_t block_terms_of_column = 8;

using Loops = std::vector<StmtPtr>;
using Vars = std::set<VarId>;

Vars vars_in(const Affine& index) {
  Vars vars;
  for (const AffineTerm& term : index.terms) {
    if (term.kind == AffineTerm::Kind::loop) vars.insert(term.id);
  }
  return vars;
}
Vars vars_in(const Value& value) {
  Vars vars;
  walk(value, [&](const Value& v) {
    vars.merge(vars_in(v.index));
    for (const Affine& index : v.subscripts) vars.merge(vars_in(index));
  });
  return vars;
}
std::set<BufferId> buffers_of(const Value& value) {
  std::set<BufferId> buffers;
  walk(value, [&](const Value& v) {
    if (v.kind == ValueKind::load) buffers.insert(v.buffer);
  });
  return buffers;
}
bool has_local(const Value& value) {
  bool found = false;
  walk(value, [&](const Value& v) { found = found || v.kind == ValueKind::local; });
  return found;
}

ValuePtr make_number(DType type, int number) {
  return make_constant(is_floating(type) ? Scalar::of_float(type, number)
                                         : Scalar::of_int(type, number));
}
bool is_number(const Value& value, int number) {
  return value.kind == ValueKind::constant && equal(value, *make_number(value.dtype, number));
}

/// The highest value of an integer type that i64 has, too.
std::int64_t highest_of(DType type) {
  const int bits = static_cast<int>(8 * size_of(type)) - (info(type).is_signed ? 1 : 0);
  return bits >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1;
}

/// The column of a matrix of ones and zeros.
struct Column {
  VarId var = 0;
  std::int64_t highest = 0;  ///< that its types have
};

/// The variable whose value this is, converted or not.
std::optional<Column> match_index(const Value& value) {
  const Value* at = &value;
  Column column{0, std::numeric_limits<std::int64_t>::max()};
  for (; at->kind == ValueKind::cast && is_integer(at->dtype); at = at->args[0].get())
    column.highest = std::min(column.highest, highest_of(at->dtype));
  if (at->kind != ValueKind::embed || at->index.terms.size() != 1) return std::nullopt;
  column.var = at->index.terms[0].id;
  return at->index == affine_var(column.var) ? std::optional(column) : std::nullopt;
}

/// The computation of an element of scratch that a single statement assigns, element by element.
struct Element {
  std::vector<VarId> axes;
  ValuePtr value;
};

/// The elements of scratch that may be computed anywhere behind their statements, since nothing
/// assigns again what they read.
class Elements {
 public:
  explicit Elements(const KernelUses& uses) {
    for (std::uint32_t slot = 0; slot < uses.loop().body.size(); ++slot)
      note(uses, uses.loop().body[slot]);
  }

  /// The value with the element itself instead of a load of the element; the value where nothing
  /// is known.
  [[nodiscard]] ValuePtr written_out(const ValuePtr& value) const {
    if (value->kind != ValueKind::load) return value;
    const auto known = known_.find(value->buffer);
    if (known == known_.end() || known->second.axes.size() != value->subscripts.size())
      return value;
    Substitution by;
    for (std::size_t axis = 0; axis < value->subscripts.size(); ++axis)
      by.vars[known->second.axes[axis]] = value->subscripts[axis];
    return written_out(substitute(known->second.value, by));
  }

 private:
  void note(const KernelUses& uses, const StmtPtr& nest) {
    Vars loops;
    const Stmt* at = nest.get();
    for (; at->kind == StmtKind::loop && at->body.size() == 1; at = at->body[0].get())
      loops.insert(at->var);
    if (at->kind != StmtKind::store || uses.loop().buffers[at->buffer].role != Role::scratch ||
        uses.writers(at->buffer).size() != 1)
      return;
    Element element{{}, at->value};
    for (const Affine& index : at->subscripts) {
      const Vars own = vars_in(index);
      if (own.size() != 1 || index != affine_var(*own.begin()) || loops.erase(*own.begin()) == 0)
        return;
      element.axes.push_back(*own.begin());
    }
    const auto stays = [&](BufferId buffer) {
      return uses.writers(buffer).empty() || known_.contains(buffer);
    };
    if (loops.empty() && !has_local(*at->value) &&
        std::ranges::all_of(buffers_of(*at->value), stays))
      known_[at->buffer] = std::move(element);
  }

  std::map<BufferId, Element> known_;
};

/// Without bounds beyond the columns, which no position needs: v of max(min(v, 64), -1), converted
/// to a type that has the bounds, or not.
ValuePtr without_bounds(const ValuePtr& place, std::int64_t columns) {
  const bool converts = place->kind == ValueKind::cast;
  ValuePtr at = converts ? place->args[0] : place;
  if (!is_integer(at->dtype) || !is_integer(place->dtype)) return place;
  const std::int64_t highest = highest_of(place->dtype);
  bool has_least = !info(at->dtype).is_signed, has_most = false;
  const auto bound = [&](Op op) -> std::optional<std::int64_t> {
    const bool is_bound =
        at->kind == ValueKind::op && at->op == op && at->args[1]->kind == ValueKind::constant;
    return is_bound ? std::optional(at->args[1]->scalar.i) : std::nullopt;
  };
  if (bound(Op::max) == -1 && info(place->dtype).is_signed) {
    at = at->args[0];
    has_least = true;
  }
  if (const auto most = bound(Op::min); most && *most >= columns && *most <= highest) {
    at = at->args[0];
    has_most = true;
  }
  return !converts || (has_least && has_most) ? at : place;
}

/// A sum whose terms are x where place == column, and otherwise 0 or 0 * x.
struct OneHotSum {
  Reduction sum;
  ValuePtr x, place;
  Column column{};
  bool keeps_nan = false;  ///< 0 * x may be NaN
};

/// place, column: of a condition place == column.
std::optional<std::pair<ValuePtr, Column>> match_condition(const Value& value,
                                                           const Elements& elements) {
  if (value.kind != ValueKind::op || value.op != Op::eq) return std::nullopt;
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}}) {
    const std::optional<Column> column = match_index(*value.args[k]);
    ValuePtr place = elements.written_out(value.args[1 - k]);
    if (column && is_integer(place->dtype)) return std::pair(std::move(place), *column);
  }
  return std::nullopt;
}

/// The same of where(condition, 1, 0), or of the condition as a number.
std::optional<std::pair<ValuePtr, Column>> match_one_hot(const ValuePtr& value,
                                                         const Elements& elements) {
  const ValuePtr whole = elements.written_out(value);
  const bool selects = whole->kind == ValueKind::op && whole->op == Op::where &&
                       is_number(*whole->args[1], 1) && is_number(*whole->args[2], 0);
  if (!selects && whole->kind != ValueKind::cast) return std::nullopt;
  return match_condition(*whole->args[0], elements);
}

/// True if the value may be infinite or NaN.
bool may_be_infinite(const Value& value) {
  if (!is_floating(value.dtype)) return false;
  if (value.kind == ValueKind::cast) return is_floating(value.args[0]->dtype);
  return value.kind != ValueKind::constant || !std::isfinite(value.scalar.f);
}

std::optional<OneHotSum> match_sum(const StmtPtr& declare, const StmtPtr& nest,
                                   const Elements& elements) {
  const Block whole = with_whole_terms({nest});
  std::optional<Reduction> sum = match_reduction(declare, whole[0]);
  if (!sum || sum->op != Op::add) return std::nullopt;
  const ValuePtr term = sum->term;
  OneHotSum found{std::move(*sum), nullptr, nullptr, {}, false};
  const auto take = [&](const std::optional<std::pair<ValuePtr, Column>>& matched, ValuePtr x) {
    if (!matched) return false;
    found.place = matched->first;
    found.column = matched->second;
    found.x = std::move(x);
    return true;
  };
  const bool is_op = term->kind == ValueKind::op;
  if (take(match_one_hot(term, elements), make_number(term->dtype, 1)) ||
      (is_op && term->op == Op::where && is_number(*term->args[2], 0) &&
       take(match_condition(*term->args[0], elements), term->args[1])))
    return found;
  if (!is_op || term->op != Op::mul) return std::nullopt;
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}}) {
    if (!take(match_one_hot(term->args[k], elements), term->args[1 - k])) continue;
    found.keeps_nan = may_be_infinite(*found.x);
    return found;
  }
  return std::nullopt;
}

/// Writes the statements of a sum at places. The sums of all columns lie in scratch.
class PlacesMaker {
 public:
  /// `around`: the loops around the sum.
  PlacesMaker(Scheduling& in, const OneHotSum& found, const Loops& around)
      : in_(in), found_(found), type_(found.sum.declare->value->dtype) {
    const Vars of_place = vars_in(*found.place), of_x = vars_in(*found.x);
    Loops rows;
    for (const StmtPtr& loop : around) {
      if (loop->var == found.column.var) column_ = loop;
      if (of_place.contains(loop->var)) outer_.push_back(loop);
      if (of_x.contains(loop->var) && !of_place.contains(loop->var)) rows.push_back(loop);
    }
    // Rows of x that lie along memory are added as rows; others one by one.
    Loops& to = !rows.empty() && lies_along(rows.back()->var) ? rows_ : outer_;
    std::ranges::move(rows, std::back_inserter(to));
    if (!column_) return;
    places_ = make_loop(in.fresh.var(), 0, extent(column_) + 1, {});
    found_.place = without_bounds(found_.place, extent(column_));
  }

  /// True if the sum can be taken so, and is worth it.
  [[nodiscard]] bool fits() const {
    const Vars of_x = vars_in(*found_.x), of_place = vars_in(*found_.place);
    const Column& column = found_.column;
    if (!column_ || of_x.contains(column.var) || of_place.contains(column.var)) return false;
    if (extent(column_) - 1 > column.highest) return false;
    if (has_local(*found_.x) || has_local(*found_.place)) return false;
    std::int64_t all = 1;
    for (const StmtPtr& loop : found_.sum.loops) {
      if (all > counted_max / extent(loop)) return false;
      all *= extent(loop);
    }
    if (all < terms_min) return false;
    const bool by_rows = !rows_.empty() && extent(rows_.back()) >= row_min;
    return extent(column_) >= (by_rows             ? columns_of_rows_min
                               : has_other_sizes() ? other_columns_min
                                                   : columns_min);
  }

  /// The value at which the sum begins instead: all of it.
  [[nodiscard]] ValuePtr make(Block& before) {
    store_terms(before);
    const BufferId sums = in_.add_scratch("sums at places", type_, dims_of(outer_, true, rows_));
    append(before, all_sums(sums));
    ValuePtr value = make_load(sums, type_, subscripts_of(outer_, affine_var(column_->var), rows_));
    const ValuePtr& start = found_.sum.declare->value;
    if (!is_number(*start, 0)) value = make_op(Op::add, {start, value});
    if (!found_.keeps_nan) return value;
    return with_nan(before, sums, value);
  }

 private:
  static std::int64_t extent(const StmtPtr& loop) { return loop->to; }

  /// True if terms, or places in memory, have another size than 32 bits.
  [[nodiscard]] bool has_other_sizes() const {
    bool are_other = size_of(type_) != 4;
    walk(*found_.place, [&](const Value& v) {
      are_other = are_other || (v.kind == ValueKind::load && size_of(v.dtype) != 4);
    });
    return are_other;
  }

  /// True if every load of x that the variable moves reads along memory.
  [[nodiscard]] bool lies_along(VarId var) const {
    bool along = true;
    walk(*found_.x, [&](const Value& v) {
      if (v.kind != ValueKind::load) return;
      const std::int64_t step = stride(in_.lowered.loop, v.buffer, v.subscripts, var);
      along = along && (step == 0 || step == 1);
    });
    return along;
  }

  [[nodiscard]] Dims dims_of(const Loops& outer, bool places, const Loops& rows) const {
    Dims dims;
    for (const StmtPtr& loop : outer) dims.push_back(extent(loop));
    if (places) dims.push_back(extent(places_));
    for (const StmtPtr& loop : rows) dims.push_back(extent(loop));
    return dims;
  }
  static std::vector<Affine> subscripts_of(const Loops& outer, std::optional<Affine> column,
                                           const Loops& rows) {
    std::vector<Affine> at;
    for (const StmtPtr& loop : outer) at.push_back(affine_var(loop->var));
    if (column) at.push_back(std::move(*column));
    for (const StmtPtr& loop : rows) at.push_back(affine_var(loop->var));
    return at;
  }

  static Block around(const Loops& loops, Block body) {
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop)
      body = {with_body(**loop, std::move(body))};
    return body;
  }
  /// The statements with own names.
  [[nodiscard]] Block own(const Block& body) const {
    return with_own_names(in_.fresh, body, Substitution());
  }

  /// Computes x once where it is more than a load: loops at places are no vector code.
  void store_terms(Block& before) {
    const Value* inner = found_.x.get();
    while (inner->kind == ValueKind::cast) inner = inner->args[0].get();
    if (inner->kind != ValueKind::op) return;
    const Vars vars = vars_in(*found_.x);
    Loops loops = outer_;
    loops.insert(loops.end(), found_.sum.loops.begin(), found_.sum.loops.end());
    loops.insert(loops.end(), rows_.begin(), rows_.end());
    std::erase_if(loops, [&](const StmtPtr& loop) { return !vars.contains(loop->var); });
    const BufferId terms = in_.add_scratch("terms", found_.x->dtype, dims_of(loops, false, {}));
    const std::vector<Affine> at = subscripts_of(loops, {}, {});
    append(before, own(around(loops, {make_store(terms, at, found_.x)})));
    found_.x = make_load(terms, found_.x->dtype, at);
  }

  /// for each place and row element: buffer = value, or buffer += value
  [[nodiscard]] Block for_all(BufferId buffer, const Loops& outer, const ValuePtr& value,
                              bool adds) const {
    Loops loops{places_};
    loops.insert(loops.end(), rows_.begin(), rows_.end());
    const std::vector<Affine> at = subscripts_of(outer, affine_var(places_->var), rows_);
    const ValuePtr next = adds ? make_op(Op::add, {make_load(buffer, type_, at), value}) : value;
    return own(around(loops, {make_store(buffer, at, next)}));
  }

  /// Adds the terms of `count` iterations of the outermost loop of the sum from `first` on.
  [[nodiscard]] Block terms(BufferId sums, const Loops& outer, const ValuePtr& term,
                            const Affine& first, std::int64_t count) const {
    const VarId place = in_.fresh.var();
    const std::vector<Affine> at = subscripts_of(outer, affine_var(place), rows_);
    Block body =
        around(rows_, {make_store(sums, at, make_op(Op::add, {make_load(sums, type_, at), term}))});
    // As an unsigned number, every place without a column is beyond the columns.
    const ValuePtr unsigned_place = make_cast(found_.place, DType::u64);
    body = {make_at(place, 0, extent(places_), unsigned_place, true, std::move(body))};
    const Loops& loops = found_.sum.loops;
    body = around(Loops(loops.begin() + 1, loops.end()), std::move(body));
    const VarId var = in_.fresh.var();
    Substitution by;
    by.vars[loops[0]->var] = affine_add(first, affine_var(var));
    for (StmtPtr& stmt : body) stmt = substitute(stmt, by);
    return own({make_loop(var, 0, count, std::move(body))});
  }

  /// The sums of all columns. Floating sums of many terms are taken in blocks, as exact as a
  /// product's.
  [[nodiscard]] Block all_sums(BufferId sums) {
    const Loops& loops = found_.sum.loops;
    const std::int64_t all = extent(loops[0]);
    std::int64_t inner = 1;
    for (std::size_t k = 1; k < loops.size(); ++k) inner *= extent(loops[k]);
    const std::int64_t terms_of_block =
        std::max(block_terms_min, block_terms_of_column * extent(column_));
    const std::int64_t each = std::max<std::int64_t>(1, terms_of_block / inner);
    const ValuePtr zero = make_number(type_, 0);
    Block body = for_all(sums, outer_, zero, false);
    std::string about = "sums at places";
    if (!is_floating(type_) || all <= each) {
      append(body, terms(sums, outer_, found_.x, Affine(), all));
    } else {
      about += fmt::format(", {} terms at a time", each * inner);
      const BufferId block = in_.add_scratch("sums of a block", type_, dims_of({}, true, rows_));
      const std::vector<Affine> at = subscripts_of({}, affine_var(places_->var), rows_);
      for (const Segment& segment : whole_tiles(all, each)) {
        const VarId number = in_.fresh.var();
        const Affine first =
            affine_add(affine_var(number, segment.size), Affine{segment.offset, {}});
        Block one = for_all(block, {}, zero, false);
        append(one, terms(block, {}, found_.x, first, segment.size));
        append(one, for_all(sums, outer_, make_load(block, type_, at), true));
        body.push_back(make_loop(number, 0, segment.count, std::move(one)));
      }
    }
    const StmtPtr comment = make_comment(about, is_floating(type_) ? about : std::string());
    Block result{comment};
    append(result, own(around(outer_, std::move(body))));
    return result;
  }

  /// The value, or NaN for a column with terms 0 * x that are NaN: where x is infinite or NaN more
  /// often than in the column. Only sums that are infinite or NaN have such terms, so terms are
  /// counted only then.
  [[nodiscard]] ValuePtr with_nan(Block& before, BufferId sums, const ValuePtr& value) {
    const ValuePtr zero = make_number(type_, 0);
    const auto none = [&](const ValuePtr& x) { return make_op(Op::mul, {x, zero}); };
    const auto is_zero = [&](const ValuePtr& x) { return make_op(Op::eq, {x, zero}); };
    const std::vector<Affine> at = subscripts_of(outer_, affine_var(places_->var), rows_);
    Loops elements = outer_;
    elements.insert(elements.end(), rows_.begin(), rows_.end());
    Loops sums_of_all = outer_;
    sums_of_all.push_back(places_);
    sums_of_all.insert(sums_of_all.end(), rows_.begin(), rows_.end());
    const BufferId any = in_.add_scratch("NaN", type_, {});
    append(before, sum_of(sums_of_all, none(make_load(sums, type_, at)), {}, any));
    const BufferId each = in_.add_scratch("NaN at places", type_, dims_of(outer_, true, rows_));
    append(before, own(around(outer_, for_all(each, outer_, zero, false))));
    const auto number = [](int n) { return make_number(DType::i32, n); };
    const ValuePtr is_counted =
        make_op(Op::where, {is_zero(make_load(any, type_, {})), number(-1), number(0)});
    const ValuePtr is_nan =
        make_op(Op::where, {is_zero(none(found_.x)), zero, make_number(type_, 1)});
    before.push_back(make_at(
        in_.fresh.var(), 0, 1, is_counted, false,
        own(around(outer_, terms(each, outer_, is_nan, Affine(), extent(found_.sum.loops[0]))))));
    const BufferId all = in_.add_scratch("NaN of all", type_, dims_of(elements, false, {}));
    append(before, sum_of({places_}, make_load(each, type_, at), elements, all));
    const ValuePtr of_all = make_load(all, type_, subscripts_of(elements, {}, {}));
    const ValuePtr of_column =
        make_load(each, type_, subscripts_of(outer_, affine_var(column_->var), rows_));
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    return make_op(Op::where, {make_op(Op::eq, {of_all, of_column}), value,
                               make_constant(Scalar::of_float(type_, nan))});
  }

  /// for each element: buffer[element] = the sum of the value over the loops
  [[nodiscard]] Block sum_of(const Loops& loops, const ValuePtr& value, const Loops& elements,
                             BufferId buffer) const {
    const LocalId local = in_.fresh.local();
    const ValuePtr sum = make_local(local, type_);
    Block body{make_declare(local, make_number(type_, 0))};
    append(body, around(loops, {make_assign(local, make_op(Op::add, {sum, value}))}));
    body.push_back(make_store(buffer, subscripts_of(elements, {}, {}), sum));
    return own(around(elements, std::move(body)));
  }

  Scheduling& in_;
  OneHotSum found_;
  const DType type_;
  StmtPtr column_;
  StmtPtr places_;  ///< the loop over the columns, and a place for terms without a column
  Loops outer_;     ///< loops around the sum that are taken one by one
  Loops rows_;      ///< loops around the sum whose elements have the same place
};

class Rewriter {
 public:
  explicit Rewriter(Scheduling& in) : in_(in), elements_(KernelUses(in.lowered.loop)) {}

  /// The body of the kernel; nothing if there is no such sum.
  std::optional<Block> run() {
    Block result;
    for (const StmtPtr& stmt : Block(in_.lowered.loop.body)) {
      Block before;
      Loops around;
      written_.clear();
      walk({stmt}, [&](const Stmt& inner) {
        if (inner.kind == StmtKind::store || inner.kind == StmtKind::zero)
          written_.insert(inner.buffer);
      });
      const Block nest = changed({stmt}, around, before);
      append(result, before);
      append(result, nest);
      found_ = found_ || !before.empty();
    }
    return found_ ? std::optional(result) : std::nullopt;
  }

 private:
  Block changed(const Block& body, Loops& around, Block& before) {
    Block result;
    for (std::size_t k = 0; k < body.size(); ++k) {
      const StmtPtr& stmt = body[k];
      if (stmt->kind == StmtKind::declare && k + 1 < body.size()) {
        if (const auto found = match_sum(stmt, body[k + 1], elements_);
            found && reads_before(*found)) {
          PlacesMaker maker(in_, *found, around);
          if (maker.fits()) {
            result.push_back(make_declare(stmt->local, maker.make(before)));
            ++k;
            continue;
          }
        }
      }
      if (stmt->kind != StmtKind::loop || stmt->from != 0) {
        result.push_back(stmt);
        continue;
      }
      around.push_back(stmt);
      result.push_back(with_body(*stmt, changed(stmt->body, around, before)));
      around.pop_back();
    }
    return result;
  }

  /// True if the terms may be read before the statement.
  [[nodiscard]] bool reads_before(const OneHotSum& found) const {
    const auto is_written = [&](BufferId buffer) { return written_.contains(buffer); };
    return std::ranges::none_of(buffers_of(*found.x), is_written) &&
           std::ranges::none_of(buffers_of(*found.place), is_written);
  }

  Scheduling& in_;
  Elements elements_;
  std::set<BufferId> written_;  // by the statement
  bool found_ = false;
};

}  // namespace

bool add_at_places(Scheduling& in) {
  if (!declares_local(in.lowered.loop.body)) return false;
  std::optional<Block> body = Rewriter(in).run();
  if (body) in.lowered.loop.body = std::move(*body);
  return body.has_value();
}

}  // namespace heddle::jit
