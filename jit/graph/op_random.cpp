// Random numbers, composed from other operations.
#include <fmt/format.h>

#include <array>
#include <numbers>

#include "heddle/graph_ops.hpp"
#include "jit/describe/expr.hpp"
#include "jit/graph/called.hpp"
#include "jit/graph/state.hpp"
#include "jit/system/inside.hpp"
#include "jit/value/element.hpp"

namespace heddle {
namespace {

using jit::At;

void require_key(const Node& key, const jit::Called& call) {
  if (key.type() == ArrayType{DType::u64, {}}) return;
  call.refuse(
      "a key is u64[]; make one of a seed with Graph::constant(seed, u64), or take one "
      "of split_key()'s");
}

/// 0, 1, 2, ... in row-major order.
Node counters(const Graph& graph, const Dims& dims, CallSite where) {
  const auto count = ArrayType{DType::u64, dims}.num_elements();
  const Node flat = graph.iota({DType::u64, {*count}}, 0, where);
  return reshape(flat, std::vector<std::int64_t>(dims.begin(), dims.end()), where);
}

bool is_negative_integer(const Operand& operand) {
  if (!operand.number()) return false;
  const jit::ExprNode& literal = *Inside::of(*operand.number());
  return info(literal.dtype).is_signed && is_integer(literal.dtype) && literal.scalar.i < 0;
}

// Counters below 2^62 belong to elements; these constants keep derived keys apart from random bits.
constexpr std::uint64_t split_from = std::uint64_t{1} << 63U;
constexpr std::uint64_t fold_counter = std::uint64_t{1} << 62U;

}  // namespace

Node split_key(const Node& key, std::int64_t count, CallSite where) {
  const jit::Called call("split_key", where, key);
  const At at{where};
  require_key(key, call);
  if (count < 0) call.refuse(fmt::format("the count is {} (expected 0 or more)", count));
  const Node counter = jit::graph_with(key).iota({DType::u64, {count}}, 0, where);
  return threefry(at(key), at(Operand(counter, where) + Operand(split_from, where)));
}

Node fold_in(const Node& key, const Operand& data, CallSite where) {
  const jit::Called call("fold_in", where, key, data);
  const At at{where};
  require_key(key, call);
  if (!data.number() && !is_integer(data.node().dtype()))
    call.refuse("keys are made of integers; cast it");
  const DType type = is_negative_integer(data) ? DType::i64 : DType::u64;
  const Node counter = cast(at(jit::operand_node(data, type, call)), DType::u64);
  return threefry(at(threefry(at(key), Operand(fold_counter, where))), at(counter));
}

Node random_bits(const Node& key, const Dims& dims, CallSite where) {
  const jit::Called call("random_bits", where, key);
  const At at{where};
  require_key(key, call);
  if (!ArrayType{DType::u64, dims}.num_bytes()) {
    call.refuse(fmt::format(
        "u64[{}] is no array's type (expected extents of 0 or more, and fewer than 2^63 "
        "bytes)",
        fmt::join(dims, ",")));
  }
  return threefry(at(key), at(counters(jit::graph_with(key), dims, where)));
}

Node random_uniform(const Node& key, const Dims& dims, CallSite where) {
  const jit::Called call("random_uniform", where, key);
  return uniform(Operand(random_bits(key, dims, where), where));
}

Node random_normal(const Node& key, const Dims& dims, CallSite where) {
  const jit::Called call("random_normal", where, key);
  const At at{where};
  const Node bits = random_bits(key, dims, where);
  // Box-Muller: the radius from the upper bits, the angle from the lower bits. 1 - u is in (0, 1].
  const Node radius = uniform(at(bits));
  const Node angle = uniform(at(Operand(bits, where) * Operand(std::uint64_t{1} << 32U, where)));
  const Node logarithm = log(at(at(1.0) - at(radius)));
  const Node length = sqrt(at(at(logarithm) * at(-2.0)));
  return at(length) * at(cos(at(at(angle) * at(2 * std::numbers::pi))));
}

Node bernoulli(const Node& key, const Operand& probability, const Dims& dims, CallSite where) {
  const jit::Called call("bernoulli", where, key, probability);
  if (probability.number()) {
    const jit::ExprNode& literal = *Inside::of(*probability.number());
    const double chance = jit::convert(literal.scalar, DType::f64).f;
    if (!(chance >= 0 && chance <= 1))
      call.refuse(fmt::format("the probability is {} (expected 0 to 1)", chance));
  }
  if (!probability.number() &&
      jit::broadcast_dims(std::array{probability.node().dims(), dims}) != dims) {
    call.refuse(fmt::format("{} does not broadcast to [{}]", probability.node().type().to_string(),
                            fmt::join(dims, ",")));
  }
  return Operand(random_uniform(key, dims, where), where) < probability;
}

Node categorical(const Node& key, const Node& given, CallSite where) {
  const jit::Called call("categorical", where, key, given);
  const At at{where};
  static_cast<void>(jit::axis_of(given, -1, call));
  const Node logits = jit::as_floating(given, where);
  const Node chance = random_uniform(key, logits.dims(), where);
  // The centre of each of 2^23 steps, which f32 represents exactly, is neither 0 nor 1. The noise
  // is therefore finite, and a logit of -infinity is never chosen before a finite logit.
  const Node step = floor(at(at(chance) * at(0x1p23)));
  const Node inside = at(at(step) * at(0x1p-23)) + at(0x1p-24);
  const Node noise = -at(log(at(-at(log(at(inside))))));
  return argmax(at(logits) + at(noise), -1, {}, where);
}

Node permutation(const Node& key, std::int64_t count, CallSite where) {
  const jit::Called call("permutation", where, key);
  if (count < 0) {
    call.refuse(fmt::format("of {} places (expected 0 or more)", count));
  }
  return argsort(random_bits(key, {count}, where), 0, {}, where);
}

}  // namespace heddle
