// See training.hpp.
#include "tools/demo/training.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "heddle/heddle.hpp"
#include "tools/demo/network.hpp"

namespace heddle::demo {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Trainer {
 public:
  Trainer(const Backend& backend, const DigitsSplit& data, const TrainingOptions& options)
      : options_(options),
        shard_rows_((options.batch + options.devices - 1) / options.devices),
        shards_((static_cast<std::int64_t>(data.train.size()) + shard_rows_ - 1) / shard_rows_),
        train_(make_examples(network_.shape(), data.train.pixels, data.train.labels,
                             shards_ * shard_rows_)),
        test_(make_examples(network_.shape(), data.test.pixels, data.test.labels,
                            static_cast<std::int64_t>(data.test.size()))),
        shard_("shard", shards_),
        epoch_("epoch", options.epochs),
        rates_(make_rates(options)) {
    const auto start = Clock::now();
    link(backend);
    compile_seconds_ = seconds_since(start);
    const std::vector<HostArray> values = network_.initial_values(options_.seed);
    for (std::size_t k = 0; k < values.size(); ++k)
      leader().write<float>(network_.parameters()[k].value, values[k].values<float>());
  }

  /// Runs all shards once, in an order drawn for the epoch, and evaluates the test images.
  EpochReport run_epoch(int epoch) {
    begin_epoch_->schedule();
    shared_->run(order_of(epoch), {.bindings = {{epoch_, epoch}}});
    evaluate_->schedule();
    return report(epoch);
  }

  [[nodiscard]] std::vector<DeviceReport> device_reports() const {
    std::vector<DeviceReport> reports;
    for (std::size_t k = 0; k < shared_->num_devices(); ++k) {
      const Device device = shared_->context(k).device();
      reports.push_back(
          {device.name(), device.timeline().counters().submitted, device.statistics()});
    }
    return reports;
  }

  [[nodiscard]] int shard_rows() const { return static_cast<int>(shard_rows_); }
  [[nodiscard]] double compile_seconds() const { return compile_seconds_; }

 private:
  static Tensor make_rates(const TrainingOptions& options) {
    const HostArray rates({f32, {options.epochs}});
    for (int epoch = 0; epoch < options.epochs; ++epoch) {
      rates.set(epoch, options.rate * (options.epochs - epoch) / options.epochs);
    }
    return Tensor("rates", rates, MemoryMode::hosted_constant);
  }

  void link(const Backend& backend) {
    // One unit: one run of the compiler.
    const CodeBatch code = backend.compile_batch(
        std::vector{network_.gradient(train_, shard_, shard_rows_), network_.step(rates_, epoch_),
                    network_.begin_epoch(), network_.evaluate(test_)});
    std::vector<Context> contexts;
    for (int k = 0; k < options_.devices; ++k) {
      const Hardware core = backend.physical_device(k % backend.num_physical_devices());
      contexts.emplace_back(core.new_virtual_device());
    }
    std::vector<Tensor> parameters;
    for (const Parameter& each : network_.parameters()) parameters.push_back(each.value);
    shared_.emplace(contexts, DataParallelOptions{.gradient = *code[0],
                                                  .batch = shard_,
                                                  .sums = network_.sums(),
                                                  .update = *code[1],
                                                  .parameters = parameters});
    begin_epoch_ = leader().link(*code[2]);
    evaluate_ = leader().link(*code[3]);
  }

  /// Holds parameters and totals.
  [[nodiscard]] Context leader() const { return shared_->context(); }

  /// A round, a shard for each device, has the same images for any number of devices. Rounds come
  /// in any order, except that an incomplete round is last.
  [[nodiscard]] std::vector<std::int64_t> order_of(int epoch) const {
    const std::int64_t devices = options_.devices, rounds = shards_ / devices;
    const std::uint64_t seed = options_.seed + static_cast<std::uint64_t>(epoch) * 0x9e3779b9u;
    std::vector<std::int64_t> order;
    for (const std::size_t round : permutation(static_cast<std::size_t>(rounds), seed)) {
      for (std::int64_t k = 0; k < devices; ++k)
        order.push_back(static_cast<std::int64_t>(round) * devices + k);
    }
    for (std::int64_t shard = rounds * devices; shard < shards_; ++shard) order.push_back(shard);
    return order;
  }

  EpochReport report(int epoch) const {
    const auto train = leader().read<float>(network_.totals());
    const auto test = evaluate_->context().read<float>(network_.test_metrics());
    EpochReport result;
    result.epoch = epoch + 1;
    result.loss = train[loss_sum] / train[images];
    result.train_accuracy = train[correct] / train[images];
    result.test_loss = test[loss_sum] / test[images];
    result.test_accuracy = test[correct] / test[images];
    result.test_correct = static_cast<std::int64_t>(test[correct]);
    return result;
  }

  const TrainingOptions options_;
  const Network network_{NetworkShape{}};
  const std::int64_t shard_rows_;
  const std::int64_t shards_;
  const Examples train_, test_;
  const StaticIndex shard_, epoch_;
  const Tensor rates_;
  std::optional<DataParallel> shared_;
  std::optional<Routine> begin_epoch_, evaluate_;
  double compile_seconds_ = 0;
};

}  // namespace

int default_devices(const Backend& backend) { return std::max(1, backend.num_physical_devices()); }

TrainingReport train(const Backend& backend, const DigitsSplit& data,
                     const TrainingOptions& options,
                     const std::function<void(const EpochReport&)>& on_epoch) {
  Trainer trainer(backend, data, options);
  TrainingReport report;
  const auto start = Clock::now();
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    report.epochs.push_back(trainer.run_epoch(epoch));
    if (on_epoch) on_epoch(report.epochs.back());
  }
  report.training_seconds = seconds_since(start);
  report.images_per_second =
      static_cast<double>(data.train.size()) * options.epochs / report.training_seconds;
  report.devices = trainer.device_reports();
  report.shard = trainer.shard_rows();
  report.compile_seconds = trainer.compile_seconds();
  return report;
}

}  // namespace heddle::demo
