// Peak memory of a training step.
#include <string>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

/// A perceptron of equal layers, written like the demo's: forward, backward and update in one
/// program.
///
///   a[k + 1] = relu(a[k] w[k])    d[layers] = a[layers] - y
///   g = d[k + 1] where a[k + 1] > 0    dw = a[k]^T g    d[k] = g w[k]^T    w[k] -= rate dw
class Perceptron {
 public:
  static constexpr std::int64_t layers = 12, width = 64, rows = 192;

  Perceptron() {
    const Index i("i"), j("j"), l("l"), n("n");
    for (int k = 0; k < layers; ++k) {
      weights.emplace_back("w" + std::to_string(k), f32, Dims{width, width});
      weights.back().set_mode(MemoryMode::on_device);
      active.emplace_back("a" + std::to_string(k + 1), f32, Dims{rows, width});
      const Tensor hidden("h" + std::to_string(k + 1), f32, {rows, width});
      program << (hidden(n, j) = sum(before(k)(n, i) * weights[k](i, j)));
      program << (active[k](n, j) = relu(hidden(n, j)));
    }
    Tensor d("d", f32, {rows, width});
    program << (d(n, j) = active.back()(n, j) - y(n, j));
    for (int k = layers - 1; k >= 0; --k) {
      const Tensor g("g" + std::to_string(k), f32, {rows, width});
      const Tensor dw("dw" + std::to_string(k), f32, {width, width});
      const Tensor next("d" + std::to_string(k), f32, {rows, width});
      program << (g(n, j) = relu_gate(active[k](n, j), d(n, j)));
      program << (dw(i, j) = sum(before(k)(n, i) * g(n, j)));
      if (k > 0) program << (next(n, i) = sum(g(n, j) * weights[k](i, j)));
      program << (weights[k](i, j) -= 0.001 * dw(i, j));
      d = next;
    }
  }

  const Tensor x{"x", f32, {rows, width}}, y{"y", f32, {rows, width}};
  std::vector<Tensor> weights, active;
  Program program{"training step"};

 private:
  [[nodiscard]] const Tensor& before(int k) const { return k == 0 ? x : active[k - 1]; }
};

// D2: scratch arrays with disjoint lifetimes share bytes: a step takes little more than its
// activations and weights; separate arrays would take twice as much
TEST(TrainingMemoryTest, AStepTakesItsActivationsAndLittleMore) {
  const Backend backend = Backend::open("cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const Perceptron net;
  const Routine step = Context(device).link(backend.compile(net.program));
  std::vector<float> some(static_cast<std::size_t>(net.rows * net.width));
  for (std::size_t k = 0; k < some.size(); ++k) some[k] = static_cast<float>(k % 17) / 17;
  step.context().write(net.x, some);
  step.context().write(net.y, some);
  for (const Tensor& weight : net.weights) {
    std::vector<float> values(static_cast<std::size_t>(net.width * net.width));
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] = static_cast<float>(k % 13) / 13 - 0.45F;
    step.context().write(weight, values);
  }
  throw_if_failed(step.schedule().wait());
  const std::uint64_t layer = net.rows * net.width * sizeof(float);
  const std::uint64_t weight = net.width * net.width * sizeof(float);
  // x, y and the activations; gradients of two layers, and of the weights of one layer; and panels
  // for the packed factors of products.
  const std::uint64_t needed = (2 + net.layers) * layer + net.layers * weight;
  const std::uint64_t peak = device.statistics().bytes_peak;
  RecordProperty("bytes_peak", std::to_string(peak));
  EXPECT_LE(peak, needed + 3 * layer);  // 954,368 bytes; with separate arrays: 2,240,512
  EXPECT_GE(peak, needed);
}

}  // namespace
}  // namespace heddle
