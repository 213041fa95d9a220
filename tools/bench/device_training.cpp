// A perceptron trained on one device and on two, against frameworks with as many threads, and
// against independent threads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/data_parallel.hpp"
#include "heddle/status.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/rival_python.hpp"
#include "tools/bench/subject.hpp"

namespace heddle::bench {
namespace {

// factor from the mean of the gradients to the change of the parameters
constexpr double rate = 0.01;
constexpr std::size_t updates_timed = 4;  // between two waits

/// Layers of a perceptron with ReLU and a softmax at the end, and the examples of an update.
struct Shape {
  const char* name;
  std::vector<std::int64_t> widths;
  std::int64_t examples;
};

struct Layer {
  Tensor weights, bias, d_weights, d_bias;
};

/// The same values for each contender.
class Perceptron {
 public:
  explicit Perceptron(Shape shape) : shape_(std::move(shape)) {
    const Tensor x = setup_.add("x", {shape_.examples, shape_.widths.front()});
    const Tensor y = setup_.add("y", {shape_.examples, shape_.widths.back()});
    std::ranges::fill(setup_.arrays[1].values<float>(), 0.0F);
    for (std::int64_t n = 0; n < shape_.examples; ++n)
      setup_.arrays[1].set(n * shape_.widths.back() + n * 7 % shape_.widths.back(), 1);
    for (std::size_t k = 1; k < shape_.widths.size(); ++k) add_layer(k);
    setup_.add("result", {shape_.widths[1]});
    examples_ = {Tensor("x", setup_.arrays[0], MemoryMode::hosted_constant),
                 Tensor("y", setup_.arrays[1], MemoryMode::hosted_constant)};
  }

  [[nodiscard]] const KernelSetup& setup() const { return setup_; }
  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }
  [[nodiscard]] std::int64_t examples() const { return shape_.examples; }

  /// The gradients of `rows` examples, from batch * rows on.
  [[nodiscard]] Program gradient(const StaticIndex& batch, std::int64_t rows) const {
    Program program("gradient");
    const Index n("n", rows), i, j, c;
    const Subscript row = rows * Subscript(batch) + n;
    std::vector<Tensor> active;
    const auto below = [&](std::size_t k) {
      return k == 0 ? examples_[0](row, i) : active[k - 1](n, i);
    };
    for (std::size_t k = 0; k < layers_.size(); ++k) {
      const Tensor a(fmt::format("a{}", k), f32, {rows, shape_.widths[k + 1]});
      program << (a(n, j) = sum(below(k) * layers_[k].weights(i, j)));
      if (k + 1 < layers_.size()) {
        program << (a(n, j) = relu(a(n, j) + layers_[k].bias(j)));
      } else {
        program << (a(n, j) += layers_[k].bias(j));
      }
      active.push_back(a);
    }
    const Tensor z = active.back(), top("top", f32, {rows}), total("total", f32, {rows});
    Tensor d("d", f32, z.dims());
    program << (top(n) = maximum(z(n, c))) << (z(n, c) = exp(z(n, c) - top(n)))
            << (total(n) = sum(z(n, c))) << (d(n, c) = z(n, c) / total(n) - examples_[1](row, c));
    for (std::size_t k = layers_.size(); k-- > 0;) {
      program << (layers_[k].d_weights(i, j) = sum(below(k) * d(n, j)))
              << (layers_[k].d_bias(j) = sum(d(n, j)));
      if (k == 0) break;
      const Tensor under(fmt::format("d{}", k), f32, active[k - 1].dims());
      program << (under(n, i) = sum(d(n, j) * layers_[k].weights(i, j)))
              << (under(n, i) = where(active[k - 1](n, i) > 0, under(n, i), 0));
      d = under;
    }
    return program;
  }
  [[nodiscard]] Program update() const {
    Program program("update");
    const Index i, j;
    const double factor = rate / static_cast<double>(shape_.examples);
    for (const Layer& layer : layers_) {
      program << (layer.weights(i, j) -= factor * layer.d_weights(i, j))
              << (layer.bias(j) -= factor * layer.d_bias(j));
    }
    return program;
  }
  void write_parameters(const Context& context) const {
    for (std::size_t k = 0; k < layers_.size(); ++k) {
      context.write<float>(layers_[k].weights, setup_.arrays[2 + 2 * k].values<float>());
      context.write<float>(layers_[k].bias, setup_.arrays[3 + 2 * k].values<float>());
    }
  }

 private:
  void add_layer(std::size_t k) {
    const std::int64_t in = shape_.widths[k - 1], out = shape_.widths[k];
    const auto add = [&](const std::string& name, const Dims& dims) {
      return setup_.add(fmt::format("{}{}", name, k), dims);
    };
    const Tensor w = add("w", {in, out});
    const auto limit = static_cast<float>(std::sqrt(6.0 / static_cast<double>(in + out)));
    for (float& value : setup_.arrays.back().values<float>()) value = (2 * value - 1) * limit;
    const Tensor b = add("b", {out});
    std::ranges::fill(setup_.arrays.back().values<float>(), 0.0F);
    layers_.push_back({w, b, Tensor(fmt::format("dw{}", k), f32, {in, out}),
                       Tensor(fmt::format("db{}", k), f32, {out})});
  }

  Shape shape_;
  KernelSetup setup_{Program("train"), {}, {}};
  std::vector<Layer> layers_;
  std::vector<Tensor> examples_;  // in host memory read by all devices
};

/// The driver over several devices, each with its share of the examples.
class Trained {
 public:
  Trained(const Perceptron& perceptron, std::int64_t devices) {
    const Unpinned while_starting;
    const Backend backend = open_bound();
    std::vector<Context> contexts;
    for (std::int64_t k = 0; k < devices; ++k) contexts.emplace_back(new_bound_device(backend, k));
    const StaticIndex batch("batch", devices);
    DataParallelOptions options{
        .gradient = backend.compile(perceptron.gradient(batch, perceptron.examples() / devices)),
        .batch = batch,
        .sums = {},
        .update = backend.compile(perceptron.update())};
    for (const Layer& layer : perceptron.layers()) {
      options.sums.insert(options.sums.end(), {layer.d_weights, layer.d_bias});
      options.parameters.insert(options.parameters.end(), {layer.weights, layer.bias});
    }
    driver_.emplace(contexts, options);
    perceptron.write_parameters(driver_->context());
    for (std::size_t k = 0; k < updates_timed; ++k) {
      for (std::int64_t each = 0; each < devices; ++each) batches_.push_back(each);
    }
    driver_->run(0, devices);
    bias_ = driver_->context().read<float>(perceptron.layers()[0].bias);
  }

  double time(nanoseconds length) {
    return timed_loop(length, updates_timed, [&](std::size_t) { driver_->run(batches_); });
  }
  /// After the first update.
  [[nodiscard]] const std::vector<float>& bias() const { return bias_; }

 private:
  std::optional<DataParallel> driver_;
  std::vector<std::int64_t> batches_;
  std::vector<float> bias_;
};

/// Two devices, each training its own perceptron with half of the examples.
class Apart {
 public:
  explicit Apart(const Perceptron& perceptron) {
    const Unpinned while_starting;
    const Backend backend = open_bound();
    const Code gradient = backend.compile(perceptron.gradient(batch_, perceptron.examples() / 2));
    const Code update = backend.compile(perceptron.update());
    for (int k = 0; k < 2; ++k) {
      const Routine first = Context(new_bound_device(backend, k)).link(gradient);
      routines_.push_back({first, first.context().link(update)});
      perceptron.write_parameters(routines_.back()[1].context());
    }
  }
  double time(nanoseconds length) {
    return timed_loop(length, updates_timed, [&](std::size_t count) {
      for (std::size_t k = 0; k < count; ++k) {
        for (std::size_t device = 0; device < routines_.size(); ++device) {
          routines_[device][0].schedule({{batch_, device}});
          routines_[device][1].schedule();
        }
      }
      for (const auto& each : routines_) each[0].context().device().await();
    });
  }

 private:
  const StaticIndex batch_{"batch", 2};
  std::vector<std::vector<Routine>> routines_;
};

/// Shared state of one workload, made when a row first runs.
struct Training {
  std::optional<Perceptron> perceptron;
  std::optional<Trained> trained;
  std::optional<Apart> apart;
};

/// Throws internal unless both have the same values after an update, up to rounding.
void require_same(const std::vector<float>& ours, std::span<const float> theirs,
                  const std::string& rival) {
  for (std::size_t k = 0; k < ours.size(); ++k) {
    if (std::abs(ours[k] - theirs[k]) <= 1e-6F) continue;
    throw Error(ErrorCode::internal,
                fmt::format("{} has {} where heddle has {} in element {} of the first bias", rival,
                            theirs[k], ours[k], k));
  }
}

Contender framework(const Alternative& rival, const std::shared_ptr<Training>& training) {
  const auto prepared = std::make_shared<std::optional<Prepared>>();
  return {
      rival.name, Kind::rival, [=](nanoseconds length, Samples&) {
        const KernelSetup& setup = training->perceptron->setup();
        if (!*prepared) {
          prepared->emplace(rival.prepare(setup));
          (*prepared)->fetch();
          require_same(training->trained->bias(), setup.arrays.back().values<float>(), rival.name);
        }
        const double once = (*prepared)->time(1);
        return (*prepared)->time(
            static_cast<std::size_t>(std::max(1.0, static_cast<double>(length.count()) / once)));
      }};
}

void add_rows_of(std::vector<Row>& rows, const Shape& shape, std::int64_t devices) {
  const auto training = std::make_shared<Training>();
  const auto make = [training, shape, devices] {
    if (training->trained) return;
    training->perceptron.emplace(shape);
    training->trained.emplace(*training->perceptron, devices);
  };
  const std::string workload =
      fmt::format("train {}, {} device{}", shape.name, devices, devices == 1 ? "" : "s");
  const auto add = [&](Contender anchor) {
    rows.push_back(Case{"training",
                        workload,
                        "update",
                        {"heddle", Kind::heddle,
                         [=](nanoseconds length, Samples&) {
                           make();
                           return training->trained->time(length);
                         }},
                        std::move(anchor),
                        std::chrono::milliseconds(100)});
  };
  if (devices == 2) {
    add({"two threads apart", Kind::limit, [=](nanoseconds length, Samples&) {
           make();
           if (!training->apart) training->apart.emplace(*training->perceptron);
           return training->apart->time(length);
         }});
  }
  for (const Alternative& each : framework_alternatives(static_cast<int>(devices)))
    add(framework(each, training));
}

}  // namespace

void add_training_rows(std::vector<Row>& rows) {
  for (const Shape& shape : {Shape{"64-64-10 on 128 images", {64, 64, 10}, 128},
                             Shape{"784-512-512-10 on 256 images", {784, 512, 512, 10}, 256}}) {
    for (const std::int64_t devices : {1, 2}) add_rows_of(rows, shape, devices);
  }
}

}  // namespace heddle::bench
