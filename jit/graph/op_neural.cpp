// Layers of networks, composed from other operations.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "heddle/graph_ops.hpp"
#include "jit/graph/called.hpp"
#include "jit/graph/state.hpp"
#include "jit/system/inside.hpp"

namespace heddle {
namespace {

using jit::At;

/// Requires that `factor` broadcasts to the shape of `normal` without changing that shape.
const Node& require_factor(const Node& normal, const Node& factor, const jit::Called& call) {
  const std::array shapes{normal.dims(), factor.dims()};
  if (jit::broadcast_dims(shapes) == normal.dims()) return factor;
  call.refuse(fmt::format("{} does not broadcast to {}", factor.type().to_string(),
                          normal.type().to_string()));
}

void require_epsilon(double epsilon, const jit::Called& call) {
  if (epsilon >= 0 && std::isfinite(epsilon)) return;
  call.refuse(fmt::format("epsilon is {} (expected a number, 0 or more)", epsilon));
}

}  // namespace

Node softmax(const Node& given, std::int64_t axis, CallSite where) {
  const jit::Called call("softmax", where, given);
  const At at{where};
  const std::int64_t along = jit::axis_of(given, axis, call);
  const Node x = jit::as_floating(given, where);
  const Node largest = maximum(x, {along}, {.keep = true}, where);
  const Node terms = exp(at(at(x) - at(largest)));
  return at(terms) / at(sum(terms, {along}, {.keep = true}, where));
}

Node log_softmax(const Node& given, std::int64_t axis, CallSite where) {
  const jit::Called call("log_softmax", where, given);
  const At at{where};
  const std::int64_t along = jit::axis_of(given, axis, call);
  const Node x = jit::as_floating(given, where);
  const Node shifted = at(x) - at(maximum(x, {along}, {.keep = true}, where));
  const Node total = sum(exp(at(shifted)), {along}, {.keep = true}, where);
  return at(shifted) - at(log(at(total)));
}

Node layer_norm(const Node& x, const Node& scale, const Node& shift, double epsilon,
                CallSite where) {
  const jit::Called call("layer_norm", where, x, scale, shift);
  require_epsilon(epsilon, call);
  const At at{where};
  const std::int64_t last = jit::axis_of(x, -1, call);
  const Node distance = at(x) - at(mean(x, {last}, {.keep = true}, where));
  const Node spread = mean(at(distance) * at(distance), {last}, {.keep = true}, where);
  const Node normal = at(distance) * at(rsqrt(at(at(spread) + at(epsilon))));
  return at(at(normal) * at(require_factor(normal, scale, call))) +
         at(require_factor(normal, shift, call));
}

Node rms_norm(const Node& given, const Node& scale, double epsilon, CallSite where) {
  const jit::Called call("rms_norm", where, given, scale);
  require_epsilon(epsilon, call);
  const At at{where};
  const std::int64_t last = jit::axis_of(given, -1, call);
  const Node x = jit::as_floating(given, where);
  const Node square = mean(at(x) * at(x), {last}, {.keep = true}, where);
  const Node normal = at(x) * at(rsqrt(at(at(square) + at(epsilon))));
  return at(normal) * at(require_factor(normal, scale, call));
}

Node gelu(const Node& given, CallSite where) {
  const jit::Called call("gelu", where, given);
  const At at{where};
  const Node x = jit::as_floating(given, where);
  const Node share = at(erf(at(at(x) * at(std::numbers::sqrt2 / 2)))) + at(1.0);
  return at(at(x) * at(0.5)) * at(share);
}

Node sigmoid(const Node& given, CallSite where) {
  const jit::Called call("sigmoid", where, given);
  const At at{where};
  const Node x = jit::as_floating(given, where);
  return recip(at(at(exp(at(-at(x)))) + at(1.0)));
}

Node silu(const Node& given, CallSite where) {
  const jit::Called call("silu", where, given);
  const At at{where};
  const Node x = jit::as_floating(given, where);
  return at(x) / at(at(exp(at(-at(x)))) + at(1.0));
}

Node one_hot(const Node& indices, std::int64_t depth, DType dtype, CallSite where) {
  const jit::Called call("one_hot", where, indices);
  const At at{where};
  const Graph graph = jit::graph_with(indices);
  call.require_dtype(dtype);
  if (!is_integer(indices.dtype())) {
    call.refuse("indices are integers; cast them");
  }
  if (depth < 0) call.refuse(fmt::format("the depth is {} (expected 0 or more)", depth));
  // Vector code compares i32 beside elements of f32. Indices of other types are clamped to -1 and
  // the depth, which no place has, and stored as i32.
  constexpr std::int64_t narrow_max = std::numeric_limits<std::int32_t>::max();
  const DType own = indices.dtype();
  const bool widens = own != DType::i32 && jit::promote(own, DType::i32) == DType::i32;
  Node chosen = indices;
  DType type = own == DType::u64 ? DType::u64 : DType::i64;
  if (depth < narrow_max) {
    type = DType::i32;
    if (own != DType::i32 && !widens) {
      const Node below = min(at(indices), at(depth));
      const bool is_signed = own == DType::i64;
      chosen = keep(cast(is_signed ? max(at(below), at(std::int64_t{-1})) : below, type), where);
    }
  }
  const Node places = graph.iota({type, {depth}}, 0, where);
  return cast(at(at(expand_dims(chosen, {-1}, where)) == at(places)), dtype);
}

Node cross_entropy(const Node& logits, const Node& labels, CallSite where) {
  const jit::Called call("cross_entropy", where, logits, labels);
  const At at{where};
  const std::int64_t last = jit::axis_of(logits, -1, call);
  const Dims rows(std::vector<std::int64_t>(logits.dims().begin(), logits.dims().end() - 1));
  const bool integers = is_integer(labels.dtype());
  if (labels.dims() != rows || !integers) {
    call.refuse(
        fmt::format("labels are integers [{}], one for each row of logits", fmt::join(rows, ",")));
  }
  const std::int64_t classes = logits.dims()[static_cast<std::size_t>(last)];
  const Node chosen =
      one_hot(jit::nearest_places(labels, classes - 1, where), classes, DType::bool_, where);
  // A product with 0 would give NaN for a class whose log probability is -infinity.
  const Node loss = select(at(chosen), at(log_softmax(logits, last, where)), at(0.0));
  return -at(sum(loss, {-1}, {}, where));
}

Node attention(const Node& queries, const Node& all_keys, const Node& values,
               const AttentionOptions& options, const Node& mask, CallSite where) {
  const bool has_mask = Inside::of(mask) != nullptr;
  const jit::Called call("attention", where, queries, all_keys, values,
                         has_mask ? std::vector{mask} : std::vector<Node>());
  const At at{where};
  const Node q = jit::as_floating(queries, where), k = jit::as_floating(all_keys, where);
  const Node v = jit::as_floating(values, where);
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2)
    call.refuse("each has 2 axes at least: places and depth");
  if (!std::isfinite(options.scale)) {
    call.refuse(fmt::format("the scale is {} (expected a finite number; 0: 1 / sqrt(depth))",
                            options.scale));
  }
  const std::int64_t depth = q.dims().back();
  const double scale =
      options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(depth));
  Node scores =
      at(matmul(q, transpose(k, jit::swapped_axes(k.rank(), k.rank() - 1, k.rank() - 2), where),
                where)) *
      at(scale);
  const auto hide = [&](const Node& seen) { scores = select(at(seen), at(scores), at(-HUGE_VAL)); };
  if (has_mask) {
    if (mask.dtype() != DType::bool_) {
      call.refuse(
          "a mask is bool: whether a key is seen; compare, or add what is no mask to "
          "scores of your own");
    }
    if (jit::broadcast_dims(std::array{mask.dims(), scores.dims()}) != scores.dims()) {
      call.refuse(fmt::format("a mask {} does not broadcast to the scores, {}",
                              mask.type().to_string(), scores.type().to_string()));
    }
    hide(mask);
  }
  if (options.causal) {
    const std::int64_t from = q.dims()[q.dims().size() - 2];
    const std::int64_t to = k.dims()[k.dims().size() - 2];
    const Graph graph = jit::graph_with(queries);
    const Node every = broadcast_to(graph.constant(true, where), {from, to}, where);
    hide(tril(every, to - from, where));
  }
  return matmul(softmax(scores, -1, where), v, where);
}

Node dropout(const Node& x, const Node& key, double rate, CallSite where) {
  const jit::Called call("dropout", where, x, key);
  const At at{where};
  if (!(rate >= 0 && rate < 1)) {
    call.refuse(fmt::format("the rate is {} (expected 0 up to, not including, 1)", rate));
  }
  const Node kept = at(random_uniform(key, x.dims(), where)) >= at(rate);
  return select(at(kept), at(at(x) / at(1 - rate)), at(0.0));
}

}  // namespace heddle
