// See schedule/found_extremes.hpp.
#include "jit/schedule/found_extremes.hpp"

#include <optional>
#include <utility>

#include "jit/loop/affine_value.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/schedule/lanes.hpp"

namespace heddle::jit {
namespace {

/// Elements of a block: one of f32 fits the first-level cache.
constexpr std::int64_t block_size = 8192;
constexpr std::int64_t blocks_min = 4;

bool is_op(const Value& v, Op op) { return v.kind == ValueKind::op && v.op == op; }

/// The condition of an element: equal to the extreme, or unequal to itself, as NaN is.
struct Condition {
  const Value* element = nullptr;
  bool or_nan = false;
};

/// element == extreme, or that or element != element; operands in either order.
std::optional<Condition> match_condition(const Value& v, LocalId extreme) {
  const auto is_extreme = [&](const Value& x) {
    return x.kind == ValueKind::local && x.local == extreme && x.subscripts.empty();
  };
  if (is_op(v, Op::eq)) {
    const Value &a = *v.args[0], &b = *v.args[1];
    if (is_extreme(a) == is_extreme(b)) return std::nullopt;
    return Condition{is_extreme(a) ? &b : &a};
  }
  if (!is_op(v, Op::or_)) return std::nullopt;
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}}) {
    const Value& nan = *v.args[1 - k];
    auto found = match_condition(*v.args[k], extreme);
    if (found && is_op(nan, Op::ne) && equal(*nan.args[0], *found->element) &&
        equal(*nan.args[1], *found->element)) {
      found->or_nan = true;
      return found;
    }
  }
  return std::nullopt;
}

struct Found {
  Reduction extreme, place;
  bool or_nan = false;
  std::size_t last = 0;  ///< position of the last statement of the two
};

std::int64_t extent(const Reduction& r) { return r.loops[0]->to; }

std::optional<Found> match(const Block& body, std::size_t at) {
  const std::size_t second = past_comments(body, at + 2);
  if (second + 1 >= body.size()) return std::nullopt;
  auto extreme = match_reduction(body[at], body[at + 1]);
  if (!extreme || extreme->loops.size() != 1) return std::nullopt;
  auto place = match_reduction(body[second], body[second + 1]);
  if (!place || place->loops.size() != 1 || extent(*extreme) != extent(*place) ||
      extent(*extreme) < blocks_min * block_size)
    return std::nullopt;
  const auto is_extreme = [](Op op) { return op == Op::max || op == Op::min; };
  const Value& start = *extreme->declare->value;
  if (!is_extreme(extreme->op) || !is_extreme(place->op) || start.kind != ValueKind::constant ||
      start.scalar != *neutral(extreme->op, start.dtype) || !is_op(*place->term, Op::where))
    return std::nullopt;
  const auto condition = match_condition(*place->term->args[0], extreme->declare->local);
  Substitution by;
  by.vars[extreme->loops[0]->var] = affine_var(place->loops[0]->var);
  if (!condition || !equal(*substitute(extreme->term, by), *condition->element))
    return std::nullopt;
  // An element equals the extreme, so the other value does not decide if it is beyond all places.
  const LoopRanges ranges{{place->loops[0]->var, {0, extent(*place)}}};
  const auto index = affine_value(*place->term->args[1], ranges);
  const auto range = index ? reach(*index, ranges) : std::nullopt;
  const Value& other = *place->term->args[2];
  if (!range || other.kind != ValueKind::constant) return std::nullopt;
  const bool beyond =
      place->op == Op::min ? range->highest <= other.scalar.i : range->lowest >= other.scalar.i;
  if (!beyond) return std::nullopt;
  return Found{std::move(*extreme), std::move(*place), condition->or_nan, second + 1};
}

class BlockMaker {
 public:
  BlockMaker(Scheduling& in, const Found& found)
      : in_(in), found_(found), blocks_(extent(found.extreme) / block_size) {}

  Block make() {
    const DType type = found_.extreme.declare->value->dtype;
    const BufferId extremes = in_.add_scratch("extremes", type, {blocks_});
    const auto extreme_of = [&](VarId block) {
      return make_load(extremes, type, {affine_var(block)});
    };
    Block body;
    const VarId first = in_.fresh.var();
    const auto [own, terms] = of_block(found_.extreme, first);
    body.push_back(make_loop(
        first, 0, blocks_,
        {own, terms,
         make_store(extremes, {affine_var(first)}, make_local(own->local, own->value->dtype))}));
    body.push_back(found_.extreme.declare);
    const VarId second = in_.fresh.var();
    body.push_back(make_loop(second, 0, blocks_, {join(found_.extreme, extreme_of(second))}));
    rest_of(found_.extreme, body);
    body.push_back(found_.place.declare);
    const VarId third = in_.fresh.var();
    const auto [least, places] = of_block(found_.place, third);
    const ValuePtr place = make_local(least->local, least->value->dtype);
    body.push_back(make_loop(third, 0, blocks_,
                             {make_at(in_.fresh.var(), 0, 1, is_looked_at(extreme_of(third)), false,
                                      {least, places, join(found_.place, place)})}));
    rest_of(found_.place, body);
    return body;
  }

 private:
  /// local = op(local, value)
  static StmtPtr join(const Reduction& r, ValuePtr value, std::optional<LocalId> into = {}) {
    const LocalId local = into.value_or(r.declare->local);
    std::vector<ValuePtr> args{make_local(local, r.declare->value->dtype), std::move(value)};
    if (r.term_first) std::swap(args[0], args[1]);
    return make_assign(local, make_op(r.op, std::move(args)));
  }

  [[nodiscard]] ValuePtr term_at(const Reduction& r, const Affine& at) const {
    Substitution by;
    by.vars[r.loops[0]->var] = at;
    return substitute(r.term, by);
  }

  /// The reduction of a block to a local of its own: declaration, loop.
  std::pair<StmtPtr, StmtPtr> of_block(const Reduction& r, VarId block) {
    const LocalId local = in_.fresh.local();
    const VarId var = in_.fresh.var();
    const Affine at = affine_add(affine_var(block, block_size), affine_var(var));
    return {make_declare(local, r.declare->value),
            make_loop(var, 0, block_size, {join(r, term_at(r, at), local)})};
  }

  /// The elements behind the last block.
  void rest_of(const Reduction& r, Block& body) {
    const std::int64_t done = blocks_ * block_size;
    if (done == extent(r)) return;
    const VarId var = in_.fresh.var();
    const Affine at = affine_add(affine_var(var), Affine{done, {}});
    body.push_back(make_loop(var, 0, extent(r) - done, {join(r, term_at(r, at))}));
  }

  /// 0 if elements of the block may equal the extreme of the row, else -1.
  [[nodiscard]] ValuePtr is_looked_at(const ValuePtr& of_block) const {
    const StmtPtr& declare = found_.extreme.declare;
    ValuePtr test = make_op(Op::eq, {of_block, make_local(declare->local, declare->value->dtype)});
    if (found_.or_nan)
      test = make_op(Op::or_, {std::move(test), make_op(Op::ne, {of_block, of_block})});
    const auto number = [](std::int64_t n) { return make_constant(Scalar::of_int(DType::i32, n)); };
    return make_op(Op::where, {std::move(test), number(0), number(-1)});
  }

  Scheduling& in_;
  const Found& found_;
  const std::int64_t blocks_;
};

}  // namespace

Block with_found_extremes(Scheduling& in, const Block& body) {
  Block result;
  for (std::size_t k = 0; k < body.size(); ++k) {
    if (const auto found = match(body, k)) {
      append_comments(result, body, k, found->last);
      append(result, BlockMaker(in, *found).make());
      k = found->last;
    } else {
      const StmtPtr& stmt = body[k];
      result.push_back(stmt->body.empty() ? stmt
                                          : with_body(*stmt, with_found_extremes(in, stmt->body)));
    }
  }
  return result;
}

}  // namespace heddle::jit
