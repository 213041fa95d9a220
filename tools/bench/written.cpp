// See written.hpp.
#include "tools/bench/written.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "heddle/backend.hpp"
#include "heddle/status.hpp"
#include "tools/bench/against.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/executor_rows.hpp"
#include "tools/bench/processors.hpp"
#include "tools/bench/rival_python.hpp"
#include "tools/bench/rivals.hpp"

namespace heddle::bench {
namespace {

/// Rows are many, and need not be as exact as those of single kernels.
constexpr auto written_slice = std::chrono::milliseconds(8);
constexpr double written_seconds_max = 1;
/// The least time between two readings of the clock, for calls that are shorter.
constexpr double written_ns_least = 10'000;

HostArray made_of(const WrittenInput& input, std::uint64_t seed) {
  HostArray made(input.type);
  const HostArray drawn = HostArray::uniform({f32, input.type.dims}, seed);
  const auto uniform = drawn.values<float>();
  for (std::int64_t k = 0; k < made.num_elements(); ++k)
    made.set(k, input.value(double{uniform[static_cast<std::size_t>(k)]}, k));
  return made;
}

/// A device that runs kernels in the calling thread.
struct InlineDevice {
  Device device =
      Backend::open("sync_" + compiling_backends().front()).physical_device(0).new_virtual_device();
};

/// A compiled model with its arguments. The constructor throws internal where heddle and the plain
/// loops differ.
class RunningModel {
 public:
  RunningModel(WrittenModel model, const Device& device) : model_(std::move(model)) {
    std::vector<Array> arguments;
    for (const WrittenInput& each : model_.inputs) {
      arrays_.push_back(made_of(each, arrays_.size() + 1));
      arguments.emplace_back(device, arrays_.back());
    }
    run_ = model_.heddle(device, arguments, model_.name);
    for (const Array& each : run_.results()) results_.push_back(each.to_host());
    std::vector<HostArray> plainly;
    for (const HostArray& each : arrays_) plain_.add(each.data(), each.type().dims);
    for (const HostArray& each : results_) {
      plainly.emplace_back(each.type());
      plain_.add(plainly.back().data(), each.type().dims);
    }
    arrays_.insert(arrays_.end(), plainly.begin(), plainly.end());
    call_plainly();
    require_same(plainly, "naive C++", model_.share_apart);
  }

  void call() const { run_.call(); }
  void call_plainly() const { model_.plain(plain_); }

  /// The arguments for a framework, and memory for its results.
  [[nodiscard]] KernelSetup setup() const {
    KernelSetup made{Program(model_.name), {}, {}};
    for (const HostArray& each : arrays_) {
      made.tensors.emplace_back(fmt::format("x{}", made.tensors.size()), each.type().dtype,
                                each.type().dims);
      made.arrays.push_back(each);
    }
    made.results = results_.size();
    for (HostArray& each : std::span(made.arrays).last(made.results)) each = HostArray(each.type());
    return made;
  }
  /// Random numbers are compared by the plain loops alone.
  void require_same(const KernelSetup& setup, const std::string& who) const {
    if (!model_.rivals_draw) {
      require_same(std::span(setup.arrays).last(results_.size()), who,
                   std::max(model_.share_apart, 1e-3));
    }
  }

 private:
  void require_same(std::span<const HostArray> theirs, const std::string& who,
                    double share_apart) const {
    for (std::size_t n = 0; n < results_.size(); ++n) {
      const std::int64_t count = results_[n].num_elements();
      double magnitude = 0;
      for (std::int64_t k = 0; k < count; ++k) magnitude += std::abs(results_[n].at(k));
      const double usual = magnitude / static_cast<double>(count);
      std::int64_t apart = 0;
      for (std::int64_t k = 0; k < count; ++k) {
        const double ours = results_[n].at(k), other = theirs[n].at(k);
        if (ours == other ||
            std::abs(ours - other) <= model_.tolerance * std::max(usual, std::abs(other)))
          continue;
        if (static_cast<double>(++apart) <= share_apart * static_cast<double>(count)) continue;
        throw Error(ErrorCode::internal,
                    fmt::format("'{}, {}', result {}, element {}: heddle gives {}, {} {}",
                                model_.name, model_.size, n, k, ours, who, other));
      }
    }
  }

  WrittenModel model_;
  std::vector<HostArray> arrays_;   // arguments, then results of the plain loops
  std::vector<HostArray> results_;  // heddle's
  PlainArrays plain_;
  WrittenRun run_;
};

/// The first slice of a model's rows makes the model; the last row frees it.
class ModelOnce {
 public:
  ModelOnce(WrittenModel model, MadeOnce<InlineDevice> device)
      : model_(std::move(model)), device_(std::move(device)) {}
  const RunningModel& operator*() {
    if (!running_) {
      const Unpinned while_compiling;
      running_.emplace(model_, device_->device);
    }
    return *running_;
  }

 private:
  WrittenModel model_;
  MadeOnce<InlineDevice> device_;
  std::optional<RunningModel> running_;
};

Contender repeated(const std::string& name, Kind kind, const std::shared_ptr<ModelOnce>& model,
                   void (RunningModel::*call)() const) {
  const auto calls = std::make_shared<std::size_t>(0);  // between two readings of the clock
  return {name, kind, [=](nanoseconds length, Samples&) {
            const RunningModel& its = **model;
            if (*calls == 0) {
              (its.*call)();
              const auto start = Clock::now();
              (its.*call)();
              const double ns = std::max(1.0, ns_between(start, Clock::now()));
              *calls = static_cast<std::size_t>(std::clamp(written_ns_least / ns, 1.0, 1000.0));
            }
            return timed_loop(length, *calls, [&](std::size_t count) {
              for (std::size_t k = 0; k < count; ++k) (its.*call)();
            });
          }};
}

/// One process of each framework serves all models.
struct WrittenRivals {
  std::vector<Alternative> all = framework_alternatives(1, true);
};

/// A model of a framework; its setup has a stable address.
struct RivalModel {
  KernelSetup setup;
  Prepared prepared;
  double ns = 0;
};

Contender by_rival(const std::shared_ptr<WrittenRivals>& rivals, std::size_t which,
                   const std::shared_ptr<ModelOnce>& model) {
  const auto slot = std::make_shared<std::unique_ptr<RivalModel>>();
  const Alternative& rival = rivals->all[which];
  return {rival.name, rival.kind, [=](nanoseconds length, Samples&) {
            const Alternative& its = rivals->all[which];
            if (!*slot) {
              auto made = std::make_unique<RivalModel>(RivalModel{(**model).setup(), {}});
              made->prepared = its.prepare(made->setup);
              made->prepared.fetch();
              (**model).require_same(made->setup, its.name);
              made->prepared.time(1);
              made->ns = made->prepared.time(1);
              *slot = std::move(made);
            }
            RivalModel& running = **slot;
            const double count = static_cast<double>(length.count()) / running.ns;
            return running.ns =
                       running.prepared.time(static_cast<std::size_t>(std::max(1.0, count)));
          }};
}

}  // namespace

WrittenInput numbers(Dims dims, double low, double high) {
  return {{f32, std::move(dims)},
          [=](double drawn, std::int64_t) { return low + drawn * (high - low); }};
}

WrittenInput places(Dims dims, std::int64_t below, DType dtype) {
  return {{dtype, std::move(dims)}, [=](double drawn, std::int64_t) {
            return std::floor(drawn * static_cast<double>(below));
          }};
}

WrittenInput one_number(double value, DType dtype) {
  return {{dtype, {}}, [=](double, std::int64_t) { return value; }};
}

void add_written_rows(std::vector<Row>& rows, const std::string& name,
                      std::vector<WrittenModel> models) {
  if (compiling_backends().empty()) return;
  static const MadeOnce<InlineDevice> device;
  const auto rivals = one_for_all_rows<WrittenRivals>();
  for (WrittenModel& each : models) {
    const std::string workload = fmt::format("{}, {}", each.name, each.size);
    const auto model = std::make_shared<ModelOnce>(std::move(each), device);
    Case row{name,   workload,
             "call", repeated("heddle", Kind::heddle, model, &RunningModel::call),
             {},     written_slice};
    row.line = workload;
    row.column = "written first";
    row.seconds_max = written_seconds_max;
    Against against(rows, std::move(row));
    against(repeated("naive C++", Kind::limit, model, &RunningModel::call_plainly));
    for (std::size_t k = 0; k < rivals->all.size(); ++k) against(by_rival(rivals, k, model));
  }
}

}  // namespace heddle::bench
