// See operations.hpp.
#include "tools/explain/operations.hpp"

#include "jit/describe/expr.hpp"
#include "jit/system/inside.hpp"

namespace heddle::tools {

using Unary = Expr (*)(const Expr&);
using Binary = Expr (*)(const Expr&, const Expr&);
using Ternary = Expr (*)(const Expr&, const Expr&, const Expr&);

namespace {

/// As bitcast() shows in a program's text.
Expr bits(const Expr& x) { return bitcast(x, Inside::of(x)->dtype == f64 ? u64 : u32); }
Expr from_bits(const Expr& x) { return bitcast(x, Inside::of(x)->dtype == u64 ? f64 : f32); }

}  // namespace

const std::map<std::string_view, Unary>& unary_calls() {
  static const std::map<std::string_view, Unary> calls{
      {"relu", relu},          {"satur01", satur01},   {"abs", abs},         {"trunc", trunc},
      {"floor", floor},        {"ceil", ceil},         {"exp", exp},         {"log", log},
      {"exp2", exp2},          {"log2", log2},         {"sin", sin},         {"cos", cos},
      {"tanh", tanh},          {"erf", erf},           {"sqrt", sqrt},       {"recip", recip},
      {"rsqrt", rsqrt},        {"identity", identity}, {"uniform", uniform}, {"bits", bits},
      {"from_bits", from_bits}};
  return calls;
}
const std::map<std::string_view, Binary>& binary_calls() {
  static const std::map<std::string_view, Binary> calls{{"pow", pow},
                                                        {"max", max},
                                                        {"min", min},
                                                        {"relu_gate", relu_gate},
                                                        {"arg1", arg1},
                                                        {"arg2", arg2},
                                                        {"threefry", threefry},
                                                        {"satur01_gate", satur01_gate},
                                                        {"threefry_light", threefry_light}};
  return calls;
}
const std::map<std::string_view, Ternary>& ternary_calls() {
  static const std::map<std::string_view, Ternary> calls{
      {"where", where}, {"fma", fma}, {"mul3", mul3}};
  return calls;
}
const std::map<std::string_view, Reduction (*)(Expr)>& reductions() {
  static const std::map<std::string_view, Reduction (*)(Expr)> calls{
      {"sum", sum},         {"product", product}, {"maximum", maximum},
      {"minimum", minimum}, {"all", all},         {"any", any}};
  return calls;
}

std::span<const Operator> operators() {
  using E = const Expr&;
  static constexpr Operator all[] = {
      {"||", 1, [](E a, E b) -> Expr { return a || b; }},
      {"&&", 2, [](E a, E b) -> Expr { return a && b; }},
      {"==", 3, [](E a, E b) -> Expr { return a == b; }},
      {"!=", 3, [](E a, E b) -> Expr { return a != b; }},
      {"<", 4, [](E a, E b) -> Expr { return a < b; }},
      {"<=", 4, [](E a, E b) -> Expr { return a <= b; }},
      {">", 4, [](E a, E b) -> Expr { return a > b; }},
      {">=", 4, [](E a, E b) -> Expr { return a >= b; }},
      {"+", 5, [](E a, E b) -> Expr { return a + b; }},
      {"-", 5, [](E a, E b) -> Expr { return a - b; }},
      {"*", 6, [](E a, E b) -> Expr { return a * b; }},
      {"/", 6, [](E a, E b) -> Expr { return a / b; }},
      {"%", 6, [](E a, E b) -> Expr { return a % b; }},
  };
  return all;
}

}  // namespace heddle::tools
