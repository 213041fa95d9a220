// Arithmetic, comparisons, functions of elements, and casts.
#include "numpy/op_cases.hpp"

#include <algorithm>
#include <array>

namespace heddle::numpy {

/// The type among the four with the width of `like`.
static DType of_bits(DType like, const std::array<DType, 4>& types) {
  return *std::ranges::find(types, size_of(like), [](DType each) { return size_of(each); });
}
static Node bits_of(const Node& x) { return bitcast(x, of_bits(x.dtype(), {u8, u16, u32, u64})); }

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
      "max", numbers, special, matrix, [](auto& a, auto& b) { return max(a, b); },
      "np.maximum(a, b)");
  c.two(
      "min", numbers, special, matrix, [](auto& a, auto& b) { return min(a, b); },
      "np.minimum(a, b)");
  c.two("pow", floats, positive, matrix, [](auto& a, auto& b) { return pow(a, b); }, "a ** b");
  c.two(
      "pow of whole numbers", integers, matrix, positive,
      [](auto& a, auto& b) { return pow(a, b); }, "a ** b");
  c.two(
      "pow, negative powers", signed_integers, matrix, matrix,
      [](auto& a, auto& b) { return pow(a, b); }, "powers(a, b)");
  c.two("less", numbers, special, special, [](auto& a, auto& b) { return a < b; }, "a < b");
  c.two(
      "less or equal", numbers, special, special, [](auto& a, auto& b) { return a <= b; },
      "a <= b");
  c.two("equal", every, special, special, [](auto& a, auto& b) { return a == b; }, "a == b");
  c.two("not equal", every, special, special, [](auto& a, auto& b) { return a != b; }, "a != b");
  c.two("and", booleans, truths, truths, [](auto& a, auto& b) { return a && b; }, "a & b");
  c.two("or", booleans, truths, truths, [](auto& a, auto& b) { return a || b; }, "a | b");
  c.one("not", booleans, truths, [](auto& x) { return !x; }, "~a");
  c.more(
      "mul3", numbers, {special, matrix, matrix},
      [](const Graph&, const Nodes& x) { return mul3(x[0], x[1], x[2]); }, "a * b * c");
  c.two(
      "arg1", every, special, row, [](auto& a, auto& b) { return arg1(a, b); },
      "np.broadcast_arrays(a, b)[0]");
  c.two(
      "arg2", every, special, row, [](auto& a, auto& b) { return arg2(a, b); },
      "np.broadcast_arrays(a, b)[1]");
}

static void add_gates(Cases& c) {
  c.family("elementwise");
  c.one("identity", every, special, [](auto& x) { return identity(x); }, "a.copy()");
  c.one("relu", numbers, special, [](auto& x) { return relu(x); }, "np.maximum(a, 0)");
  c.two(
      "relu_gate", numbers, special, matrix, [](auto& a, auto& b) { return relu_gate(a, b); },
      "np.where(a > 0, b, 0)");
  c.one("satur01", numbers, special, [](auto& x) { return satur01(x); }, "np.clip(a, 0, 1)");
  c.two(
      "satur01_gate", numbers, special, matrix, [](auto& a, auto& b) { return satur01_gate(a, b); },
      "np.where((0 < a) & (a < 1), b, 0)");
  c.more(
      "where", every, {special, matrix, matrix},
      [](const Graph&, const Nodes& x) { return where(x[0] == x[1], x[1], x[2]); },
      "np.where(a == b, b, c)");
  c.more(
      "select", every, {special, special, matrix},
      [](const Graph&, const Nodes& x) { return select(x[0], x[1], x[2]); },
      "np.where(a != 0, b, c)");
  c.more(
      "clamp", numbers, {special}, [](const Graph&, const Nodes& x) { return clamp(x[0], 1, 3); },
      "np.clip(a, 1, 3)");
  c.more(
      "clamp, low above high", few, {special},
      [](const Graph&, const Nodes& x) { return clamp(x[0], 3, 1); },
      "np.maximum(3, np.minimum(a, 1))");
}

static void add_functions(Cases& c) {
  c.family("elementwise");
  c.one("abs", floats, special, [](auto& x) { return abs(x); }, "np.abs(a)");
  c.one("floor", floats, special, [](auto& x) { return floor(x); }, "np.floor(a)");
  c.one("ceil", floats, special, [](auto& x) { return ceil(x); }, "np.ceil(a)");
  c.one("trunc", floats, special, [](auto& x) { return trunc(x); }, "np.trunc(a)");
  c.one("exp", floats, special, [](auto& x) { return exp(x); }, "np.exp(a)");
  c.one(
      "exp of whole numbers", integers, matrix, [](auto& x) { return exp(x); },
      "np.exp(np.float64(a))");
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
  c.one(
      "sigmoid", numbers, matrix, [](auto& x) { return sigmoid(x); },
      "1 / (1 + np.exp(-np.float64(a)))");
  c.one("cast to f32", every, matrix, [](auto& x) { return cast(x, f32); }, "a.astype(np.float32)");
  c.one(
      "cast to i64", numbers, matrix, [](auto& x) { return cast(x, i64); },
      "np.trunc(a).astype(np.int64)");
  c.one("cast to bool", numbers, matrix, [](auto& x) { return cast(x, bool_); }, "a != 0");
  c.one("cast to f16", numbers, matrix, [](auto& x) { return cast(x, f16); }, "a");
  c.one("cast to u8", numbers, matrix, [](auto& x) { return cast(x, u8); }, "as_u8(a)");
  c.one(
      "bitcast to unsigned", numbers, special, [](auto& x) { return bits_of(x); },
      "unsigned(a, dtype)");
  c.one(
      "bitcast to signed", unsigned_integers, In{{4, 6}, V::bits},
      [](auto& x) { return bitcast(x, of_bits(x.dtype(), {i8, i16, i32, i64})); },
      "a.view(a.dtype.str.replace('u', 'i'))");
  c.one(
      "bitcast to floats", {u16, u32, u64}, In{{4, 6}, V::bits},
      [](auto& x) { return bitcast(x, of_bits(x.dtype(), {f16, f16, f32, f64})); },
      "np.float64(a.view(a.dtype.str.replace('u', 'f')))");
  c.one(
      "bitcast to bf16", {u16}, In{{4, 6}, V::bits}, [](auto& x) { return bitcast(x, bf16); },
      "np.float64(np.left_shift(a, 16, dtype=np.uint32).view(np.float32))");
}

void add_elementwise(Cases& c) {
  add_arithmetic(c);
  add_gates(c);
  add_functions(c);
}

void add_shapes_of_elementwise(Cases& c) {
  const std::vector<OpCase> plain = c.all;
  for (const In& shape : {scalar, nothing}) {
    for (OpCase each : plain) {
      if (each.name.find("broadcast") != std::string::npos) continue;
      const auto known = [&](DType dtype) { return std::ranges::count(each.types, dtype) > 0; };
      each.types = {known(f32) ? f32 : known(i32) ? i32 : each.types[0]};
      for (In& in : each.in) in = {shape.dims, in.values == V::any ? V::finite : in.values};
      each.shape = shape.dims.empty() ? "scalar" : "empty";
      c.all.push_back(std::move(each));
    }
  }
}

}  // namespace heddle::numpy
