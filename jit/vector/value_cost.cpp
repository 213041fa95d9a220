// See vector/value_cost.hpp.
#include "jit/vector/value_cost.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "jit/loop/rewrite.hpp"
#include "jit/vector/lanes.hpp"

namespace heddle::jit {
namespace {

/// True for builtins that are a single instruction, or an instruction and a constant.
bool is_instruction(std::string_view builtin) {
  constexpr std::array<std::string_view, 6> names{"__builtin_fabs", "__builtin_fma",
                                                  "__builtin_rint", "__builtin_floor",
                                                  "__builtin_ceil", "__builtin_trunc"};
  return std::ranges::any_of(names, [&](std::string_view n) { return builtin.starts_with(n); });
}

int cost_of(const Prim& prim) {
  constexpr int slow = 8;
  constexpr int library = 40;
  switch (prim.op) {
    case PrimOp::constant:
    case PrimOp::table:
    case PrimOp::bits:
      return 0;
    case PrimOp::div:
    case PrimOp::rem:
      return slow;
    case PrimOp::call:
      if (!prim.function.starts_with("__builtin_")) return library;
      return is_instruction(prim.function) ? 1 : slow;
    default:
      return 1;
  }
}

/// The cost of an operation or a cast alone, cached: building the primitive function takes longer.
/// The cache has no destructor, as compiles may run during exit.
int known_cost(const Value& v) {
  constexpr std::size_t casts = op_count;  // a separate row, after those of operations
  static constinit std::array<std::atomic<int>, (op_count + 1) * dtype_count * dtype_count> known{};
  const std::size_t row = v.kind == ValueKind::op ? static_cast<std::size_t>(v.op) : casts;
  const auto from = static_cast<std::size_t>(v.args.back()->dtype);
  std::atomic<int>& cost =
      known[(row * dtype_count + from) * dtype_count + static_cast<std::size_t>(v.dtype)];
  // relaxed: the number publishes no other data; a thread that finds none computes the same number
  // (pairs with the store below).
  if (const int found = cost.load(std::memory_order_relaxed); found != 0) return found - 1;
  int sum = 0;
  for (const Prim& prim : lane_function(v, Target{}).code) sum += cost_of(prim);
  // relaxed: pairs with the load above.
  cost.store(sum + 1, std::memory_order_relaxed);
  return sum;
}

void add_cost(const Value& value, int limit, int& cost) {
  cost = std::min(limit, cost + own_cost(value));
  for (const ValuePtr& arg : value.args) {
    if (cost >= limit) return;
    add_cost(*arg, limit, cost);
  }
}

}  // namespace

int own_cost(const Value& value) {
  return value.kind == ValueKind::op || value.kind == ValueKind::cast ? known_cost(value) : 0;
}

int cost_of(const Value& value, int limit) {
  int cost = 0;
  add_cost(value, limit, cost);
  return cost;
}

bool has_costly(const Value& value) {
  bool found = false;
  walk(value, [&](const Value& v) {
    found = found || (v.kind == ValueKind::op && own_cost(v) >= costly);
  });
  return found;
}

bool has_plain_arithmetic(const Block& body) {
  bool plain = true;
  walk_values(body, [&](const Value& v) {
    const auto is = [&](auto... ops) { return ((v.op == ops) || ...); };
    plain = plain && v.kind != ValueKind::cast &&
            (v.kind != ValueKind::op ||
             is(Op::add, Op::sub, Op::mul, Op::div, Op::neg, Op::sqrt, Op::fma));
  });
  return plain;
}

}  // namespace heddle::jit
