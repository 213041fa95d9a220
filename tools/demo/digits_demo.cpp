// See digits_demo.hpp.
#include "tools/demo/digits_demo.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "heddle/status.hpp"
#include "tools/demo/digits.hpp"
#include "tools/demo/plot.hpp"
#include "tools/demo/training.hpp"
#include "tools/terminal.hpp"

namespace heddle::demo {
namespace {

// The split is part of the problem, not of a run: every run has the same test images. This split is
// neither easy nor hard: over split seeds, test accuracy goes from 0.97 to 0.99.
constexpr std::size_t test_count = 360;
constexpr std::uint64_t split_seed = 42;

/// On a terminal, one line redrawn again and again; otherwise a line for every tenth of the epochs.
class Progress {
 public:
  Progress(int epochs, bool quiet)
      : epochs_(epochs),
        quiet_(quiet),
        terminal_(tools::is_terminal(stderr)),
        colour_(tools::use_colour(stderr)) {}

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Ends the line, so that the next output, for example an error, begins on a new line.
  ~Progress() {
    if (line_open_) std::fputc('\n', stderr);
  }

  void show(const EpochReport& epoch) {
    if (quiet_) return;
    const std::string numbers = fmt::format(
        "epoch {:>3}/{}  loss {:.4f}  accuracy: train {:.2f}%, test {:.2f}%", epoch.epoch, epochs_,
        epoch.loss, 100 * epoch.train_accuracy, 100 * epoch.test_accuracy);
    if (terminal_) {
      fmt::print(stderr, "\r{}  {}\x1b[K", bar(epoch.epoch), numbers);
      line_open_ = true;
    } else if (epoch.epoch == epochs_ || epoch.epoch % std::max(1, epochs_ / 10) == 0) {
      fmt::print(stderr, "{}\n", numbers);
    }
    std::fflush(stderr);
  }

 private:
  [[nodiscard]] std::string bar(int done) const {
    constexpr int cells = 24;
    const int filled = cells * done / epochs_;
    std::string full, empty;
    for (int k = 0; k < cells; ++k) (k < filled ? full : empty) += k < filled ? "\u2501" : "\u2500";
    return tools::paint(full, tools::Colour::good, colour_) +
           tools::paint(empty, tools::Colour::dim, colour_);
  }

  const int epochs_;
  const bool quiet_, terminal_, colour_;
  bool line_open_ = false;
};

void print_report(const TrainingReport& report, const Backend& backend, const DigitsSplit& data,
                  const DigitsDemoOptions& options) {
  const EpochReport& last = report.epochs.back();
  const std::size_t devices = report.devices.size();
  fmt::print("data            {} training and {} test images of 8x8 pixels, 10 classes\n",
             data.train.size(), data.test.size());
  fmt::print("network         64-64-10, ReLU, softmax cross-entropy, SGD; seed {}\n", options.seed);
  fmt::print("backend         {}, {} device{}, batch {} = {} x {}, {} epochs\n", backend.name(),
             devices, devices == 1 ? "" : "s", devices * static_cast<std::size_t>(report.shard),
             devices, report.shard, options.epochs);
  fmt::print("compile time    {:.2f} s\n", report.compile_seconds);
  fmt::print("training time   {:.2f} s, {:.0f} samples/s\n", report.training_seconds,
             report.images_per_second);
  for (const DeviceReport& device : report.devices) {
    fmt::print("tasks           {}: {} ({} launches, {} copies)\n", device.name, device.tasks,
               device.statistics.launches, device.statistics.copies);
  }
  // %a shows every bit: two runs agree exactly when these agree.
  fmt::print("final loss      {:.9g} ({:a})\n", last.loss, last.loss);
  fmt::print("test loss       {:.9g} ({:a})\n", last.test_loss, last.test_loss);
  fmt::print("test accuracy   {:.4f} ({} of {})\n", last.test_accuracy, last.test_correct,
             data.test.size());
}

/// Opened before the training, so that a bad path costs no time.
class CurveFile {
 public:
  explicit CurveFile(const std::string& path) : path_(path) {
    if (path_.empty()) return;
    file_.open(path_, std::ios::trunc);
    if (!file_) refuse();
  }
  void write(const TrainingReport& report, const Backend& backend) {
    if (path_.empty()) return;
    const std::size_t devices = report.devices.size();
    file_ << plot_svg(report.epochs,
                      fmt::format("Handwritten digits, 64-64-10 perceptron: {} on {} device{}",
                                  backend.name(), devices, devices == 1 ? "" : "s"));
    file_.close();
    if (!file_) refuse();
    fmt::print("curve           {}\n", path_);
  }

 private:
  [[noreturn]] void refuse() const {
    throw Error(
        ErrorCode::not_found,
        fmt::format("cannot write the curve to '{}'; give a writable path with --out", path_));
  }

  const std::string path_;
  std::ofstream file_;
};

}  // namespace

void run_digits_demo(const Backend& backend, const DigitsDemoOptions& options) {
  const DigitsSplit data = split(all_digits(), test_count, split_seed);
  TrainingOptions training;
  training.devices = options.devices.value_or(default_devices(backend));
  training.batch = options.batch;
  training.epochs = options.epochs;
  training.seed = options.seed;
  CurveFile curve(options.out);
  TrainingReport report;
  {
    Progress progress(options.epochs, options.quiet);
    report = train(backend, data, training,
                   [&progress](const EpochReport& epoch) { progress.show(epoch); });
  }
  print_report(report, backend, data, options);
  curve.write(report, backend);
}

}  // namespace heddle::demo
