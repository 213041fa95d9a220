// What tests of traces share: a function of a tree of layers, and one that fails.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heddle/graph_ops.hpp"
#include "heddle/status.hpp"
#include "heddle/trace.hpp"
#include "support/failure.hpp"

namespace heddle::trace_test {

template <class T>
struct Dense {
  T weight;
  std::optional<T> bias;
};
template <class T>
HEDDLE_TREE(Dense<T>, weight, bias)

template <class T>
struct Net {
  std::vector<Dense<T>> layers;
  std::map<std::string, T> scales;
};
template <class T>
HEDDLE_TREE(Net<T>, layers, scales)

inline const ArrayType pair_of_f32{f32, {2}};

inline Net<ArrayType> net_types() {
  return {{{{f32, {2, 3}}, ArrayType{f32, {3}}}, {{f32, {3, 2}}, std::nullopt}},
          {{"in", {f32, {}}}, {"out/last", {f32, {2}}}}};
}
inline Node run_net(const Net<Node>& net, Node x) {
  x = x * net.scales.at("in");
  for (const Dense<Node>& layer : net.layers) {
    x = matmul(x, layer.weight);
    if (layer.bias) x = relu(x + *layer.bias);
  }
  return x * net.scales.at("out/last");
}

/// What a trace of the function ends with.
inline Status failed_trace(const TraceName& name, const std::function<Node(Node)>& function) {
  return failure([&] { static_cast<void>(trace(name, function, pair_of_f32)); });
}

}  // namespace heddle::trace_test
