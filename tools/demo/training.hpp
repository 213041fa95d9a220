// Data-parallel training of the demo's network (heddle/data_parallel.hpp): in each round every
// device computes the gradients of one shard, the first device sums the gradients and updates the
// parameters, and the other devices copy the parameters. One host thread drives the training, and
// waits once an epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heddle/backend.hpp"
#include "tools/demo/digits.hpp"

namespace heddle::demo {

struct TrainingOptions {
  int devices = 1;
  int batch = 16;  ///< images per round over all devices; rounded up to a multiple of devices
  int epochs = 60;
  double rate = 0.3;  ///< of the first epoch, per image; falls linearly to rate / epochs
  std::uint64_t seed = 1;
};

struct EpochReport {
  int epoch = 0;   ///< from 1
  float loss = 0;  ///< mean cross-entropy over the training images, while they were learned
  double train_accuracy = 0;
  float test_loss = 0;
  double test_accuracy = 0;
  std::int64_t test_correct = 0;
};

struct DeviceReport {
  std::string name;
  std::uint64_t tasks = 0;  ///< submitted
  DeviceStatistics statistics;
};

struct TrainingReport {
  std::vector<EpochReport> epochs;
  std::vector<DeviceReport> devices;
  int shard = 0;                ///< images per device and round
  double compile_seconds = 0;   ///< lowering, compiling and loading all programs
  double training_seconds = 0;  ///< all epochs, with their evaluation
  double images_per_second = 0;
};

/// Default number of virtual devices: one per core.
[[nodiscard]] int default_devices(const Backend& backend);

/// Trains from scratch. The result depends on `data` and `options` only: not on timing, not on the
/// backend. Calls `on_epoch` after each epoch. Throws Error.
[[nodiscard]] TrainingReport train(const Backend& backend, const DigitsSplit& data,
                                   const TrainingOptions& options,
                                   const std::function<void(const EpochReport&)>& on_epoch);

}  // namespace heddle::demo
