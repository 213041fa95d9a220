// A small convolution net learns handwritten digits: fixed filters with pooled outputs, and a
// trained last layer. heddle derives no gradients; the gradient of the cross entropy with respect
// to the last layer's outputs is softmax(answers) - one_hot(labels), written by hand.
#include <heddle/heddle.hpp>

#include <array>
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
constexpr std::int64_t side = 8, pixels = side * side, classes = 10, filters = 24;
constexpr std::int64_t images = std::size(digits) / (pixels + 1), test_images = 360;
constexpr std::int64_t train_images = images - test_images;
constexpr std::int64_t features = filters * 3 * 3;

/// The last layer's input for images [n, 8, 8]: [n, features].
Node see(const Node& x, const Node& filter) {
  const Node found = relu(conv(expand_dims(x, {1}), filter));               // [n, filters, 6, 6]
  return reshape(window_maximum(found, {.size = {2, 2}}), {-1, features});  // of [n, filters, 3, 3]
}

template <class Leaf>
struct Layer {
  Leaf weight, bias;
};
template <class Leaf>
HEDDLE_TREE(Layer<Leaf>, weight, bias)

struct Trained {
  Layer<Node> layer;
  Node loss;
};
HEDDLE_TREE(Trained, layer, loss)

/// One gradient step on the mean cross entropy, over all images at once.
Trained train(const Node& x, const Node& labels, const Node& filter, const Layer<Node>& layer) {
  const Node seen = see(x, filter);
  const Node answers = matmul(seen, layer.weight) + layer.bias;
  const Node error = (softmax(answers) - one_hot(labels, classes)) / double{train_images};
  const double rate = 0.5;
  return {
      {layer.weight - rate * matmul(transpose(seen), error), layer.bias - rate * sum(error, {0})},
      mean(cross_entropy(answers, labels))};
}

/// The share of correctly classified images.
Node test(const Node& x, const Node& labels, const Node& filter, const Layer<Node>& layer) {
  const Node answers = matmul(see(x, filter), layer.weight) + layer.bias;
  return mean(cast(argmax(answers) == labels, f32));
}

/// Images and labels from index `first` on.
struct Images {
  HostArray x, labels;
};
Images take_images(std::int64_t first, std::int64_t count) {
  Images taken{HostArray({f32, {count, side, side}}), HostArray({i64, {count}})};
  for (std::int64_t n = 0; n < count; ++n) {
    const auto row = std::span(digits).subspan((first + n) * (pixels + 1), pixels + 1);
    for (std::int64_t p = 0; p < pixels; ++p) {
      taken.x.values<float>()[n * pixels + p] = static_cast<float>(row[p]) / 16;
    }
    taken.labels.values<std::int64_t>()[n] = row[pixels];
  }
  return taken;
}

int main() try {
  HostArray filter = HostArray::uniform({f32, {filters, 1, 3, 3}}, 5);
  for (float& each : filter.values<float>()) each = 2 * each - 1;
  const Layer<ArrayType> layer{{f32, {features, classes}}, {f32, {classes}}};

  auto backend = Backend::open();
  auto device = backend.physical_device(0).new_virtual_device();
  // Images, labels and filters come first among the parameters of both functions.
  const auto give = [&](const GraphProgram& program, const Images& some) {
    program.parameters[0].set_host(some.x, MemoryMode::hosted_constant);
    program.parameters[1].set_host(some.labels, MemoryMode::hosted_constant);
    program.parameters[2].set_host(filter, MemoryMode::hosted_constant);
  };
  const Images known = take_images(0, train_images), asked = take_images(train_images, test_images);
  const GraphProgram learn =
      trace("train", train, known.x.type(), known.labels.type(), filter.type(), layer).program();
  const GraphProgram judge =
      trace("test", test, asked.x.type(), asked.labels.type(), filter.type(), layer).program();
  give(learn, known);
  give(judge, asked);

  // Even steps compute the second layer from the first, odd steps the first from the second. Memory
  // starts as zeros.
  const auto tensors = [&](const GraphProgram& program) {
    return std::span(program.parameters).last(2);
  };
  std::array<std::array<Buffer, 2>, 2> layers{
      {{Buffer::allocate(device, layer.weight), Buffer::allocate(device, layer.bias)},
       {Buffer::allocate(device, layer.weight), Buffer::allocate(device, layer.bias)}}};
  const Code code = backend.compile(learn.program);
  std::vector<Routine> steps;
  for (std::size_t turn = 0; turn < 2; ++turn) {
    Context context(device);
    for (std::size_t k = 0; k < 2; ++k) {
      const ArrayType& type = k == 0 ? layer.weight : layer.bias;
      context = context.with(tensors(learn)[k], {layers[turn][k], type})
                    .with(learn.results[k], {layers[1 - turn][k], type});
    }
    steps.push_back(context.link(code));
  }
  const Routine tells = Context(device)
                            .with(tensors(judge)[0], {layers[0][0], layer.weight})
                            .with(tensors(judge)[1], {layers[0][1], layer.bias})
                            .link(backend.compile(judge.program));

  float share = 0;
  for (int epoch = 0; epoch <= 200; ++epoch) {
    if (epoch % 50 == 0) {
      tells.schedule();
      share = tells.context().read<float>(judge.results[0])[0];
      std::printf("after %3d steps %.0f of 10 images are told right\n", epoch,
                  static_cast<double>(10 * share));
    }
    steps[static_cast<std::size_t>(epoch % 2)].schedule();
  }
  return share > 0.85F ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
