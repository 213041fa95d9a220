// See value_cost.hpp.
#include "jit/value_cost.hpp"

#include "jit/lanes.hpp"
#include "jit/rewrite.hpp"

namespace heddle::jit {
namespace {

int cost_of_function(const PrimFunction& function) {
  constexpr int slow = 8;
  int cost = 0;
  for (const Prim& prim : function.code) {
    const bool is_slow =
        prim.op == PrimOp::div || prim.op == PrimOp::rem || prim.op == PrimOp::call;
    if (prim.op != PrimOp::constant) cost += is_slow ? slow : 1;
  }
  return cost;
}

}  // namespace

int cost_of(const Value& value) {
  int cost = 0;
  walk(value, [&cost](const Value& v) {
    if (v.kind == ValueKind::op || v.kind == ValueKind::cast)
      cost += cost_of_function(lane_function(v));
  });
  return cost;
}

}  // namespace heddle::jit
