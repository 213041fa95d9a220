// See emit_workarounds.hpp.
#include "jit/emit_workarounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "jit/primitive_builder.hpp"
#include "jit/rewrite.hpp"

namespace heddle::jit {
namespace {

/// As far as GCC sees it (tree_expr_maybe_real_minus_zero_p).
bool is_never_minus_zero(const Value& v) noexcept {
  switch (v.kind) {
    case ValueKind::constant:
      return !(v.scalar.f == 0 && std::signbit(v.scalar.f));
    case ValueKind::cast:
      return !is_floating(v.args[0]->dtype);
    case ValueKind::op:
      return v.op == Op::abs || (v.op == Op::where && is_never_minus_zero(*v.args[1]) &&
                                 is_never_minus_zero(*v.args[2]));
    default:
      return false;
  }
}

class NestedSums {
 public:
  std::set<LocalId> found;

  void block(const Block& body) {
    for (const StmtPtr& stmt : body) {
      if (stmt->kind == StmtKind::declare) depths_[stmt->local] = depth_;
      const bool is_nested = stmt->kind == StmtKind::assign && depth_ >= depths_[stmt->local] + 2;
      if (is_nested && is_floating(stmt->value->dtype)) {
        walk(*stmt->value, [&](const Value& v) {
          if (v.kind == ValueKind::local && v.local == stmt->local) found.insert(v.local);
        });
      }
      if (stmt->kind != StmtKind::loop) continue;
      ++depth_;
      block(stmt->body);
      --depth_;
    }
  }

 private:
  int depth_ = 0;
  std::map<LocalId, int> depths_;  // of the declarations
};

/// Whether no condition decides what it computes. That no operand but a constant is constant then
/// means that the result is not.
bool is_plain(const Value& v) {
  switch (v.op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::mul3:
    case Op::fma:
    case Op::neg:
      return true;
    case Op::abs:
    case Op::div:
    case Op::sqrt:
    case Op::recip:
      return is_floating(v.dtype);
    default:
      return false;
  }
}

}  // namespace

bool subtracts_unsigned_zero(const Value& value) noexcept {
  return value.kind == ValueKind::op && value.op == Op::sub && is_floating(value.dtype) &&
         is_never_minus_zero(*value.args[1]);
}

std::set<LocalId> nested_sums(const Block& body) {
  NestedSums sums;
  sums.block(body);
  return std::move(sums.found);
}

HiddenTerms::HiddenTerms(const Block& body) {
  walk(body, [this](const Stmt& stmt) {
    if (stmt.kind == StmtKind::assign) carried_.insert(stmt.local);
    if (stmt.kind == StmtKind::store || stmt.kind == StmtKind::zero) stored_.insert(stmt.buffer);
  });
  for (std::size_t before = 0, known = 1; before != known;) {
    before = known;
    walk(body, [this](const Stmt& stmt) {
      if (stmt.kind != StmtKind::declare && stmt.kind != StmtKind::assign) return;
      if (is_carried(*stmt.value)) carried_.insert(stmt.local);
      if (may_fold(*stmt.value)) folding_.insert(stmt.local);
    });
    known = 1 + carried_.size() + folding_.size();
  }
  walk_values(body, [this](const Value& v) {
    for (std::size_t k = 0; k < v.args.size(); ++k) any_ = any_ || hides(v, k);
  });
}

bool HiddenTerms::hides(const Value& value, std::size_t k) const {
  if (value.kind != ValueKind::op || !is_floating(value.dtype)) return false;
  if (value.op == Op::add || value.op == Op::sub)
    return may_fold(*value.args[k]) && is_carried(*value.args[1 - k]);
  return value.op == Op::where && k > 0 && is_carried(*value.args[k]) &&
         is_carried(*value.args[3 - k]);
}

bool HiddenTerms::is_carried(const Value& value) const {
  if (value.kind == ValueKind::local) return carried_.contains(value.local);
  if (value.kind == ValueKind::load) return stored_.contains(value.buffer);
  return std::ranges::any_of(value.args, [this](const ValuePtr& arg) { return is_carried(*arg); });
}

bool HiddenTerms::may_fold(const Value& value) const {
  if (value.kind == ValueKind::local) return folding_.contains(value.local);
  if (value.kind == ValueKind::op && !is_plain(value)) return true;
  if (value.kind == ValueKind::cast && is_floating(value.args[0]->dtype) &&
      !is_floating(value.dtype))
    return true;
  return value.kind == ValueKind::embed ||
         std::ranges::any_of(value.args, [this](const ValuePtr& arg) { return may_fold(*arg); });
}

PrimFunction hide_function(DType type) {
  const DType bits = type == DType::f64 ? DType::u64 : DType::u32;
  PrimBuilder in(fmt::format("hide_{}", name(type)), {type, DType::u64});
  return in.finish(same_bits(same_bits(in.param(0), bits) ^ cast(in.param(1), bits), type));
}

}  // namespace heddle::jit
