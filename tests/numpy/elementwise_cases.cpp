// Arithmetic, comparisons, functions of elements, and casts.
#include "numpy/op_cases.hpp"

namespace heddle::numpy {

static void add_arithmetic(Cases& c) {
  c.family("elementwise");
  c.two("add", numbers, special, special, [](auto& a, auto& b) { return a + b; }, "a + b");
  c.two("add, broadcast", numbers, matrix, row, [](auto& a, auto& b) { return a + b; }, "a + b");
  c.two("subtract", numbers, special, special, [](auto& a, auto& b) { return a - b; }, "a - b");
  c.two("multiply", numbers, special, special, [](auto& a, auto& b) { return a * b; }, "a * b");
  c.two("divide", floats, special, special, [](auto& a, auto& b) { return a / b; }, "a / b");
  c.two(
      "divide, toward 0", integers, matrix, positive, [](auto& a, auto& b) { return a / b; },
      "np.trunc(a / b).astype(a.dtype)");
  c.two(
      "remainder", integers, matrix, positive, [](auto& a, auto& b) { return a % b; },
      "np.fmod(a, b)");
  c.one("negate", numbers, special, [](auto& x) { return -x; }, "-a");
  c.more(
      "fma", numbers, {matrix, matrix, matrix},
      [](const Graph&, const Nodes& x) { return fma(x[0], x[1], x[2]); }, "a * b + c");
  c.two("greater", numbers, special, special, [](auto& a, auto& b) { return a > b; }, "a > b");
  c.two(
      "greater or equal", numbers, special, special, [](auto& a, auto& b) { return a >= b; },
      "a >= b");
  c.two(
      "max", floats, special, matrix, [](auto& a, auto& b) { return max(a, b); },
      "np.maximum(a, b)");
  c.two(
      "max of whole numbers", integers, matrix, matrix, [](auto& a, auto& b) { return max(a, b); },
      "np.maximum(a, b)");
  c.two(
      "min", floats, special, matrix, [](auto& a, auto& b) { return min(a, b); },
      "np.minimum(a, b)");
  c.two("pow", wide_floats, positive, matrix, [](auto& a, auto& b) { return pow(a, b); }, "a ** b");
  c.two("less", numbers, special, special, [](auto& a, auto& b) { return a < b; }, "a < b");
  c.two(
      "less or equal", numbers, special, special, [](auto& a, auto& b) { return a <= b; },
      "a <= b");
  c.two("equal", every, special, special, [](auto& a, auto& b) { return a == b; }, "a == b");
  c.two("not equal", every, special, special, [](auto& a, auto& b) { return a != b; }, "a != b");
  c.two("and", booleans, truths, truths, [](auto& a, auto& b) { return a && b; }, "a & b");
  c.two("or", booleans, truths, truths, [](auto& a, auto& b) { return a || b; }, "a | b");
  c.one("not", booleans, truths, [](auto& x) { return !x; }, "~a");
}

static void add_functions(Cases& c) {
  c.family("elementwise");
  c.one("abs", floats, special, [](auto& x) { return abs(x); }, "np.abs(a)");
  c.one("floor", floats, special, [](auto& x) { return floor(x); }, "np.floor(a)");
  c.one("ceil", floats, special, [](auto& x) { return ceil(x); }, "np.ceil(a)");
  c.one("trunc", floats, special, [](auto& x) { return trunc(x); }, "np.trunc(a)");
  c.one("exp", floats, special, [](auto& x) { return exp(x); }, "np.exp(a)");
  c.one("exp2", floats, special, [](auto& x) { return exp2(x); }, "np.exp2(a)");
  c.one("log", floats, special, [](auto& x) { return log(x); }, "np.log(a)");
  c.one("log2", floats, special, [](auto& x) { return log2(x); }, "np.log2(a)");
  c.one("sin", floats, special, [](auto& x) { return sin(x); }, "np.sin(a)");
  c.one("cos", floats, special, [](auto& x) { return cos(x); }, "np.cos(a)");
  c.one("tanh", floats, special, [](auto& x) { return tanh(x); }, "np.tanh(a)");
  c.one("erf", floats, special, [](auto& x) { return erf(x); }, "erf(a)");
  c.one("sqrt", floats, special, [](auto& x) { return sqrt(x); }, "np.sqrt(a)");
  c.one("rsqrt", floats, positive, [](auto& x) { return rsqrt(x); }, "1 / np.sqrt(a)");
  c.one("recip", floats, special, [](auto& x) { return recip(x); }, "1 / a");
  c.one("relu", numbers, matrix, [](auto& x) { return relu(x); }, "np.maximum(a, 0)");
  c.one(
      "sigmoid", numbers, matrix, [](auto& x) { return sigmoid(x); },
      "1 / (1 + np.exp(-np.float64(a)))");
  c.more(
      "where", every, {matrix, matrix, matrix},
      [](const Graph&, const Nodes& x) { return where(x[0] == x[1], x[1], x[2]); },
      "np.where(a == b, b, c)");
  c.more(
      "clamp", numbers, {matrix}, [](const Graph&, const Nodes& x) { return clamp(x[0], 1, 3); },
      "np.clip(a, 1, 3)");
  c.one("cast to f32", every, matrix, [](auto& x) { return cast(x, f32); }, "a.astype(np.float32)");
  c.one(
      "cast to i64", numbers, matrix, [](auto& x) { return cast(x, i64); },
      "np.trunc(a).astype(np.int64)");
  c.one("cast to bool", numbers, matrix, [](auto& x) { return cast(x, bool_); }, "a != 0");
  c.one(
      "bitcast to u32", {DType::f32}, matrix, [](auto& x) { return bitcast(x, u32); },
      "a.astype(np.float32).view(np.uint32)");
}

void add_elementwise(Cases& c) {
  add_arithmetic(c);
  add_functions(c);
}

}  // namespace heddle::numpy
