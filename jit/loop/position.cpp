// See loop/position.hpp. Pure; any thread.
#include "jit/loop/position.hpp"

#include <algorithm>
#include <set>

#include "jit/loop/rewrite.hpp"
#include "jit/value/int128.hpp"

namespace heddle::jit {
namespace {

Int128 number(const Scalar& scalar) {
  return scalar.dtype == DType::u64 ? static_cast<Int128>(static_cast<std::uint64_t>(scalar.i))
                                    : static_cast<Int128>(scalar.i);
}

/// The range of min(max(x, constant), constant).
std::optional<ElementRange> range_of(const Value& value) {
  const auto constant_of = [](const Value& v, Op op) -> std::optional<std::int64_t> {
    const bool is = v.kind == ValueKind::op && v.op == op && v.args.size() == 2 &&
                    v.args[1]->kind == ValueKind::constant &&
                    (v.dtype == DType::i32 || v.dtype == DType::i64);
    return is ? std::optional(v.args[1]->scalar.i) : std::nullopt;
  };
  const std::optional<std::int64_t> highest = constant_of(value, Op::min);
  if (!highest) return std::nullopt;
  const std::optional<std::int64_t> lowest = constant_of(*value.args[0], Op::max);
  return lowest && *lowest <= *highest ? std::optional(ElementRange{*lowest, *highest})
                                       : std::nullopt;
}

}  // namespace

PositionBounds position_bounds(const Stmt& at) {
  const DType type = at.value->dtype;
  const Int128 least = number(*neutral(Op::max, type));
  const Int128 most = number(*neutral(Op::min, type));
  const std::int64_t last = at.to - 1;
  PositionBounds bounds;
  if (most < at.from) {
    bounds.only = at.from;
  } else if (least > last) {
    bounds.only = last;
  } else {
    if (least < at.from) bounds.lowest = Scalar::of_int(type, at.from);
    if (most > last) bounds.highest = Scalar::of_int(type, last);
  }
  return bounds;
}

ValuePtr value_in_range(const Stmt& at) {
  const DType type = at.value->dtype;
  if (!at.nearest || (type != DType::i32 && type != DType::i64)) return nullptr;
  const PositionBounds bounds = position_bounds(at);
  if (bounds.only) return nullptr;
  ValuePtr value = at.value;
  if (bounds.lowest) value = make_op(Op::max, {value, make_constant(*bounds.lowest)});
  if (bounds.highest) value = make_op(Op::min, {value, make_constant(*bounds.highest)});
  return value;
}

std::map<BufferId, ElementRange> ranges_of_scratch(const Loop& loop) {
  std::map<BufferId, ElementRange> ranges;
  std::set<BufferId> others;
  walk(loop.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::zero) others.insert(stmt.buffer);
    if (stmt.kind != StmtKind::store) return;
    const std::optional<ElementRange> range = range_of(*stmt.value);
    if (!range || loop.buffers[stmt.buffer].role != Role::scratch) {
      others.insert(stmt.buffer);
      return;
    }
    ElementRange& all = ranges.try_emplace(stmt.buffer, *range).first->second;
    all = {std::min(all.lowest, range->lowest), std::max(all.highest, range->highest)};
  });
  for (const BufferId other : others) ranges.erase(other);
  return ranges;
}

bool stays_inside(const Stmt& at, const std::map<BufferId, ElementRange>& ranges) {
  if (at.value->kind != ValueKind::load) return false;
  const auto found = ranges.find(at.value->buffer);
  return found != ranges.end() && at.from <= found->second.lowest && found->second.highest < at.to;
}

}  // namespace heddle::jit
