// See value_cost.hpp.
#include "jit/value_cost.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "jit/lanes.hpp"

namespace heddle::jit {
namespace {

/// Builtins that are one instruction, or one and a constant.
bool is_instruction(std::string_view builtin) {
  constexpr std::array<std::string_view, 3> names{"__builtin_fabs", "__builtin_fma",
                                                  "__builtin_rint"};
  return std::ranges::any_of(names, [&](std::string_view n) { return builtin.starts_with(n); });
}

int cost_of(const Prim& prim) {
  constexpr int slow = 8;
  switch (prim.op) {
    case PrimOp::constant:
    case PrimOp::bits:
      return 0;
    case PrimOp::div:
    case PrimOp::rem:
      return slow;
    case PrimOp::call:
      return is_instruction(prim.function) ? 1 : slow;
    default:
      return 1;
  }
}

/// Of an operation or a cast alone, remembered: building the primitive function takes longer.
int own_cost(const Value& v) {
  using Key = std::tuple<ValueKind, Op, DType, DType>;
  thread_local std::map<Key, int> known;
  const Key key{v.kind, v.op, v.args.back()->dtype, v.dtype};
  const auto [at, is_new] = known.try_emplace(key, 0);
  if (is_new) {
    for (const Prim& prim : lane_function(v, Target{}).code) at->second += cost_of(prim);
  }
  return at->second;
}

void add_cost(const Value& value, int limit, int& cost) {
  if (value.kind == ValueKind::op || value.kind == ValueKind::cast)
    cost = std::min(limit, cost + own_cost(value));
  for (const ValuePtr& arg : value.args) {
    if (cost >= limit) return;
    add_cost(*arg, limit, cost);
  }
}

}  // namespace

int cost_of(const Value& value, int limit) {
  int cost = 0;
  add_cost(value, limit, cost);
  return cost;
}

}  // namespace heddle::jit
