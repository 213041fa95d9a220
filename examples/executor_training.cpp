// A perceptron learns handwritten digits. The weights are a variable; the function of a training
// step reads the variable and updates it in place. heddle derives no gradients: they are written by
// hand.
#include <heddle/heddle.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <span>
#include <vector>

using namespace heddle;

// Rows of 64 pixels from 0 to 16, and a label. E. Alpaydin, C. Kaynak (1998), UCI, CC BY 4.0.
constexpr std::uint8_t digits[] = {
#include "digits.inc"
};
constexpr std::int64_t pixels = 64, hidden = 64, classes = 10, batch = 32;
constexpr std::int64_t images = std::size(digits) / (pixels + 1), test_images = 357;
constexpr std::int64_t train_images = images - test_images;
static_assert(train_images % batch == 0);

template <class Leaf>
struct Layer {
  Leaf weight, bias;
};
template <class Leaf>
HEDDLE_TREE(Layer<Leaf>, weight, bias)

template <class Leaf>
struct Perceptron {
  Layer<Leaf> first, last;
};
template <class Leaf>
HEDDLE_TREE(Perceptron<Leaf>, first, last)

template <class Leaf>
struct Images {
  Leaf x, labels;  // [n, pixels], [n]
};
template <class Leaf>
HEDDLE_TREE(Images<Leaf>, x, labels)

Node apply(const Layer<Node>& layer, const Node& x) {
  return matmul(x, layer.weight) + layer.bias;
}

/// The layer after a gradient step; `error` is the gradient of the loss with respect to the layer's
/// output for input x.
Layer<Node> descend(const Layer<Node>& layer, const Node& x, const Node& error, const Node& rate) {
  return {layer.weight - rate * matmul(transpose(x), error), layer.bias - rate * sum(error, {0})};
}

/// Images and labels from index `first` on.
Images<Array> upload(const Device& device, std::int64_t first, std::int64_t count) {
  HostArray x({f32, {count, pixels}}), labels({i64, {count}});
  for (std::int64_t n = 0; n < count; ++n) {
    const auto row = std::span(digits).subspan((first + n) * (pixels + 1), pixels + 1);
    for (std::int64_t p = 0; p < pixels; ++p) x.set(n * pixels + p, row[p] / 16.0);
    labels.set(n, row[pixels]);
  }
  return {Array(device, x), Array(device, labels)};
}

/// Random weights with a variance that suits relu (K. He et al., ICCV 2015).
Layer<Array> initial(const Device& device, std::int64_t from, std::int64_t to, std::uint64_t seed) {
  HostArray weight = HostArray::uniform({f32, {from, to}}, seed);
  const float range = std::sqrt(6.0F / static_cast<float>(from));
  for (float& each : weight.values<float>()) each = (2 * each - 1) * range;
  return {Array(device, weight), Array::zeros(device, {f32, {to}})};
}

int main() try {
  auto backend = Backend::open();
  auto device = backend.physical_device(0).new_virtual_device();
  const Variable net("net", Perceptron<Array>{initial(device, pixels, hidden, 1),
                                              initial(device, hidden, classes, 2)});

  // One step on the images with numbers from position `from` of `order` on. Returns the mean loss.
  Executor learn(device, [=](const Graph& graph, const Images<Node>& all, const Node& order,
                             const Node& from, const Node& rate) {
    const Node chosen = dynamic_slice(order, {from}, {batch});
    const Node x = take(all.x, chosen), labels = take(all.labels, chosen);
    const auto [first, last] = net.read(graph);
    const Node seen = relu(apply(first, x)), answers = apply(last, seen);
    const Node error = (softmax(answers) - one_hot(labels, classes)) / double{batch};
    const Node error_seen = relu_gate(seen, matmul(error, transpose(last.weight)));
    net.update(graph, {descend(first, x, error_seen, rate), descend(last, seen, error, rate)});
    return mean(cross_entropy(answers, labels));
  });
  // The share of correctly classified images.
  Executor judge(device, [=](const Graph& graph, const Images<Node>& some) {
    const auto [first, last] = net.read(graph);
    const Node answers = apply(last, relu(apply(first, some.x)));
    return mean(cast(argmax(answers) == some.labels, f32));
  });
  // The numbers of all images, shuffled in each epoch.
  Executor shuffle(device, [](const Graph& graph, const Node& epoch) {
    return permutation(fold_in(graph.constant(1, u64), epoch), train_images);
  });

  const Images<Array> train = upload(device, 0, train_images);
  const Images<Array> test = upload(device, train_images, test_images);
  constexpr int epochs = 32;
  float share = 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const Array order = shuffle(epoch);
    const float rate = 0.5F * static_cast<float>(epochs + 1 - epoch) / epochs;
    std::vector<Array> losses;  // read once all steps are submitted
    for (std::int64_t from = 0; from < train_images; from += batch)
      losses.push_back(learn(train, order, from, rate));

    if (!std::has_single_bit(static_cast<unsigned>(epoch))) continue;
    double loss = 0;
    for (const Array& each : losses) loss += each.item<float>();
    share = judge(test).item<float>();
    std::printf("epoch %2d: loss %.2f, %.0f of 100 test images are told right\n", epoch,
                loss / static_cast<double>(losses.size()), 100 * static_cast<double>(share));
  }
  return share > 0.9F ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
