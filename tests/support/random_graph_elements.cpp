// Elementwise operations: every such operation of Operand.
#include <array>

#include "support/random_graph_generator.hpp"

namespace heddle::jit::testing {

Node GraphGenerator::elementwise() {
  constexpr std::array<Make, 8> makes{&GraphGenerator::arithmetic, &GraphGenerator::arithmetic,
                                      &GraphGenerator::arithmetic, &GraphGenerator::compared,
                                      &GraphGenerator::of_one,     &GraphGenerator::of_one,
                                      &GraphGenerator::retyped,    &GraphGenerator::hashed};
  return (this->*makes[static_cast<std::size_t>(below(makes.size()))])();
}

Node GraphGenerator::arithmetic() {
  const Node a = any();
  const Node b = one_of(3) ? any() : alike(a);
  switch (below(16)) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return a / b;
    case 4:
      return a % b;
    case 5:
      return max(a, b);
    case 6:
      return min(a, one_of(2) ? Operand(2) : Operand(b));
    case 7:
      return fma(a, b, 1);
    case 8:
      return mul3(a, b, 0.5);
    case 9:
      return clamp(a, 0, one_of(2) ? Operand(1) : Operand(b));
    case 10:
      return pow(abs(cast(a, DType::f32)), min(b, 2));
    case 11:
      return pow(a, 1 + below(3));
    case 12:
      return relu_gate(a, b);
    case 13:
      return satur01_gate(a, b);
    case 14:
      return one_of(2) ? arg1(a, b) : arg2(a, b);
    default:
      return a - b * a;
  }
}

Node GraphGenerator::compared() {
  const Node a = any();
  const Node b = one_of(3) ? any() : alike(a);
  switch (below(9)) {
    case 0:
      return where(a < b, a, b);
    case 1:
      return a == b || a != a;
    case 2:
      return a <= b && b != 0;
    case 3:
      return !(a > b);
    case 4:
      return a >= b;
    case 5:
      return where(cast(a, DType::bool_), b, 1);
    case 6:
      return select(a != b, 0, a);
    case 7:
      return !a;
    default:
      return where(any() > 0, a, b);
  }
}

Node GraphGenerator::of_one() {
  const Node& a = any();
  const Node small = clamp(cast(a, one_of(4) ? DType::f64 : DType::f32), -20, 20);
  switch (below(22)) {
    case 0:
      return -a;
    case 1:
      return abs(a);
    case 2:
      return relu(a);
    case 3:
      return satur01(a);
    case 4:
      return trunc(a);
    case 5:
      return floor(a / 2);
    case 6:
      return ceil(a * 0.75);
    case 7:
      return sqrt(abs(a));
    case 8:
      return recip(a);
    case 9:
      return rsqrt(a);
    case 10:
      return exp(small);
    case 11:
      return log(a);
    case 12:
      return exp2(a);
    case 13:
      return log2(abs(a));
    case 14:
      return sin(a);
    case 15:
      return cos(small);
    case 16:
      return tanh(a);
    case 17:
      return erf(a);
    case 18:
      return gelu(a);
    case 19:
      return silu(a);
    case 20:
      return sigmoid(a);
    default:
      return identity(a);
  }
}

Node GraphGenerator::retyped() {
  const Node& a = any();
  if (one_of(2)) return cast(a, dtype());
  for (int tries = 0; tries < 20; ++tries) {
    const DType to = dtype();
    if (size_of(to) == size_of(a.dtype()) && to != DType::bool_) return bitcast(a, to);
  }
  return cast(a, DType::f16);
}

Node GraphGenerator::hashed() {
  const Node a = cast(any(), DType::u64);
  const Node bits = one_of(2) ? threefry(a, below(9)) : threefry_light(below(9), a);
  return one_of(2) ? bits : uniform(bits);
}

}  // namespace heddle::jit::testing
