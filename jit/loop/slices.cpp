// See loop/slices.hpp.
#include "jit/loop/slices.hpp"

#include <algorithm>
#include <iterator>

#include "jit/loop/address.hpp"
#include "jit/loop/interval.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/system/limits.hpp"

namespace heddle::jit {
namespace {

bool is_static(const AffineTerm& term) { return term.kind == AffineTerm::Kind::static_index; }

/// Elements from one index of an axis to the next, axis by axis.
std::vector<Int128> strides_of(const Dims& dims) {
  std::vector<Int128> strides(dims.size(), 1);
  for (std::size_t axis = dims.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * dims[axis];
  return strides;
}

bool fits(Int128 v) { return narrow(v) == v; }

}  // namespace

Slices::Slices(const Loop& loop) : loop_(loop), parts_(loop.buffers.size()) {
  block(loop.body);
  for (BufferId id = 0; id < parts_.size(); ++id) slices_.push_back(slice(id));
}

void Slices::block(const Block& block) {
  for (const StmtPtr& stmt : block) statement(*stmt);
}

void Slices::statement(const Stmt& stmt) {
  count_step();
  if (stmt.value) value(*stmt.value);
  if (stmt.kind == StmtKind::zero) parts_[stmt.buffer].whole = true;
  if (stmt.kind == StmtKind::store) access(stmt.buffer, stmt.subscripts);
  if (!binds_variable(stmt) || stmt.from >= stmt.to) return;
  vars_[stmt.var] = {stmt.from, stmt.to - 1};
  block(stmt.body);
  vars_.erase(stmt.var);
}

void Slices::value(const Value& v) {
  walk(v, [&](const Value& each) {
    if (each.kind == ValueKind::load) access(each.buffer, each.subscripts);
  });
}

void Slices::access(BufferId id, const std::vector<Affine>& subscripts) {
  Part& part = parts_[id];
  part.whole = part.whole || is_flat(loop_.buffers[id].type.dims, subscripts);
  if (part.whole) return;
  const bool first = part.box.empty();
  for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
    StaticTerms moved;
    std::ranges::copy_if(subscripts[axis].terms, std::back_inserter(moved), is_static);
    const Interval reached = *reach(subscripts[axis], [&](const AffineTerm& term) {
      constexpr std::pair<std::int64_t, std::int64_t> unmoved{0, 0};
      return std::optional(is_static(term) ? unmoved : vars_.at(term.id));
    });
    if (first) {
      part.moved.push_back(std::move(moved));
      part.box.push_back(reached);
    } else {
      part.whole = part.whole || part.moved[axis] != moved;
      Interval& all = part.box[axis];
      all.lowest = std::min(all.lowest, reached.lowest);
      all.highest = std::max(all.highest, reached.highest);
    }
  }
}

bool Slices::is_slice(BufferId id) const {
  const Part& part = parts_[id];
  if (part.whole || part.box.empty()) return false;  // scalars, too
  const Dims& dims = loop_.buffers[id].type.dims;
  bool all = true;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const Interval& each = part.box[axis];
    if (each.highest - each.lowest >= dims[axis]) return false;  // no static index fits
    all = all && each.highest - each.lowest == dims[axis] - 1;
  }
  return !all;
}

bool Slices::none() const noexcept {
  return std::ranges::none_of(slices_, [](const auto& each) { return each.has_value(); });
}

std::optional<Slice> Slices::slice(BufferId id) const {
  if (!is_slice(id)) return std::nullopt;
  const Part& part = parts_[id];
  const ArrayType& type = loop_.buffers[id].type;
  const auto element = static_cast<Int128>(size_of(type.dtype));
  const std::vector<Int128> strides = strides_of(type.dims);
  Int128 begin = 0, last = 0;
  std::vector<Int128> steps(loop_.statics.size(), 0);
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    const Interval& each = part.box[axis];
    if (!fits(each.lowest) || !fits(each.highest)) return std::nullopt;  // no static index fits
    begin += each.lowest * strides[axis];
    last += each.highest * strides[axis];
    for (const AffineTerm& term : part.moved[axis])
      steps[term.id] += term.coefficient * strides[axis];
  }
  const auto in_bytes = [&](Int128 elements) {
    return fits(elements) && fits(elements * element) ? std::optional(narrow(elements * element))
                                                      : std::nullopt;
  };
  Slice slice;
  const auto from = in_bytes(begin), to = in_bytes(last + 1);
  if (!from || !to) return std::nullopt;
  slice.begin = *from;
  slice.end = *to;
  for (const Int128 each : steps) {
    const auto step = in_bytes(each);
    if (!step) return std::nullopt;
    slice.steps.push_back(*step);
  }
  return slice;
}

bool Slices::in_one_piece(BufferId id) const {
  const std::vector<Int128> strides = strides_of(loop_.buffers[id].type.dims);
  Int128 elements = 1, between = 1;
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    const Interval& each = parts_[id].box[axis];
    elements *= each.highest - each.lowest + 1;
    between += (each.highest - each.lowest) * strides[axis];
  }
  return elements == between;
}

std::vector<Affine> Slices::within(BufferId id, const std::vector<Affine>& subscripts) const {
  std::vector<Affine> moved = subscripts;
  for (std::size_t axis = 0; axis < moved.size(); ++axis) {
    std::erase_if(moved[axis].terms, is_static);
    moved[axis] = affine_add(moved[axis], {-narrow(parts_[id].box[axis].lowest), {}});
  }
  return moved;
}

ValuePtr Slices::seen(const ValuePtr& value) const {
  return rebuild(value, [&](ValuePtr each) {
    if (each->kind != ValueKind::load || !of(each->buffer)) return each;
    return make_load(each->buffer, each->dtype, within(each->buffer, each->subscripts));
  });
}

Block Slices::seen(const Block& block) const {
  Block result;
  for (const StmtPtr& stmt : block) {
    const bool never_runs = binds_variable(*stmt) && stmt->from >= stmt->to;
    if (never_runs || stmt->kind == StmtKind::prefetch) continue;
    StmtPtr each = stmt;
    if (each->value) each = with_value(*each, seen(each->value));
    if (each->kind == StmtKind::store && of(each->buffer))
      each = make_store(each->buffer, within(each->buffer, each->subscripts), each->value);
    if (binds_variable(*each)) each = with_body(*each, seen(each->body));
    result.push_back(std::move(each));
  }
  return result;
}

Loop Slices::seen_from_them() const {
  Loop result{loop_.buffers, loop_.statics, seen(loop_.body)};
  for (BufferId id = 0; id < result.buffers.size(); ++id) {
    if (!of(id)) continue;
    Dims& dims = result.buffers[id].type.dims;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      const Interval& each = parts_[id].box[axis];
      dims[axis] = narrow(each.highest - each.lowest + 1);
    }
  }
  return result;
}

}  // namespace heddle::jit
