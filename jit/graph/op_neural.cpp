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

/// `factor` goes with what it scales or shifts, whose shape it leaves as it is.
const Node& require_factor(const Node& normal, const Node& factor, std::string_view what, At at) {
  const std::array operands{normal, factor};
  static_cast<void>(jit::common_graph(operands, what, at.where));
  const std::array shapes{normal.dims(), factor.dims()};
  if (jit::broadcast_dims(shapes) == normal.dims()) return factor;
  jit::refuse_op(what, operands, "the other one is to broadcast to the shape of the first",
                 at.where);
}

/// Integers count as f32.
Node floats(const Node& x, std::string_view what, CallSite where) {
  static_cast<void>(jit::graph_of(x, what));
  return jit::as_floating(x, where);
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
  const Node flat = graph.iota({DType::u64, {*count}}, 0, where);
  return reshape(flat, std::vector<std::int64_t>(dims.begin(), dims.end()), where);
}

// Counters below 2^62 are elements'; these keep keys apart from bits.
constexpr std::uint64_t split_from = std::uint64_t{1} << 63U;
constexpr std::uint64_t fold_counter = std::uint64_t{1} << 62U;

}  // namespace

Node softmax(const Node& given, std::int64_t axis, CallSite where) {
  const At at{where};
  const std::int64_t along = jit::axis_of(given, axis, "softmax", where);
  const Node x = floats(given, "softmax", where);
  const Node largest = maximum(x, {along}, {.keep = true}, where);
  const Node terms = exp(at(at(x) - at(largest)));
  return at(terms) / at(sum(terms, {along}, {.keep = true}, where));
}

Node log_softmax(const Node& given, std::int64_t axis, CallSite where) {
  const At at{where};
  const std::int64_t along = jit::axis_of(given, axis, "log_softmax", where);
  const Node x = floats(given, "log_softmax", where);
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
  return at(at(normal) * at(require_factor(normal, scale, "layer_norm", at))) +
         at(require_factor(normal, shift, "layer_norm", at));
}

Node rms_norm(const Node& given, const Node& scale, double epsilon, CallSite where) {
  const At at{where};
  const std::int64_t last = jit::axis_of(given, -1, "rms_norm", where);
  const Node x = floats(given, "rms_norm", where);
  const Node square = mean(at(x) * at(x), {last}, {.keep = true}, where);
  const Node normal = at(x) * at(rsqrt(at(at(square) + at(epsilon))));
  return at(normal) * at(require_factor(normal, scale, "rms_norm", at));
}

Node gelu(const Node& given, CallSite where) {
  const At at{where};
  const Node x = floats(given, "gelu", where);
  const Node share = at(erf(at(at(x) * at(std::numbers::sqrt2 / 2)))) + at(1.0);
  return at(at(x) * at(0.5)) * at(share);
}

Node sigmoid(const Node& given, CallSite where) {
  const At at{where};
  const Node x = floats(given, "sigmoid", where);
  return recip(at(at(exp(at(-at(x)))) + at(1.0)));
}

Node silu(const Node& given, CallSite where) {
  const At at{where};
  const Node x = floats(given, "silu", where);
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
  const Dims rows(std::vector<std::int64_t>(logits.dims().begin(), logits.dims().end() - 1));
  const bool integers = is_integer(labels.dtype()) && labels.dtype() != DType::bool_;
  if (labels.dims() != rows || !integers) {
    jit::refuse_op(
        "cross_entropy", operands,
        fmt::format("labels are integers [{}], one for each row of logits", fmt::join(rows, ",")),
        where);
  }
  const std::int64_t classes = logits.dims()[static_cast<std::size_t>(last)];
  const Node chosen =
      one_hot(jit::nearest_places(labels, classes - 1, where), classes, DType::bool_, where);
  // A product with 0 would make NaN of classes that are impossible.
  const Node loss = select(at(chosen), at(log_softmax(logits, last, where)), at(0.0));
  return -at(sum(loss, {-1}, {}, where));
}

Node attention(const Node& queries, const Node& all_keys, const Node& values,
               const AttentionOptions& options, const Node& mask, CallSite where) {
  const At at{where};
  const std::array operands{queries, all_keys, values};
  static_cast<void>(jit::common_graph(operands, "attention", where));
  const Node q = jit::as_floating(queries, where), k = jit::as_floating(all_keys, where);
  const Node v = jit::as_floating(values, where);
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
  if (Inside::of(mask) != nullptr) {
    if (mask.dtype() != DType::bool_) {
      jit::refuse_op("attention", std::span(&mask, 1),
                     "a mask is bool: whether a key is seen; compare, or add what is no mask to "
                     "scores of your own",
                     where);
    }
    hide(mask);
  }
  if (options.causal) {
    const std::int64_t from = q.dims()[q.dims().size() - 2];
    const std::int64_t to = k.dims()[k.dims().size() - 2];
    const Graph graph = graph_with(q, "attention");
    const Node every = broadcast_to(graph.constant(true, where), {from, to}, where);
    hide(tril(every, to - from, where));
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
  if (!data.number() && !is_integer(data.node().dtype())) {
    const Node node = data.node();
    jit::refuse_op("fold_in", std::span(&node, 1), "keys are made of integers; cast it", where);
  }
  const Node counter =
      jit::operand_node(data, jit::graph_of(key, "fold_in"), DType::u64, "fold_in");
  return threefry(at(threefry(at(key), Operand(fold_counter, where))), at(counter));
}

Node random_bits(const Node& key, const Dims& dims, CallSite where) {
  const At at{where};
  require_key(key, "random_bits", where);
  if (!ArrayType{DType::u64, dims}.num_bytes()) {
    jit::refuse_op(
        "random_bits", std::span(&key, 1),
        fmt::format("u64[{}] passes 2^63 bytes, or has a negative extent", fmt::join(dims, ",")),
        where);
  }
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

Node categorical(const Node& key, const Node& given, CallSite where) {
  const At at{where};
  static_cast<void>(jit::axis_of(given, -1, "categorical", where));
  const Node logits = floats(given, "categorical", where);
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
