// See emit_workarounds.hpp.
#include "jit/emit_workarounds.hpp"

#include <cmath>
#include <map>

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

}  // namespace heddle::jit
