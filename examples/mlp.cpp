// MLP inference: a network is a vector of layers, and a layer is a struct of arrays. The function
// that applies the network is traced; the weights are host arrays, read by the device in place.
#include <heddle/heddle.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

using namespace heddle;

// One template for layers of types, of nodes and of arrays.
template <class Leaf>
struct Dense {
  Leaf weight, bias;
};
template <class Leaf>
HEDDLE_TREE(Dense<Leaf>, weight, bias)

template <class Leaf>
using Mlp = std::vector<Dense<Leaf>>;

Node classify(const Graph& graph, const Mlp<Node>& mlp, Node x) {
  for (std::size_t k = 0; k < mlp.size(); ++k) {
    const auto scope = graph.scope("layers/" + std::to_string(k));
    x = matmul(x, mlp[k].weight) + mlp[k].bias;
    if (k + 1 < mlp.size()) x = relu(x);
  }
  return softmax(x);
}

/// Numbers between -range and range.
HostArray numbers(Dims dims, double range, std::uint64_t seed) {
  HostArray array = HostArray::uniform({f32, std::move(dims)}, seed);
  for (float& each : array.values<float>()) each = static_cast<float>((2 * each - 1) * range);
  return array;
}

/// The same computation by plain loops, for one row of x.
std::vector<float> expected(const Mlp<HostArray>& mlp, std::span<const float> row) {
  std::vector<float> x(row.begin(), row.end());
  for (std::size_t k = 0; k < mlp.size(); ++k) {
    const auto weight = mlp[k].weight.values<float>(), bias = mlp[k].bias.values<float>();
    std::vector<float> y(bias.begin(), bias.end());
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < y.size(); ++j) y[j] += x[i] * weight[i * y.size() + j];
    }
    if (k + 1 < mlp.size()) std::ranges::for_each(y, [](float& v) { v = std::max(v, 0.0F); });
    x = std::move(y);
  }
  float sum = 0;
  for (float& v : x) sum += v = std::exp(v);
  for (float& v : x) v /= sum;
  return x;
}

int main() try {
  Mlp<HostArray> weights;
  const std::vector<std::int64_t> sizes{64, 48, 32, 10};
  for (std::size_t k = 0; k + 1 < sizes.size(); ++k) {
    const double range = 4 / std::sqrt(static_cast<double>(sizes[k]));
    weights.push_back({numbers({sizes[k], sizes[k + 1]}, range, 2 * k),
                       numbers({sizes[k + 1]}, range, 2 * k + 1)});
  }

  // Traced for the types of these weights, and for batches of 32.
  const auto types =
      tree_map<HostArray>(weights, [](const HostArray& each) { return each.type(); });
  const auto traced = trace("mlp", classify, types, ArrayType{f32, {32, sizes.front()}});
  for (const Tensor& parameter : traced.program().parameters)
    std::printf("%s %s\n", parameter.label().c_str(), parameter.type().to_string().c_str());

  const GraphProgram mlp = traced.program();
  const HostArray x = numbers({32, sizes.front()}, 1, 99);
  const std::vector<HostArray> arguments = traced.flatten_arguments<HostArray>(weights, x);
  const std::size_t last = arguments.size() - 1;  // x, written for each batch
  for (std::size_t k = 0; k < last; ++k)
    mlp.parameters[k].set_host(arguments[k], MemoryMode::hosted_constant);

  auto backend = Backend::open();
  auto device = backend.physical_device(0).new_virtual_device();
  Routine run = Context(device).link(backend.compile(mlp.program));
  run.context().write(mlp.parameters[last], std::span<const float>(x.values<float>()));
  run.schedule();
  const std::vector<float> shares = run.context().read<float>(mlp.results[0]);

  double worst = 0;
  for (std::size_t row = 0; row < 32; ++row) {
    const auto wanted =
        expected(weights, std::span<const float>(x.values<float>()).subspan(row * 64, 64));
    for (std::size_t k = 0; k < 10; ++k)
      worst = std::max<double>(worst, std::abs(shares[row * 10 + k] - wanted[k]));
  }
  for (std::size_t row = 0; row < 3; ++row) {
    const auto first = shares.begin() + static_cast<std::ptrdiff_t>(row * 10);
    const auto best = std::max_element(first, first + 10);
    std::printf("row %zu is of class %td by %.2f\n", row, best - first, *best);
  }
  std::printf("as plain loops compute it: %s\n", worst < 1e-5 ? "yes" : "no");
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
