// Reductions, and indexing.
#include "numpy/op_cases.hpp"

namespace heddle::numpy {

void add_reductions(Cases& c) {
  c.family("reduction");
  c.more(
      "sum", numbers, {batch}, [](const Graph&, const Nodes& x) { return sum(x[0], {0, 2}); },
      "np.sum(a, (0, 2), dtype=a.dtype)");
  c.more(
      "product", numbers, {batch}, [](const Graph&, const Nodes& x) { return product(x[0], {1}); },
      "np.prod(a, 1, dtype=a.dtype)");
  c.one(
      "sum of truth values", booleans, matrix, [](auto& x) { return sum(x, {0}); },
      "np.sum(a, 0, dtype=np.int32)");
  c.one(
      "product of truth values", booleans, matrix, [](auto& x) { return product(x, {0}); },
      "np.prod(a, 0, dtype=np.int32)");
  c.one("maximum", numbers, special, [](auto& x) { return maximum(x, {1}); }, "np.max(a, 1)");
  c.one("minimum", numbers, special, [](auto& x) { return minimum(x, {0}); }, "np.min(a, 0)");
  c.one("all", every, matrix, [](auto& x) { return all(x, {1}); }, "np.all(a, 1)");
  c.one("any", every, matrix, [](auto& x) { return any(x, {1}); }, "np.any(a, 1)");
  c.one(
      "mean", every, matrix, [](auto& x) { return mean(x, {1}, {.keep = true}); },
      "np.mean(a, 1, keepdims=True)");
  c.one("variance", every, matrix, [](auto& x) { return variance(x, {1}); }, "np.var(a, 1)");
  c.one(
      "logsumexp", numbers, matrix, [](auto& x) { return logsumexp(x, {1}); },
      "np.log(np.sum(np.exp(np.float64(a)), 1))");
  c.one("argmax", numbers, special, [](auto& x) { return argmax(x, 1); }, "np.argmax(a, 1)");
  c.one("argmin", numbers, special, [](auto& x) { return argmin(x, 0); }, "np.argmin(a, 0)");
  c.one(
      "cumsum", numbers, matrix, [](auto& x) { return cumsum(x, 1); },
      "np.cumsum(a, 1, dtype=a.dtype)");
  c.one(
      "cumsum, each sum rounded", halves, In{{3, 40}}, [](auto& x) { return cast(cumsum(x), f32); },
      "running(a, dtype)");
  c.one(
      "cumsum, reverse", numbers, matrix, [](auto& x) { return cumsum(x, 0, {.reverse = true}); },
      "np.cumsum(a[::-1], 0, dtype=a.dtype)[::-1]");
  c.one(
      "cumprod", numbers, matrix, [](auto& x) { return cumprod(x, 0); },
      "np.cumprod(a, 0, dtype=a.dtype)");
  c.one(
      "cumprod, reverse", numbers, matrix, [](auto& x) { return cumprod(x, 1, {.reverse = true}); },
      "np.cumprod(a[:, ::-1], 1, dtype=a.dtype)[:, ::-1]");
  c.one(
      "cummax", numbers, special, [](auto& x) { return cummax(x, 1); },
      "np.maximum.accumulate(a, 1)");
  c.one(
      "cummax, reverse", numbers, special, [](auto& x) { return cummax(x, 1, {.reverse = true}); },
      "np.maximum.accumulate(a[:, ::-1], 1)[:, ::-1]");
  c.one(
      "window_sum", numbers, matrix,
      [](auto& x) { return window_sum(x, {.size = {2, 3}, .step = {1, 2}}); },
      "windows(a, (2, 3), (1, 2)).sum((2, 3), dtype=a.dtype)");
  c.one(
      "window_maximum", numbers, matrix,
      [](auto& x) { return window_maximum(x, {.size = {2, 2}}); },
      "windows(a, (2, 2), (2, 2)).max((2, 3))");
  c.one(
      "window_minimum", numbers, matrix,
      [](auto& x) { return window_minimum(x, {.size = {2, 2}}); },
      "windows(a, (2, 2), (2, 2)).min((2, 3))");
}

void add_indexing(Cases& c) {
  c.family("indexing");
  const In places{{5}, V::places}, along{{4, 3}, V::places}, updates{{5, 6}};
  c.two(
      "take", every, matrix, places, [](auto& x, auto& i) { return take(x, i, 1); },
      "a[:, np.clip(b, 0, 5)]");
  c.two(
      "take_along_axis", every, matrix, along,
      [](auto& x, auto& i) { return take_along_axis(x, i, 1); },
      "np.take_along_axis(a, np.clip(b, 0, 5), 1)");
  c.more(
      "gather", every, {matrix, places, places},
      [](const Graph&, const Nodes& x) { return gather(x[0], {x[1], x[2]}); },
      "a[np.clip(b, 0, 3), np.clip(c, 0, 5)]");
  c.more(
      "dynamic_slice", every, {matrix, {{}, V::places}},
      [](const Graph&, const Nodes& x) { return dynamic_slice(x[0], {x[1], 1}, {2, 3}); },
      "a[np.clip(b, 0, 2):np.clip(b, 0, 2) + 2, 1:4]");
  c.more(
      "dynamic_update_slice", every, {matrix, {{2, 3}}, {{}, V::places}},
      [](const Graph&, const Nodes& x) { return dynamic_update_slice(x[0], x[1], {x[2], 1}); },
      "updated(a, b, np.clip(c, 0, 2), 1)");
  for (const auto& [name, how] : {std::pair{"set", Scatter::set},
                                  {"add", Scatter::add},
                                  {"multiply", Scatter::multiply},
                                  {"maximum", Scatter::maximum},
                                  {"minimum", Scatter::minimum}}) {
    c.more(
        "scatter, " + std::string(name), numbers, {matrix, places, updates},
        [which = how](const Graph&, const Nodes& x) { return scatter(x[0], {x[1]}, x[2], which); },
        "scattered(a, b, c, '" + std::string(name) + "')");
  }
}

}  // namespace heddle::numpy
