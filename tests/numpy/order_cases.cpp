// Sorting, and searching in sorted arrays.
#include "numpy/op_cases.hpp"

namespace heddle::numpy {

void add_order(Cases& c) {
  c.family("order");
  const In ties{{4, 300}, V::finite}, odd_row{{6}, V::any}, table{{300}, V::any}, many{{2, 150}};
  c.more(
      "sort", every, {special}, [](const Graph&, const Nodes& x) { return sort(x[0], 0); },
      "np.sort(a, 0)");
  c.more(
      "sort, descending", every, {special},
      [](const Graph&, const Nodes& x) { return sort(x[0], -1, {.descending = true}); },
      "np.flip(np.sort(a), -1)");
  c.more(
      "sort, by two keys", every, {matrix, matrix},
      [](const Graph&, const Nodes& x) { return sort({x[0], x[1]}, -1, 2)[1]; },
      "np.take_along_axis(b, np.lexsort((b, a)), -1)");
  c.more(
      "argsort", every, {special}, [](const Graph&, const Nodes& x) { return argsort(x[0], 0); },
      "np.argsort(a, 0, kind='stable')");
  c.more(
      "argsort, long rows", numbers, {ties},
      [](const Graph&, const Nodes& x) { return argsort(x[0]); }, "np.argsort(a, kind='stable')");
  c.more(
      "top_k", every, {special}, [](const Graph&, const Nodes& x) { return top_k(x[0], 3).values; },
      "np.flip(np.sort(a), -1)[:, :3]");
  c.more(
      "top_k, places", wide_floats, {ties},
      [](const Graph&, const Nodes& x) { return top_k(x[0], 3).indices; },
      "299 - np.argsort(a[:, ::-1], kind='stable')[:, :-4:-1]");
  c.more(
      "searchsorted", every, {odd_row, special},
      [](const Graph&, const Nodes& x) { return searchsorted(sort(x[0]), x[1]); },
      "np.searchsorted(np.sort(a), b)");
  c.more(
      "searchsorted, right", numbers, {odd_row, special},
      [](const Graph&, const Nodes& x) { return searchsorted(sort(x[0]), x[1], Side::right); },
      "np.searchsorted(np.sort(a), b, 'right')");
  c.more(
      "searchsorted, many", wide_floats, {table, many},
      [](const Graph&, const Nodes& x) { return searchsorted(sort(x[0]), x[1], Side::right); },
      "np.searchsorted(np.sort(a), b, 'right')");
}

}  // namespace heddle::numpy
