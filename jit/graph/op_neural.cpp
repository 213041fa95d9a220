// Layers of networks and random numbers, made of other operations.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>

#include "heddle/graph_ops.hpp"
#include "heddle/status.hpp"
#include "jit/graph/state.hpp"
#include "jit/system/inside.hpp"

namespace heddle {
namespace {

/// Arithmetic at one place of the user's source.
struct At {
  CallSite where;
  Operand operator()(const Node& node) const { return {node, where}; }
  Operand operator()(double number) const { return {number, where}; }
};

Graph graph_with(const Node& node, std::string_view what) {
  return Inside::make<Graph>(jit::graph_of(node, what));
}

Node scaled(const Node& normal, const Node& scale, std::string_view what, At at) {
  const std::array operands{normal, scale};
  static_cast<void>(jit::common_graph(operands, what, at.where));
  return at(normal) * at(scale);
}

void require_key(const Node& key, std::string_view what, CallSite where) {
  static_cast<void>(jit::graph_of(key, what));
  if (key.type() == ArrayType{DType::u64, {}}) return;
  jit::refuse_op(what, std::span(&key, 1),
                 "a key is u64[]; make one of a seed with Graph::constant(seed, u64), or take one "
                 "of split_key()'s",
                 where);
}

/// 0, 1, 2, ... in row-major order.
Node counters(const Graph& graph, const Dims& dims, CallSite where) {
  const auto count = ArrayType{DType::u64, dims}.num_elements();
  const Node flat = graph.iota({DType::u64, {count.value_or(-1)}}, 0, where);
  return reshape(flat, std::vector<std::int64_t>(dims.begin(), dims.end()), where);
}

// Counters below 2^62 are elements'; these keep keys apart from bits.
constexpr std::uint64_t split_from = std::uint64_t{1} << 63U;
constexpr std::uint64_t fold_counter = std::uint64_t{1} << 62U;

}  // namespace

Node softmax(const Node& x, std::int64_t axis, CallSite where) {
  const At at{where};
  const std::int64_t along = jit::axis_of(x, axis, "softmax", where);
  const Node largest = maximum(x, {along}, {.keep = true}, where);
  const Node terms = exp(at(at(x) - at(largest)));
  return at(terms) / at(sum(terms, {along}, {.keep = true}, where));
}

Node log_softmax(const Node& x, std::int64_t axis, CallSite where) {
  const At at{where};
  const std::int64_t along = jit::axis_of(x, axis, "log_softmax", where);
  const Node shifted = at(x) - at(maximum(x, {along}, {.keep = true}, where));
  const Node total = sum(exp(at(shifted)), {along}, {.keep = true}, where);
  return at(shifted) - at(log(at(total)));
}

Node layer_norm(const Node& x, const Node& scale, const Node& shift, double epsilon,
                CallSite where) {
  const At at{where};
  const std::int64_t last = jit::axis_of(x, -1, "layer_norm", where);
  const Node distance = at(x) - at(mean(x, {last}, {.keep = true}, where));
  const Node spread = mean(at(distance) * at(distance), {last}, {.keep = true}, where);
  const Node normal = at(distance) * at(rsqrt(at(at(spread) + at(epsilon))));
  return at(scaled(normal, scale, "layer_norm", at)) + at(shift);
}

Node rms_norm(const Node& x, const Node& scale, double epsilon, CallSite where) {
  const At at{where};
  const std::int64_t last = jit::axis_of(x, -1, "rms_norm", where);
  const Node square = mean(at(x) * at(x), {last}, {.keep = true}, where);
  return scaled(at(x) * at(rsqrt(at(at(square) + at(epsilon)))), scale, "rms_norm", at);
}

Node gelu(const Node& x, CallSite where) {
  const At at{where};
  const Node share = at(erf(at(at(x) * at(std::numbers::sqrt2 / 2)))) + at(1.0);
  return at(at(x) * at(0.5)) * at(share);
}

Node sigmoid(const Node& x, CallSite where) {
  const At at{where};
  return recip(at(at(exp(at(-at(x)))) + at(1.0)));
}

Node silu(const Node& x, CallSite where) {
  const At at{where};
  return at(x) / at(at(exp(at(-at(x)))) + at(1.0));
}

Node one_hot(const Node& indices, std::int64_t depth, DType dtype, CallSite where) {
  const At at{where};
  const Graph graph = graph_with(indices, "one_hot");
  if (!is_integer(indices.dtype())) {
    jit::refuse_op("one_hot", std::span(&indices, 1), "indices are integers; cast them", where);
  }
  // Indices of u64 have no common type with i64.
  const DType type = indices.dtype() == DType::u64 ? DType::u64 : DType::i64;
  const Node places = graph.iota({type, {depth}}, 0, where);
  return cast(at(at(expand_dims(indices, {-1}, where)) == at(places)), dtype);
}

Node cross_entropy(const Node& logits, const Node& labels, CallSite where) {
  const At at{where};
  const std::int64_t last = jit::axis_of(logits, -1, "cross_entropy", where);
  const std::array operands{logits, labels};
  static_cast<void>(jit::common_graph(operands, "cross_entropy", where));
  const std::int64_t classes = logits.dims()[static_cast<std::size_t>(last)];
  const Node chosen = one_hot(labels, classes, DType::bool_, where);
  // A product with 0 would make NaN of classes that are impossible.
  const Node loss = select(at(chosen), at(log_softmax(logits, last, where)), at(0.0));
  return -at(sum(loss, {-1}, {}, where));
}

Node attention(const Node& q, const Node& k, const Node& v, const AttentionOptions& options,
               const Node& mask, CallSite where) {
  const At at{where};
  const std::array operands{q, k, v};
  static_cast<void>(jit::common_graph(operands, "attention", where));
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2)
    jit::refuse_op("attention", operands, "each has 2 axes at least: places and depth", where);
  Axes order(static_cast<std::size_t>(k.rank()));
  for (std::size_t axis = 0; axis < order.size(); ++axis)
    order[axis] = static_cast<std::int64_t>(axis);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  const std::int64_t depth = q.dims().back();
  const double scale =
      options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(depth));
  Node scores = at(matmul(q, transpose(k, order, where), where)) * at(scale);
  const auto hide = [&](const Node& seen) { scores = select(at(seen), at(scores), at(-HUGE_VAL)); };
  if (Inside::of(mask) != nullptr) hide(mask);
  if (options.causal) {
    const std::int64_t queries = q.dims()[q.dims().size() - 2];
    const std::int64_t keys = k.dims()[k.dims().size() - 2];
    const Graph graph = graph_with(q, "attention");
    const Node every = broadcast_to(graph.constant(true, where), {queries, keys}, where);
    hide(tril(every, keys - queries, where));
  }
  return matmul(softmax(scores, -1, where), v, where);
}

Node split_key(const Node& key, std::int64_t count, CallSite where) {
  const At at{where};
  require_key(key, "split_key", where);
  const Node counter = graph_with(key, "split_key").iota({DType::u64, {count}}, 0, where);
  return threefry(at(key), at(Operand(counter, where) + Operand(split_from, where)));
}

Node fold_in(const Node& key, const Operand& data, CallSite where) {
  const At at{where};
  require_key(key, "fold_in", where);
  const Node counter =
      jit::operand_node(data, jit::graph_of(key, "fold_in"), DType::u64, "fold_in");
  return threefry(at(threefry(at(key), Operand(fold_counter, where))), at(counter));
}

Node random_bits(const Node& key, const Dims& dims, CallSite where) {
  const At at{where};
  require_key(key, "random_bits", where);
  return threefry(at(key), at(counters(graph_with(key, "random_bits"), dims, where)));
}

Node random_uniform(const Node& key, const Dims& dims, CallSite where) {
  return uniform(Operand(random_bits(key, dims, where), where));
}

Node random_normal(const Node& key, const Dims& dims, CallSite where) {
  const At at{where};
  const Node bits = random_bits(key, dims, where);
  // Radius and angle of one point: of the upper and the lower bits. 1 - u is in (0, 1].
  const Node radius = uniform(at(bits));
  const Node angle = uniform(at(Operand(bits, where) * Operand(std::uint64_t{1} << 32U, where)));
  const Node logarithm = log(at(at(1.0) - at(radius)));
  const Node length = sqrt(at(at(logarithm) * at(-2.0)));
  return at(length) * at(cos(at(at(angle) * at(2 * std::numbers::pi))));
}

Node bernoulli(const Node& key, const Operand& probability, const Dims& dims, CallSite where) {
  return Operand(random_uniform(key, dims, where), where) < probability;
}

Node categorical(const Node& key, const Node& logits, CallSite where) {
  const At at{where};
  static_cast<void>(jit::axis_of(logits, -1, "categorical", where));
  const Node chance = random_uniform(key, logits.dims(), where);
  // The centre of each of the 2^24 steps: neither 0 nor 1.
  const Node inside = at(chance) + at(0x1p-25);
  const Node noise = -at(log(at(-at(log(at(inside))))));
  return argmax(at(logits) + at(noise), -1, {}, where);
}

Node dropout(const Node& x, const Node& key, double rate, CallSite where) {
  const At at{where};
  static_cast<void>(jit::graph_of(x, "dropout"));
  if (!(rate >= 0 && rate < 1)) {
    jit::refuse_op("dropout", std::span(&x, 1),
                   fmt::format("the rate is {} (expected 0 up to, not including, 1)", rate), where);
  }
  const Node kept = at(random_uniform(key, x.dims(), where)) >= at(rate);
  return select(at(kept), at(at(x) / at(1 - rate)), at(0.0));
}

}  // namespace heddle
