// exp, sin and similar functions in f32, from the first-level cache: the cost of an element,
// against vector functions of other libraries, whose errors differ (jit/value/README.md).
#include <fmt/format.h>

#include <string>

#include "tools/bench/cases.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/vector_functions.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t math_elements = 1024;

struct Function {
  const char* name;
  Expr (*of)(const Expr& x);
  float lowest, highest;  ///< arguments
};
constexpr Function functions[] = {
    {"exp", [](const Expr& x) { return exp(x); }, -80, 80},
    {"exp2", [](const Expr& x) { return exp2(x); }, -120, 120},
    {"log", [](const Expr& x) { return log(x); }, 0.001F, 1000},
    {"log2", [](const Expr& x) { return log2(x); }, 0.001F, 1000},
    {"sin", [](const Expr& x) { return sin(x); }, -30, 30},
    {"cos", [](const Expr& x) { return cos(x); }, -30, 30},
    {"tanh", [](const Expr& x) { return tanh(x); }, -5, 5},
    {"erf", [](const Expr& x) { return erf(x); }, -3, 3},
};

KernelSetup setup_of(const Function& function) {
  KernelSetup made{Program(function.name), {}, {}};
  const Tensor x = made.add("x", {math_elements}), out = made.add("out", {math_elements});
  for (float& value : made.arrays[0].values<float>())
    value = function.lowest + value * (function.highest - function.lowest);
  const Index i;
  made.program << (out(i) = function.of(x(i)));
  return made;
}

Alternative by_vectors(const char* library, VectorFunction (*find)(const std::string&),
                       const char* name) {
  return {library, Kind::rival, [find, name](const KernelSetup& made) {
            return in_process([function = find(name), &made] {
              function(static_cast<std::size_t>(math_elements), made.data(0), made.data(1));
            });
          }};
}

}  // namespace

void add_math_rows(std::vector<Row>& rows) {
  for (const Function& function : functions) {
    add_kernel_rows(rows, {"math",
                           fmt::format("{}, {} of f32", function.name, math_elements),
                           100,
                           [&function] { return setup_of(function); },
                           {by_vectors("libmvec", VectorFunction::libmvec, function.name),
                            by_vectors("SLEEF", VectorFunction::sleef, function.name)}});
  }
}

}  // namespace heddle::bench
