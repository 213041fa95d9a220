// See runtime/replay/replay_state.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/device/merge_slot.hpp"
#include "runtime/device/route.hpp"
#include "runtime/door/pinned.hpp"
#include "runtime/launch/merge_read.hpp"
#include "runtime/launch/steps.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/replay/replay_state.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/threads/never_destroyed.hpp"

namespace heddle {
namespace rt {
namespace {

using Trace = std::function<void(const TracedValue&)>;

/// Empties the merge buffer after the consumer of a merge().
class Empties final : public MergeUse {
 public:
  explicit Empties(const Accesses& accesses) : accesses_(accesses) {}
  Needs resolve(const DeviceState& /*device*/) override { return {accesses_}; }
  void settle(MergeSlot& slot, const Event& /*taken*/) noexcept override { slot.hold(nullptr); }

 private:
  const Accesses& accesses_;
};

}  // namespace

/// The calls of one task, and the data for their runs.
class Plan : public std::enable_shared_from_this<Plan> {
 public:
  struct Step {
    std::shared_ptr<const Linked> linked;  ///< null: a copy
    std::size_t first_static, num_statics;
    std::shared_ptr<const MergeRead> merge;
    std::shared_ptr<const Memory> merged;
    Move move;
    std::string what;
  };

  Plan(std::string name, const Execution& execution)
      : name_(std::move(name)), runs_ahead_(execution.queue->runs_ahead()) {}

  void add(const Recorded& call, std::vector<std::size_t> open) {
    const std::size_t statics =
        call.linked ? Inside::of(call.linked->code)->signature().statics.size() : 0;
    steps_.push_back({call.linked, num_statics_, statics, call.merge, call.merged,
                      call.move.value_or(Move()), call.what});
    bound_.push_back({call.statics, std::move(open)});
    num_statics_ += statics;
    if (call.linked) ++num_launches_;
  }

  /// The operation for one run. `open`: values of the replay's open static indices. Throws
  /// invalid_argument where a value is outside its bounds.
  [[nodiscard]] std::unique_ptr<Operation> operation(std::span<const std::int64_t> open);
  [[nodiscard]] std::string to_string() const {
    std::string text;
    for (const Step& step : steps_) text += (text.empty() ? "" : ", ") + step.what;
    return text;
  }

 private:
  class Running;
  /// The static indices of a step.
  struct Bound {
    std::optional<RecordedStatics> statics;
    /// for each open index of the step: its place in the replay's list
    std::vector<std::size_t> open;
  };

  const std::string name_;
  const bool runs_ahead_;
  std::vector<Step> steps_;
  std::vector<Bound> bound_;
  std::size_t num_statics_ = 0, num_launches_ = 0;
  std::mutex mutex_;  // held while an object is taken from `spares_`
  Spares spares_;
};

class Plan::Running final : public Operation {
 public:
  explicit Running(const Plan& plan)
      : Operation(true),
        statics_(plan.num_statics_),
        runs_(plan.runs_ahead_ ? plan.steps_.size() : 1),
        rooms_(runs_.size()) {}

  void fill(std::shared_ptr<Plan> plan, std::span<const std::int64_t> open) {
    for (std::size_t k = 0; k < plan->steps_.size(); ++k) {
      const Bound& bound = plan->bound_[k];
      if (!bound.statics) continue;
      const Step& step = plan->steps_[k];
      some_.clear();
      for (const std::size_t each : bound.open) some_.push_back(open[each]);
      bound.statics->take(step.linked->code, some_,
                          std::span(statics_).subspan(step.first_static, step.num_statics));
    }
    plan_ = std::move(plan);
  }

  Status run(Execution& execution) override {
    done_ = 0;
    execution.count_launches(plan_->num_launches_);
    const std::stop_token stop = this_task::stop_token();
    for (const Step& step : plan_->steps_) {
      if (done_ > 0 && stop.stop_requested()) return stopped(execution);
      Status status = one(execution, step);
      if (!status.ok()) return told(step, std::move(status));
      ++done_;
    }
    return {};
  }
  /// Called where the device queue ran ahead of the host.
  Status ended(Execution& /*execution*/, Status status) noexcept override {
    for (std::size_t k = 0; k < plan_->steps_.size() && k <= done_; ++k) {
      if (!runs_[k]) continue;
      if (Status said = runs_[k]->ended({}); !said.ok())
        return told(plan_->steps_[k], std::move(said));
    }
    return status;
  }
  [[nodiscard]] bool host_takes_part() const noexcept override {
    return std::ranges::any_of(plan_->steps_, [&](const Step& step) {
      return step.linked && rt::host_takes_part(*step.linked, inputs(step));
    });
  }

 private:
  Status one(Execution& execution, const Step& step) {
    if (!step.linked) {
      Execution::count(execution.copies);
      return step.move.run();
    }
    const Linked& linked = *step.linked;
    if (linked.single)
      return run_single(execution, linked, linked.tables.of_single(), statics(step));
    const std::size_t k = plan_->runs_ahead_ ? done_ : 0;
    return runs_[k].emplace(execution, linked, linked.tables, inputs(step), rooms_[k]).all();
  }
  [[nodiscard]] RunInputs inputs(const Step& step) const noexcept {
    static sched::NeverDestroyed<const Trace> no_trace;
    return {statics(step), step.merge.get(), *no_trace};
  }
  [[nodiscard]] std::span<const std::int64_t> statics(const Step& step) const noexcept {
    return std::span(statics_).subspan(step.first_static, step.num_statics);
  }
  [[nodiscard]] Status told(const Step& step, Status why) const noexcept {
    const ErrorCode code = why.code();
    return Status(
        code, [&] { return fmt::format("{} in replay '{}'", step.what, plan_->name_); },
        std::move(why));
  }
  [[nodiscard]] Status stopped(const Execution& execution) const noexcept {
    return Status(ErrorCode::cancelled, [&] {
      return fmt::format(
          "replay '{}' on {} was told to stop while it ran: what it writes is incomplete",
          plan_->name_, execution.name);
    });
  }
  void retire(std::shared_ptr<Execution> /*execution*/) noexcept override {
    for (auto& run : runs_) run.reset();
    const auto plan = std::move(plan_);
    plan->spares_.give(*this);  // may destroy this object, with the plan
  }

  std::shared_ptr<Plan> plan_;
  std::vector<std::int64_t> statics_, some_;
  // one per step where the queue runs ahead; otherwise one, of the current step
  std::vector<std::optional<Run>> runs_;
  std::vector<Run::Room> rooms_;
  std::size_t done_ = 0;
};

std::unique_ptr<Operation> Plan::operation(std::span<const std::int64_t> open) {
  std::unique_ptr<Running> running;
  {
    const std::lock_guard lock(mutex_);
    running.reset(static_cast<Running*>(spares_.take()));  // only `Running` objects are kept there
  }
  if (!running) running = std::make_unique<Running>(*this);
  running->fill(shared_from_this(), open);
  return running;
}

ReplayState::ReplayState(std::string name, std::vector<std::shared_ptr<const Recorded>> calls)
    : name_(std::move(name)), label_(sched::Label::intern(name_)), calls_(std::move(calls)) {
  std::vector<const DeviceState*> devices;
  std::vector<RecordedUse> uses;
  for (const auto& call : calls_) {
    const auto at = std::ranges::find(devices, call->device.get());
    const bool apart = call->linked && call->device->execution->queue->runs_ahead() &&
                       host_takes_part(*call->linked, {{}, nullptr, Trace()});
    uses.push_back(
        {static_cast<std::size_t>(at - devices.begin()), call->accesses.touches(), apart});
    if (at == devices.end()) devices.push_back(call->device.get());
  }
  const std::vector<Stretch> stretches = cut_into_stretches(uses);
  tasks_.reserve(stretches.size());
  std::vector<std::size_t> last_on(devices.size());
  for (std::size_t k = 0; k < stretches.size(); ++k) {
    tasks_.push_back(make_task(stretches[k]));
    last_on[stretches[k].device] = k;
  }
  for (const std::size_t each : last_on) tasks_[each].last = true;
  if (tasks_.size() < 2) return;
  turns_.emplace(fmt::format("runs of replay '{}'", name_));
  for (const ReplayTask& task : tasks_) {
    accesses_.then(task.accesses);
    users_.insert(users_.end(), task.users.begin(), task.users.end());
  }
}

std::shared_ptr<const ReplayState> ReplayState::make(
    std::string name, std::vector<std::shared_ptr<const Recorded>> calls) {
  return std::shared_ptr<const ReplayState>(new ReplayState(std::move(name), std::move(calls)));
}

std::size_t ReplayState::place_of_static(const StaticIndex& index) {
  const auto at = std::ranges::find(statics_, index);
  const auto place = static_cast<std::size_t>(at - statics_.begin());
  if (at == statics_.end()) statics_.push_back(index);
  return place;
}

ReplayTask ReplayState::make_task(const Stretch& stretch) {
  ReplayTask task;
  task.device = calls_[stretch.calls.front()]->device;
  task.after = stretch.after;
  task.calls = stretch.calls;
  task.plan = std::make_shared<Plan>(name_, *task.device->execution);
  std::set<const Living*> users;
  for (const std::size_t each : stretch.calls) {
    const Recorded& call = *calls_[each];
    task.accesses.then(call.accesses);
    for (const auto& context : call.contexts) users.insert(context.get());
    task.merges = task.merges || call.merge;
    std::vector<std::size_t> open;
    for (std::size_t k = 0; call.statics && k < call.statics->open().size(); ++k)
      open.push_back(
          place_of_static(Inside::of(call.linked->code)->static_index(call.statics->open()[k])));
    task.plan->add(call, std::move(open));
  }
  task.users.assign(users.begin(), users.end());
  return task;
}

/// Waits for the turn under the policies of the devices' full queues: no wait where a queue has the
/// policy fail, and a deadline where a queue has one.
void ReplayState::take(std::optional<Turns::Turn>& turn, const ReplayOptions& options) const {
  std::optional<Event::Clock::time_point> until;
  bool waits = true;
  for (const ReplayTask& task : tasks_) {
    const auto policy = options.full.value_or(task.device->backend->options.scheduling.device.full);
    if (policy == sched::FullPolicy::deadline) until = options.deadline;
    waits = waits && policy != sched::FullPolicy::fail;
  }
  if (!waits) until = Event::Clock::time_point();
  try {
    turn.emplace(*turns_, until);
  } catch (const Error& e) {
    if (waits || e.status().code() != ErrorCode::deadline) throw;
    throw Error(ErrorCode::exhausted,
                fmt::format("replay '{}': another thread submits a run of it, which may wait for "
                            "room in full queues",
                            name_),
                e.status());
  }
}

Event ReplayState::submit_task(const ReplayTask& task, std::unique_ptr<Operation> operation,
                               std::span<const Event> ends, const ReplayOptions& options,
                               const std::source_location& where) const {
  SubmitOptions submit_options;
  submit_options.after = options.after;
  submit_options.full = options.full;
  submit_options.deadline = options.deadline;
  submit_options.site = where;
  std::vector<sched::Awaited> after;
  for (const Stretch::Before& each : task.after) after.push_back({ends[each.stretch], each.heeded});
  Empties empties(task.accesses);
  Work work{label_, std::move(operation), task.accesses, task.merges ? &empties : nullptr};
  // Pinned checked the whole run: a task after a later failure is skipped, not refused
  if (turns_) {
    work.accepted = true;
  } else {
    work.users = task.users;
  }
  work.after = after;
  return submit(*task.device, std::move(work), submit_options);
}

std::vector<Event> ReplayState::run(BindingsView bindings, const ReplayOptions& options,
                                    const std::source_location& where) const {
  sched::log_made(LogLevel::debug,
                  [&] { return fmt::format("replay '{}': {} tasks", name_, tasks_.size()); });
  std::vector<std::int64_t> open(statics_.size());
  take_statics(name_, statics_, bindings, open);
  std::vector<std::unique_ptr<Operation>> operations;
  for (const ReplayTask& task : tasks_) {
    if (!task.last) continue;
    require_open(*task.device);
    require_well(*task.device,
                 fmt::format("replay '{}' on {}", name_, task.device->execution->name));
  }
  for (const ReplayTask& task : tasks_) operations.push_back(task.plan->operation(open));
  std::optional<Turns::Turn> turn;
  if (turns_) take(turn, options);
  std::optional<Pinned> pinned;
  if (tasks_.size() > 1) pinned.emplace(accesses_, users_, fmt::format("replay '{}'", name_));
  std::vector<Event> ends;
  ends.reserve(tasks_.size());
  Status refused;
  try {
    for (std::size_t k = 0; k < tasks_.size(); ++k)
      ends.push_back(submit_task(tasks_[k], std::move(operations[k]), ends, options, where));
    return ends;
  } catch (const Error& e) {
    if (ends.empty()) throw;
    refused = e.status();
  } catch (const std::bad_alloc&) {
    if (ends.empty()) throw;
    refused = Status(ErrorCode::exhausted, "no memory to submit the next one");
  }
  const ErrorCode code = refused.code();
  throw Error(Status(
      code,
      [&] {
        return fmt::format("replay '{}': {} of its {} tasks were submitted, then one was refused",
                           name_, ends.size(), tasks_.size());
      },
      std::move(refused)));
}

std::string ReplayState::to_string() const {
  std::string text =
      fmt::format("replay '{}': {} calls as {} tasks", name_, calls_.size(), tasks_.size());
  for (std::size_t k = 0; k < tasks_.size(); ++k) {
    const ReplayTask& task = tasks_[k];
    text +=
        fmt::format("\n  {} on {}: {}", k, task.device->execution->name, task.plan->to_string());
    for (const Stretch::Before& each : task.after)
      text += fmt::format("; after {}{}", each.stretch, each.heeded ? "" : " however it ends");
  }
  return text;
}

}  // namespace rt

const std::string& Replay::name() const noexcept { return state_->name(); }
std::size_t Replay::num_recorded() const noexcept { return state_->calls().size(); }
std::size_t Replay::num_tasks() const noexcept { return state_->tasks().size(); }
std::vector<StaticIndex> Replay::statics() const { return state_->statics(); }
std::string Replay::to_string() const { return state_->to_string(); }

std::vector<Event> Replay::run(BindingsView bindings, const ReplayOptions& options,
                               std::source_location where) const {
  std::vector<Event> last;
  last.reserve(num_tasks());  // no failure may follow the submission
  const std::vector<Event> ends = state_->run(bindings, options, where);
  for (std::size_t k = 0; k < ends.size(); ++k) {
    if (state_->tasks()[k].last) last.push_back(ends[k]);
  }
  return last;
}

}  // namespace heddle
