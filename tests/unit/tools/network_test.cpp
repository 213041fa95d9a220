// The demo's gradients against finite differences, and what data-parallel training must not change.
#include "tools/demo/network.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "heddle/heddle.hpp"
#include "tools/demo/training.hpp"

namespace heddle::demo {
namespace {

constexpr NetworkShape tiny{f64, 3, 4, 3};
constexpr std::int64_t shard_rows = 4;

/// The network's gradient on one device, for parameters in host memory.
class GradientRunner {
 public:
  /// Seven images: the second shard ends in a row of padding.
  explicit GradientRunner(std::int64_t rows = 2 * shard_rows, std::int64_t rows_per_shard = 4)
      : shard_("shard", rows / rows_per_shard),
        values_(network_.initial_values(5)),
        routine_(link(rows, rows_per_shard)) {
    for (const std::int64_t bias : {1, 3}) {
      for (std::int64_t k = 0; k < values(bias).num_elements(); ++k) {
        values(bias).set(k, 0.1 * static_cast<double>(k + bias));
      }
    }
  }

  [[nodiscard]] const HostArray& values(std::int64_t parameter) const {
    return values_[static_cast<std::size_t>(parameter)];
  }
  [[nodiscard]] std::vector<double> gradient(std::size_t parameter) const {
    return routine_.context().read<double>(network_.parameters()[parameter].gradient);
  }
  [[nodiscard]] std::vector<double> metrics() const {
    return routine_.context().read<double>(network_.metrics());
  }
  /// Runs one shard with the present values.
  void run(std::int64_t shard) const {
    for (std::size_t k = 0; k < values_.size(); ++k) {
      routine_.context().write<double>(network_.parameters()[k].value, values_[k].values<double>());
    }
    routine_.schedule({{shard_, shard}});
  }
  [[nodiscard]] double loss(std::int64_t shard) const {
    run(shard);
    return metrics()[loss_sum];
  }

 private:
  Routine link(std::int64_t rows, std::int64_t rows_per_shard) const {
    const HostArray pixels = HostArray::uniform({f32, {7, tiny.inputs}}, 11);
    const std::vector<std::uint8_t> labels{0, 2, 1, 1, 0, 2, 2};
    const Examples examples = make_examples(tiny, pixels.values<float>(), labels, rows);
    return Context(device_).link(
        backend_.compile(network_.gradient(examples, shard_, rows_per_shard)));
  }

  Backend backend_ = Backend::open("sync_cc");
  Device device_ = backend_.physical_device(0).new_virtual_device();
  Network network_{tiny};
  StaticIndex shard_;
  std::vector<HostArray> values_;
  Routine routine_;
};

// J2, O52: the backward pass, written by hand in index notation, is the derivative of the loss.
TEST(NetworkTest, GradientIsTheDerivativeOfTheLoss) {
  const GradientRunner runner;
  constexpr double step = 1e-6;
  int compared = 0;
  for (const std::int64_t shard : {0, 1}) {
    runner.run(shard);
    std::vector<std::vector<double>> gradients;
    for (std::size_t p = 0; p < 4; ++p) gradients.push_back(runner.gradient(p));
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      const HostArray& values = runner.values(static_cast<std::int64_t>(p));
      for (std::int64_t k = 0; k < values.num_elements(); ++k) {
        const double at = values.at(k);
        values.set(k, at + step);
        const double above = runner.loss(shard);
        values.set(k, at - step);
        const double below = runner.loss(shard);
        values.set(k, at);
        const double found = gradients[p][static_cast<std::size_t>(k)];
        EXPECT_NEAR(found, (above - below) / (2 * step), 1e-7 * std::max(1.0, std::abs(found)))
            << "shard " << shard << ", parameter " << p << ", element " << k;
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 2 * (3 * 4 + 4 + 4 * 3 + 3));
}

/// They are of equal sizes, and equal up to the order of sums.
void expect_same_sums(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-13 * (1 + std::abs(b[k])));
}

// O52: the partial last shard. Seven images of eight rows and seven rows of one shard agree, though
// processors may sum seven rows in another order than eight.
TEST(NetworkTest, PaddingRowsCountForNothing) {
  const GradientRunner padded(8, 8), exact(7, 7);
  padded.run(0);
  exact.run(0);
  EXPECT_EQ(padded.metrics()[images], 7);
  expect_same_sums(padded.metrics(), exact.metrics());
  for (std::size_t p = 0; p < 4; ++p) expect_same_sums(padded.gradient(p), exact.gradient(p));
}

// J2: metrics count a correct image once; the sum of gradients over classes vanishes per image.
TEST(NetworkTest, MetricsAreWithinTheirRanges) {
  const GradientRunner runner;
  runner.run(0);
  const std::vector<double> metrics = runner.metrics();
  EXPECT_GT(metrics[loss_sum], 0);
  EXPECT_EQ(metrics[images], shard_rows);
  EXPECT_GE(metrics[correct], 0);
  EXPECT_LE(metrics[correct], shard_rows);
  EXPECT_EQ(metrics[correct], std::floor(metrics[correct]));
  double bias_sum = 0;
  for (const double g : runner.gradient(3)) bias_sum += g;
  EXPECT_NEAR(bias_sum, 0, 1e-12);
}

TrainingReport short_training(const std::string& backend, int devices, int batch = 16,
                              int epochs = 2) {
  TrainingOptions options;
  options.devices = devices;
  options.batch = batch;
  options.epochs = epochs;
  const DigitsSplit data = split(all_digits(), 360, 42);
  return train(Backend::open(backend), data, options, {});
}

// O52: splitting a batch over devices changes the order of a sum and nothing else.
TEST(TrainingTest, DevicesShareTheBatch) {
  const TrainingReport alone = short_training("sync_cc", 1);
  for (const int devices : {2, 4}) {
    const TrainingReport shared = short_training("sync_cc", devices);
    ASSERT_EQ(shared.devices.size(), static_cast<std::size_t>(devices));
    EXPECT_EQ(shared.shard, 16 / devices);
    EXPECT_NEAR(shared.epochs.back().loss, alone.epochs.back().loss, 1e-4);
  }
}

// O52: gradients are read where they are; what updates read is copied by each device, once a run.
TEST(TrainingTest, CopiesOncePerEpoch) {
  const TrainingReport report = short_training("sync_cc", 3, 16, 2);
  constexpr std::uint64_t parameters = 4, totals = 1, epochs = 2;
  EXPECT_EQ(report.shard, 6);
  EXPECT_EQ(report.devices[0].statistics.copies, 0u);
  for (const std::size_t k : {1u, 2u})
    EXPECT_EQ(report.devices[k].statistics.copies, epochs * (parameters + totals));
}

// O52: the last round of an epoch may be partial: 1437 images make 90 shards of 16, 23 rounds of
// four devices, the last with two at work. Every image counts once.
TEST(TrainingTest, PartialLastRoundCountsEveryImage) {
  const TrainingReport report = short_training("cc", 4, 64, 1);
  const double correct = report.epochs[0].train_accuracy * 1437;
  EXPECT_NEAR(correct, std::round(correct), 1e-3);
  EXPECT_GT(report.epochs[0].train_accuracy, 0.3);
}

void expect_same_bits(const TrainingReport& a, const TrainingReport& b, const std::string& what) {
  ASSERT_EQ(a.epochs.size(), b.epochs.size());
  for (std::size_t k = 0; k < a.epochs.size(); ++k) {
    EXPECT_EQ(a.epochs[k].loss, b.epochs[k].loss) << what << ", epoch " << k;
    EXPECT_EQ(a.epochs[k].test_loss, b.epochs[k].test_loss) << what << ", epoch " << k;
  }
}

// D10, B3: threads and the calling thread alone give the same bits.
TEST(TrainingTest, ThreadsDoNotChangeTheBits) {
  expect_same_bits(short_training("cc", 2), short_training("sync_cc", 2), "cc");
}

// D10, B3: the same bits from every backend, each time, for each number of devices.
TEST(SlowTrainingTest, EveryBackendGivesTheSameBits) {
  for (const int devices : {1, 2, 4}) {
    const TrainingReport expected = short_training("sync_cc", devices, 16, 4);
    for (const std::string backend : {"cc", "gccjit", "sync_gccjit"}) {
      if (backend != "cc" && !Backend::list().front().status.ok()) GTEST_SKIP() << "no libgccjit";
      for (int run = 0; run < 2; ++run) {
        expect_same_bits(short_training(backend, devices, 16, 4), expected,
                         backend + " with " + std::to_string(devices) + " devices");
      }
    }
  }
}

// O52: it learns.
TEST(SlowTrainingTest, ReachesItsAccuracy) {
  const TrainingReport report = short_training("cc", 2, 16, 60);
  EXPECT_GE(report.epochs.back().test_accuracy, 0.96);
  EXPECT_LT(report.epochs.back().loss, 0.02F);
}

}  // namespace
}  // namespace heddle::demo
