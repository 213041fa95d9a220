// The data-parallel driver. Order between devices is explicit: each transfer lists the events that
// it has to come after, and devices, not the host, wait for them.
//
//   device 0   gradient  merge<-1  merge<-2  step            gradient ...
//   device 1   gradient                      copy parameters gradient ...
//   device 2   gradient  merge<-3            copy parameters gradient ...
//   device 3   gradient                      copy parameters gradient ...
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

/// A device with its copy of the parameters and the routines that every device runs.
struct Replica {
  Device device;
  Context context;
  Routine gradient;
  std::vector<Routine> merges;  ///< one per Network::sums()
};

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
    compile(backend);
    for (int k = 0; k < options.devices; ++k) add_replica(backend, k);
    Context leader = replicas_[0].context;
    begin_epoch_ = leader.link(*code_[position_of("begin_epoch")]);
    step_ = begin_epoch_->context().link(*code_[position_of("step")]);
    evaluate_ = step_->context().link(*code_[position_of("evaluate")]);
    replicas_[0].context = evaluate_->context();
    set_parameters();
  }

  /// All rounds once, in an order of this epoch's own, and a look at the test images. A round is
  /// the same images however many devices share them.
  EpochReport run_epoch(int epoch) {
    const auto at_once = static_cast<std::int64_t>(replicas_.size());
    const std::int64_t rounds = (shards_ + at_once - 1) / at_once;
    const std::uint64_t seed = options_.seed + static_cast<std::uint64_t>(epoch) * 0x9e3779b9u;
    begin_epoch_->schedule();
    for (const std::size_t round : permutation(static_cast<std::size_t>(rounds), seed)) {
      const std::int64_t first = static_cast<std::int64_t>(round) * at_once;
      run_round(first, static_cast<std::size_t>(std::min(at_once, shards_ - first)), epoch);
    }
    evaluate_->schedule();
    return report(epoch);
  }

  [[nodiscard]] std::vector<DeviceReport> device_reports() const {
    std::vector<DeviceReport> reports;
    for (const Replica& replica : replicas_) {
      replica.device.await();
      reports.push_back({replica.device.name(), replica.device.timeline().counters().done,
                         replica.device.statistics()});
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

  /// One unit for all programs: one run of the compiler.
  void compile(const Backend& backend) {
    programs_ = {network_.gradient(train_, shard_, shard_rows_), network_.begin_epoch(),
                 network_.step(rates_, epoch_), network_.evaluate(test_)};
    for (const Program& program : network_.merges()) programs_.push_back(program);
    const auto start = Clock::now();
    code_ = backend.compile_batch(programs_);
    compile_seconds_ = seconds_since(start);
  }

  [[nodiscard]] std::size_t position_of(std::string_view name) const {
    const auto at = std::ranges::find(programs_, name, &Program::name);
    return static_cast<std::size_t>(at - programs_.begin());
  }

  void add_replica(const Backend& backend, int k) {
    const Device device =
        backend.physical_device(k % backend.num_physical_devices()).new_virtual_device();
    const Routine gradient = Context(device).link(*code_[position_of("gradient")]);
    Replica replica{device, gradient.context(), gradient, {}};
    for (const Tensor& tensor : network_.sums()) {
      const Code& merge = *code_[position_of("merge_" + tensor.label())];
      replica.merges.push_back(replica.context.link(merge));
      replica.context = replica.merges.back().context();
    }
    replicas_.push_back(std::move(replica));
  }

  void set_parameters() {
    const std::vector<HostArray> values = network_.initial_values(options_.seed);
    for (std::size_t k = 0; k < values.size(); ++k) {
      const Tensor& parameter = network_.parameters()[k].value;
      replicas_[0].context.write<float>(parameter, values[k].values<float>());
    }
    broadcast(replicas_[0].device.record());
  }

  /// One update from `active` shards; the last round may have fewer than there are devices.
  void run_round(std::int64_t first_shard, std::size_t active, int epoch) {
    for (std::size_t k = 0; k < active; ++k) {
      replicas_[k].gradient.schedule({{shard_, first_shard + static_cast<std::int64_t>(k)}});
    }
    for (std::size_t stride = 1; stride < active; stride *= 2) {
      for (std::size_t k = 0; k + stride < active; k += 2 * stride) {
        add_up(replicas_[k], replicas_[k + stride]);
      }
    }
    // The step writes the parameters that devices without a shard in this round, whose gradients
    // nothing here waits for, may still be copying from the round before.
    broadcast(step_->schedule({{epoch_, epoch}}, {.after = copies_}));
  }

  /// Adds the sums of `from` to those of `to`, straight from the other device's memory. `from`
  /// overwrites them in a later round only, after the parameters that depend on this have come.
  void add_up(const Replica& to, const Replica& from) {
    const TransferOptions ready{.after = {from.device.record()}};
    for (const Routine& routine : to.merges) {
      merge(routine, from.context, MergeMode::stream, {}, ready);
    }
  }

  void broadcast(const Event& updated) {
    copies_.clear();
    for (std::size_t k = 1; k < replicas_.size(); ++k) {
      for (const Parameter& parameter : network_.parameters()) {
        copy(parameter.value, replicas_[0].context, replicas_[k].context, {.after = {updated}});
      }
      copies_.push_back(replicas_[k].device.record());
    }
  }

  EpochReport report(int epoch) const {
    const auto train = replicas_[0].context.read<float>(network_.totals());
    const auto test = replicas_[0].context.read<float>(network_.test_metrics());
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
  std::vector<Program> programs_;
  CodeBatch code_{{}};
  std::vector<Replica> replicas_;
  std::optional<Routine> begin_epoch_, step_, evaluate_;
  std::vector<Event> copies_;  ///< the end of each device's latest copy of the parameters
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
