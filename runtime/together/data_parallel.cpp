// Data-parallel runs, as replays of several updates. The batch numbers of a replay are cells:
//
//   device 0               gradient  +  gradient | sums, its part | update   gradient  + ...
//   device 1   parameters  gradient  +  gradient | sums, its part | update   gradient  + ...
//
// "+" adds up on the device, where an update has several batches per device (merge_every). Where
// not every device can update (updating.hpp), the first device makes the sums and updates, and the
// parameters are copied before each update.
#include "heddle/data_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <compare>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "heddle/backend.hpp"
#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"
#include "runtime/context/giving.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/launch/statics.hpp"
#include "runtime/together/collectives.hpp"
#include "runtime/together/updating.hpp"
#include "scheduler/threads/floating.hpp"

namespace heddle {
namespace rt {
namespace {

template <class... Args>
[[noreturn]] void refuse_run(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, "data-parallel run: " + fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void require_run(bool right, fmt::format_string<Args...> text, Args&&... args) {
  if (!right) refuse_run(ErrorCode::invalid_argument, text, std::forward<Args>(args)...);
}

bool has_static(const Code& code, const StaticIndex& index) {
  return std::ranges::count(code.statics(), index) != 0;
}

/// The sum must be written by the gradient, from the values of a single batch.
void check_sum(const Code& gradient, const Tensor& tensor) {
  const jit::CodeData& code = *Inside::of(gradient);
  const auto entry = entry_of(code, tensor);
  require_run(entry && is_stored(code, *entry),
              "'{}' leaves no sum '{}' in memory (expected a tensor that it writes; set_mode("
              "MemoryMode::on_device) keeps one that it also reads)",
              gradient.name(), tensor.label());
  require_run(!code.signature().entries[*entry].reads_before_writing,
              "'{}' reads what was in sum '{}' before (expected the values of one batch, from "
              "nothing: the run adds up)",
              gradient.name(), tensor.label());
}

void check_devices(std::span<const Context> contexts) {
  require_run(!contexts.empty(), "needs a context at least, one for each device");
  const Device first = contexts[0].device();
  for (std::size_t k = 1; k < contexts.size(); ++k) {
    const Device device = contexts[k].device();
    for (std::size_t before = 0; before < k; ++before) {
      require_run(!(contexts[before].device() == device),
                  "contexts {} and {} are on one device, {}; give each a device of its own", before,
                  k, device.name());
    }
    require_run(device.backend().name() == first.backend().name(),
                "devices {} and {} are of different backends, for which one code is not compiled",
                first.name(), device.name());
  }
}

void check_options(const DataParallelOptions& options) {
  require_run(options.merge_every >= 1, "merge_every is {} (expected 1 round or more)",
              options.merge_every);
  require_run(!options.sums.empty(), "has no sums: name what '{}' computes for a batch",
              options.gradient.name());
  std::set<std::uint64_t> known;
  for (const auto* const list : {&options.sums, &options.parameters}) {
    for (const Tensor& each : *list)
      require_run(known.insert(each.id()).second, "tensor '{}' is listed twice", each.label());
  }
  require_run(has_static(options.gradient, options.batch),
              "'{}' has no static index '{}', which is to say the batch", options.gradient.name(),
              options.batch.label());
  require_run(!has_static(options.update, options.batch),
              "'{}' has the static index '{}', but an update is of several batches",
              options.update.name(), options.batch.label());
  for (const Tensor& each : options.sums) check_sum(options.gradient, each);
}

/// Most updates of one replay, to spread the cost of submission and of waits at the edges.
constexpr std::size_t updates_max = 8;

}  // namespace

class DataParallelState {
 public:
  DataParallelState(std::span<const Context> contexts, const DataParallelOptions& options);

  [[nodiscard]] const std::vector<Context>& contexts() const noexcept { return contexts_; }
  /// Throws invalid_argument, naming the index, where the range is empty or has a batch out of
  /// bounds.
  void check_range(std::int64_t begin, std::int64_t end) const;
  std::int64_t run(std::span<const std::int64_t> batches, const DataParallelRun& options,
                   const std::source_location& where);

 private:
  /// Routines that add up the batches of a device, where an update has several.
  struct Adding {
    Routine keep, add, finish;  ///< for the first batch, for batches in between, for the last batch
  };
  class Busy;

  /// The key of a replay. With several updates, each update has full() batches.
  struct Part {
    std::size_t updates, batches;
    bool copies;  ///< starts with copies of the first device's state to the rest
    friend auto operator<=>(const Part&, const Part&) = default;
  };

  /// Batches of a complete update.
  [[nodiscard]] std::size_t full() const noexcept {
    return contexts_.size() * static_cast<std::size_t>(options_.merge_every);
  }
  [[nodiscard]] std::span<const Context> active(std::size_t batches) const noexcept {
    return std::span(contexts_).first(std::min(batches, contexts_.size()));
  }
  [[nodiscard]] Context with_totals(const Context& context) const;
  void make_adding();
  [[nodiscard]] Replay record(const Part& part);
  void record_update(Recording& recording, std::size_t first, std::size_t batches);
  void record_batches(Recording& recording, std::size_t k, std::size_t first,
                      std::size_t batches) const;
  [[nodiscard]] const std::vector<Routine>& adders(std::size_t num_terms);
  [[nodiscard]] const Replay& replay_of(const Part& part);
  [[nodiscard]] Part next_part(std::size_t left, std::int64_t until_report, bool copies) const;
  /// Throws invalid_argument, naming index, value and range.
  void check_batch(std::int64_t batch) const;
  void check_run(std::span<const std::int64_t> batches, const DataParallelRun& options) const;
  [[nodiscard]] std::int64_t submit(std::span<const std::int64_t> batches,
                                    const DataParallelRun& options,
                                    const std::source_location& where);
  void submit_one(const Replay& replay, BindingsView bindings, const std::source_location& where);
  [[nodiscard]] double read_loss(const Tensor& loss) const;
  [[nodiscard]] Status await_devices() const;

  const DataParallelOptions options_;
  std::vector<Context> contexts_;
  std::vector<Routine> gradients_;
  Updating updating_;
  std::vector<Tensor> totals_;       // sums of a device's batches so far; one per sum
  std::vector<Adding> adding_;       // per device; empty where an update has one batch per device
  std::vector<std::int64_t> cells_;  // the batch numbers of a replay
  std::map<std::size_t, std::vector<Routine>> adders_;  // sums over the devices, by number of terms
  std::map<Part, Replay> replays_;
  std::optional<Replay> spread_;  // copies the first device's state; none with one device
  std::vector<Event> before_;     // the next replay comes after these, unless the sync is automatic
  std::atomic<bool> runs_{false};
};

/// Guards against concurrent runs.
class DataParallelState::Busy {
 public:
  explicit Busy(DataParallelState& state) : state_(state) {
    // acquire: pairs with the release below, in the previous run.
    if (state.runs_.exchange(true, std::memory_order_acquire))
      refuse_run(ErrorCode::failed_precondition,
                 "another one of '{}' goes on; wait for its end, or make one of your own",
                 state.options_.gradient.name());
  }
  // release: pairs with the acquire above, in the next run.
  ~Busy() { state_.runs_.store(false, std::memory_order_release); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  DataParallelState& state_;
};

DataParallelState::DataParallelState(std::span<const Context> contexts,
                                     const DataParallelOptions& options)
    : options_(options) {
  check_devices(contexts);
  check_options(options_);
  const auto& signature = Inside::of(options_.gradient)->signature();
  const auto statics = options_.gradient.statics();
  const auto at = std::ranges::find(statics, options_.batch) - statics.begin();
  for (const Context& context : contexts) {
    gradients_.push_back(context.link(options_.gradient));
    contexts_.push_back(gradients_.back().context());
  }
  updating_ = link_updates(options_, contexts_);
  if (options_.merge_every > 1) make_adding();
  cells_.assign(full() * (updating_.by_all ? updates_max : 1),
                signature.statics[static_cast<std::size_t>(at)].lowest);
  static_cast<void>(replay_of({1, full(), contexts_.size() > 1}));
  if (contexts_.size() == 1) return;
  Recording recording("parameters");
  for (const Tensor& each : updating_.state) recording.broadcast(each, contexts_);
  spread_ = recording.finish();
}

/// `context` with memory for the sums of a device's batches.
Context DataParallelState::with_totals(const Context& context) const {
  Context with = context;
  for (const Tensor& each : totals_) {
    const BufferView view(Buffer::allocate(context.device(), each.type()), each.type());
    with = with.with(each, view);
  }
  return with;
}

void DataParallelState::make_adding() {
  std::vector<Program> programs{Program("keep"), Program("add"), Program("finish")};
  for (const Tensor& sum : options_.sums) {
    const Tensor total = totals_.emplace_back("total_" + sum.label(), sum.type().dtype, sum.dims());
    std::vector<Subscript> at;
    for (std::size_t axis = 0; axis < sum.dims().size(); ++axis) at.emplace_back(Index());
    programs[0] << (total.at(at) = sum.at(at));
    programs[1] << (total.at(at) = total.at(at) + sum.at(at));
    programs[2] << (sum.at(at) = total.at(at) + sum.at(at));
  }
  const CodeBatch code = contexts_[0].device().backend().compile_batch(programs);
  for (const Context& context : contexts_) {
    const Context with = with_totals(context);
    adding_.push_back({with.link(*code[0]), with.link(*code[1]), with.link(*code[2])});
  }
}

/// Records the k-th device's part of an update with `batches` batches, whose numbers start at the
/// cell `first`.
void DataParallelState::record_batches(Recording& recording, std::size_t k, std::size_t first,
                                       std::size_t batches) const {
  for (std::size_t at = k; at < batches; at += contexts_.size()) {
    recording.schedule(gradients_[k], {{options_.batch, &cells_[first + at]}});
    const bool begins = at == k, ends = at + contexts_.size() >= batches;
    if (begins && ends) continue;
    const Adding& adding = adding_[k];
    recording.schedule(begins ? adding.keep : ends ? adding.finish : adding.add);
  }
}

const std::vector<Routine>& DataParallelState::adders(std::size_t num_terms) {
  const auto known = adders_.find(num_terms);
  if (known != adders_.end()) return known->second;
  // by_all implies shared memory, hence there is a value.
  auto made = all_reduce_routines(options_.sums, contexts_, num_terms).value();
  return adders_.emplace(num_terms, std::move(made)).first->second;
}

void DataParallelState::record_update(Recording& recording, std::size_t first,
                                      std::size_t batches) {
  const auto devices = active(batches);
  for (std::size_t k = 0; k < devices.size(); ++k) record_batches(recording, k, first, batches);
  if (updating_.by_all) {
    for (const Routine& each : adders(devices.size())) recording.schedule(each);
  } else {
    recording.reduce(options_.sums, devices);
  }
  for (const Routine& each : updating_.routines) recording.schedule(each);
}

Replay DataParallelState::record(const Part& part) {
  Recording recording(options_.gradient.name());
  if (part.copies) {
    // Devices without a batch update too, and need the copies.
    const auto to = updating_.by_all ? std::span<const Context>(contexts_) : active(part.batches);
    for (const Tensor& each : updating_.state) recording.broadcast(each, to);
  }
  const std::size_t some = part.batches / part.updates;
  for (std::size_t n = 0; n < part.updates; ++n) record_update(recording, n * some, some);
  return recording.finish();
}

const Replay& DataParallelState::replay_of(const Part& part) {
  const auto known = replays_.find(part);
  if (known != replays_.end()) return known->second;
  return replays_.emplace(part, record(part)).first->second;
}

/// The next replay for the remaining batches: several updates, but none beyond the next report.
DataParallelState::Part DataParallelState::next_part(std::size_t left, std::int64_t until_report,
                                                     bool copies) const {
  if (left < full()) return {1, left, copies};
  const std::size_t most = std::min(left, cells_.size()) / full();
  const auto updates =
      std::min(static_cast<std::uint64_t>(most), static_cast<std::uint64_t>(until_report));
  return {updates, updates * full(), copies};
}

void DataParallelState::check_batch(std::int64_t batch) const {
  static_cast<void>(RecordedStatics(options_.gradient, {{options_.batch, batch}}));
}

void DataParallelState::check_range(std::int64_t begin, std::int64_t end) const {
  require_run(begin < end, "there are no batches from {} up to {} (expected values of '{}')", begin,
              end, options_.batch.label());
  for (const std::int64_t each : {begin, end - 1}) check_batch(each);
}

void DataParallelState::check_run(std::span<const std::int64_t> batches,
                                  const DataParallelRun& options) const {
  require_run(!batches.empty(), "has no batches (expected values of '{}')", options_.batch.label());
  require_run(options.report_every >= 1, "report_every is {} (expected 1 update or more)",
              options.report_every);
  for (const std::int64_t each : batches) check_batch(each);
  if (!options.loss) return;
  const ArrayType& type = options.loss->type();
  require_run(type.num_elements() == 1 && (type.dtype == f32 || type.dtype == f64),
              "the loss '{}' is {} (expected one element of f32 or f64)", options.loss->label(),
              type.to_string());
  static_cast<void>(contexts_[0].view(*options.loss));
}

std::int64_t DataParallelState::run(std::span<const std::int64_t> batches,
                                    const DataParallelRun& options,
                                    const std::source_location& where) {
  const Busy busy(*this);
  check_run(batches, options);
  std::int64_t updates = 0;
  std::exception_ptr thrown;
  try {
    updates = submit(batches, options, where);
  } catch (const Error&) {
    thrown = std::current_exception();
  } catch (...) {  // an exception of on_update
    static_cast<void>(await_devices());
    throw;
  }
  if (Status failed = await_devices(); !failed.ok()) throw Error(std::move(failed));
  if (thrown) std::rethrow_exception(thrown);
  return updates;
}

std::int64_t DataParallelState::submit(std::span<const std::int64_t> batches,
                                       const DataParallelRun& options,
                                       const std::source_location& where) {
  before_.clear();
  for (const Context& context : contexts_) before_.push_back(context.device().record());
  DataParallelProgress progress;
  // True: the first device may have values that the rest lack, written by the host or on_update.
  bool apart = spread_.has_value();
  for (std::size_t at = 0; at < batches.size();) {
    const std::int64_t until_report =
        options.report_every - progress.updates % options.report_every;
    const Part part = next_part(
        batches.size() - at,
        options.on_update ? until_report : std::numeric_limits<std::int64_t>::max(), apart);
    std::ranges::copy(batches.subspan(at, part.batches), cells_.begin());
    submit_one(replay_of(part), options.bindings, where);
    apart = spread_ && !updating_.by_all;
    at += part.batches;
    progress.updates += static_cast<std::int64_t>(part.updates);
    progress.batches = static_cast<std::int64_t>(at);
    const bool told = progress.updates % options.report_every == 0 || at == batches.size();
    if (!options.on_update || !told) continue;
    if (options.loss) progress.loss = read_loss(*options.loss);
    throw_if_failed(contexts_[0].device().record().wait());
    apart = spread_.has_value();
    if (!options.on_update(progress)) break;
  }
  if (apart) submit_one(*spread_, {}, where);
  return progress.updates;
}

void DataParallelState::submit_one(const Replay& replay, BindingsView bindings,
                                   const std::source_location& where) {
  // Without automatic sync the order between replays must be explicit.
  const bool automatic = std::ranges::all_of(contexts_, [](const Context& context) {
    return Inside::of(context.device())->execution->sync == Sync::automatic;
  });
  ReplayOptions options;
  if (!automatic) options.after = std::move(before_);
  before_ = replay.run(bindings, options, where);
}

double DataParallelState::read_loss(const Tensor& loss) const {
  const sched::DefaultFloating floating;
  return loss.type().dtype == f32 ? static_cast<double>(contexts_[0].read<float>(loss)[0])
                                  : contexts_[0].read<double>(loss)[0];
}

/// Waits for the end of the submitted work. With several failures, returns the failure with the
/// fewest causes: the rest follow from it.
Status DataParallelState::await_devices() const {
  Status failed;
  std::string name;
  for (const Context& context : contexts_) {
    Status status = context.device().record().wait();
    if (status.ok() || (!failed.ok() && failed.causes() <= status.causes())) continue;
    failed = std::move(status);
    name = context.device().name();
  }
  if (failed.ok()) return {};
  return {failed.code(),
          fmt::format("a data-parallel run of '{}' on {} devices ended, as {} failed",
                      options_.gradient.name(), contexts_.size(), name),
          failed};
}

}  // namespace rt

DataParallel::DataParallel(std::span<const Context> contexts, const DataParallelOptions& options)
    : state_(std::make_shared<rt::DataParallelState>(contexts, options)) {}

std::size_t DataParallel::num_devices() const noexcept { return state_->contexts().size(); }

Context DataParallel::context(std::size_t k) const {
  const auto& all = state_->contexts();
  rt::require_run(k < all.size(), "has no context {} (expected below {})", k, all.size());
  return all[k];
}

std::int64_t DataParallel::run(std::span<const std::int64_t> batches,
                               const DataParallelRun& options, std::source_location where) const {
  const auto kept = state_;  // on_update may drop the last handle
  return kept->run(batches, options, where);
}

std::int64_t DataParallel::run(std::int64_t begin, std::int64_t end, const DataParallelRun& options,
                               std::source_location where) const {
  state_->check_range(begin, end);
  std::vector<std::int64_t> batches(static_cast<std::size_t>(end - begin));
  std::iota(batches.begin(), batches.end(), begin);
  return run(batches, options, where);
}

}  // namespace heddle
