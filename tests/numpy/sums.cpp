// Reductions of many terms: prints a line of JSON per case, which sums.py compares with exact sums
// and NumPy's. Usage: sums [TERMS [TYPE]]; element k of an array depends on k alone, see sums.py.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "heddle/executor.hpp"
#include "heddle/heddle.hpp"

namespace {

using namespace heddle;

struct Reduction {
  const char* name;
  std::function<Node(Node, const std::vector<std::int64_t>&)> of;
};
const Reduction reductions[] = {
    {"sum", [](Node x, const auto& axes) { return sum(x, axes); }},
    {"mean", [](Node x, const auto& axes) { return mean(x, axes); }},
    {"variance", [](Node x, const auto& axes) { return variance(x, axes); }},
    {"sum of squares", [](Node x, const auto& axes) { return sum(x * x, axes); }},
    {"logsumexp", [](Node x, const auto& axes) { return logsumexp(x, axes); }},
};

struct Shape {
  const char* name;
  Dims dims;
  std::vector<std::int64_t> axes;
  bool turned = false;  ///< the transposed array is reduced
};
std::vector<Shape> shapes(std::int64_t n) {
  return {{"one row", {n}, {0}},
          {"[.., 3], all", {n / 3 / 1024, 1024, 3}, {0, 1, 2}},
          {"[.., 4], transposed, all", {n / 4, 4}, {0, 1}, true},
          {"columns of 2", {n / 2, 2}, {0}},
          {"columns of 5", {n / 5, 5}, {0}},
          {"columns of 64", {n / 64, 64}, {0}},
          {"[4, .., 3], axes 1 and 2", {4, n / 12, 3}, {1, 2}},
          {"[.., 16, 3], axes 0 and 2", {n / 48, 16, 3}, {0, 2}},
          {"[.., 4096], axis 1", {n / 4096, 4096}, {1}}};
}

/// Element k: 24 pseudo-random bits, as a number from 0 to 1.
template <class T>
std::vector<T> elements(std::int64_t count) {
  std::vector<T> all(static_cast<std::size_t>(count));
  for (std::uint32_t k = 0; k < all.size(); ++k) {
    const std::uint32_t mixed = (k ^ (k >> 15)) * 2654435761U;
    all[k] = T(static_cast<float>((mixed ^ (mixed >> 13)) >> 8) / static_cast<float>(1 << 24));
  }
  return all;
}

template <class T>
void run(const Device& device, std::int64_t terms) {
  for (const Shape& shape : shapes(terms)) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape.dims) count *= extent;
    const Array x(device, shape.dims, elements<T>(count));
    for (const Reduction& each : reductions) {
      const Executor reduce(device, [&](Node a) {
        const Node wide = size_of(a.type().dtype) == 2 ? cast(a, f32) : a;
        return cast(each.of(shape.turned ? transpose(wide) : wide, shape.axes), f64);
      });
      std::cout << nlohmann::json{{"reduction", each.name},
                                  {"dtype", name(x.type().dtype)},
                                  {"shape", shape.name},
                                  {"dims", shape.dims},
                                  {"axes", shape.axes},
                                  {"turned", shape.turned},
                                  {"values", reduce(x).template values<double>()}}
                << std::endl;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t terms = argc > 1 ? std::strtoll(argv[1], nullptr, 10) : 1 << 20;
  const Device device = Backend::open().physical_device(0).new_virtual_device();
  const auto wanted = [&](std::string_view type) { return argc < 3 || argv[2] == type; };
  if (wanted("f32")) run<float>(device, terms);
  if (wanted("f64")) run<double>(device, terms);
  if (wanted("f16")) run<Float16>(device, terms);
  if (wanted("bf16")) run<BFloat16>(device, terms);
}
