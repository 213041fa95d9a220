// See runtime/context/launch.hpp.
#include "runtime/context/launch.hpp"

#include <mutex>
#include <new>
#include <optional>

#include "jit/system/inside.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/door/fast_path.hpp"
#include "runtime/launch/merge_read.hpp"
#include "runtime/launch/steps.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/device/ticket_guard.hpp"
#include "scheduler/threads/never_destroyed.hpp"
#include "scheduler/threads/thread_number.hpp"

namespace heddle::rt {
namespace {

using Trace = std::function<void(const TracedValue&)>;

// The queue's operations on a SmallLaunch.

void construct(void* to, void* from) noexcept {
  ::new (to) SmallLaunch(*static_cast<const SmallLaunch*>(from));
}
/// Counts the end of a launch. The last launch destroys `linked` if the last handle is gone.
void count_end(const Linked* linked) noexcept {
  if (linked->launches.end(sched::thread_number())) delete linked;
}

void destroy(void* callable) noexcept { count_end(static_cast<SmallLaunch*>(callable)->linked); }
std::span<const std::int64_t> values_of(const SmallLaunch& launch) noexcept {
  return {launch.statics, Inside::of(launch.linked->code)->signature().statics.size()};
}
bool run(void* callable, Status& failure) {
  static sched::NeverDestroyed<const Trace> no_trace;
  const auto& launch = *static_cast<const SmallLaunch*>(callable);
  const Linked& linked = *launch.linked;
  linked.execution->count_launches(1);
  const std::span statics = values_of(launch);
  if (linked.single) {
    failure = run_single(*linked.execution, linked, linked.tables.of_single(), statics);
  } else {
    Run::Room room;
    failure =
        Run(*linked.execution, linked, linked.tables, {statics, nullptr, *no_trace}, room).all();
  }
  if (!failure.ok()) return false;
  destroy(callable);
  return true;
}

/// A launch of any code, with its inputs as of the call of schedule(). When the launch has ended,
/// retire() empties the object and puts it on the device's free list (`spares`).
class Launch final : public Operation {
 public:
  [[nodiscard]] static std::unique_ptr<Launch> make(Execution& execution) {
    const std::lock_guard lock(*execution.ledger);
    Spare* const spare = execution.spares.take();  // only launches are kept there
    if (spare != nullptr) return std::unique_ptr<Launch>(static_cast<Launch*>(spare));
    return std::make_unique<Launch>();
  }
  /// Sets the code and the arguments. Throws as Statics::take() does.
  void fill(const Linked& linked, const Statics& statics, const Trace& trace) {
    linked_ = &linked;
    statics_.resize(Inside::of(linked_->code)->signature().statics.size());
    statics.take(linked_->code, statics_);
    trace_ = trace;
  }

  Status run(Execution& execution) override {
    execution.count_launches(1);
    return run_.emplace(execution, *linked_, linked_->tables, inputs(), room_).all();
  }
  Status ended(Execution& execution, Status status) noexcept override {
    status = run_->ended(std::move(status));
    return status.ok() && merges_ ? merge_.ended(execution, linked_->code) : status;
  }
  void accepted() noexcept override { linked_->launches.begin(); }
  [[nodiscard]] bool host_takes_part() const noexcept override {
    return rt::host_takes_part(*linked_, inputs());
  }
  [[nodiscard]] std::span<const std::int64_t> statics() const noexcept { return statics_; }
  /// For code that reads the merge buffer: the caller fills in the returned object.
  MergeRead& merging() {
    merges_ = true;
    return merge_;
  }

 private:
  [[nodiscard]] RunInputs inputs() const noexcept {
    return {statics_, merges_ ? &merge_ : nullptr, trace_};
  }
  void retire(std::shared_ptr<Execution> execution) noexcept override {
    run_.reset();
    trace_ = nullptr;
    merge_.clear();
    merges_ = false;
    count_end(linked_);
    execution->spares.give(*this);  // may destroy this launch, with the execution
  }

  const Linked* linked_ = nullptr;  // kept alive by the count `launches`, once accepted
  std::vector<std::int64_t> statics_;
  Trace trace_;
  MergeRead merge_;
  bool merges_ = false;
  Run::Room room_;
  std::optional<Run> run_;  // refers to the members above; destroyed before them
};

/// A small launch on the fast path.
class PlainLaunch {
 public:
  /// `event`: set when the device accepts the launch.
  PlainLaunch(const ContextState& context, SmallLaunch& launch, Event& event)
      : context_(context), launch_(launch), event_(event) {}

  [[nodiscard]] bool look(PlainUses& uses) {
    launch_.linked = context_.locked_routine();
    if (launch_.linked == nullptr) return false;
    const Accesses& accesses = launch_.linked->accesses;
    if (accesses.ledgers().size() != 1 || accesses.touches().size() > PlainUses::room) return false;
    const bool automatic = context_.device->execution->sync == Sync::automatic;
    const Chosen statics = values_of(launch_);
    const std::uint64_t timeline = uses.timeline();
    for (const Accesses::Touch& each : accesses.touches()) {
      const bool lent = automatic && writes(each.use) && !each.buffer->loans.empty();
      if (lent || !is_there(*each.buffer)) return false;
      PlainUses::OneUse& use = uses.add();
      Accesses::set_next(use.next, each, timeline, uses.disturbances(), automatic, statics);
      const auto found =
          each.hazards->plain(use.next, each.named.slice == nullptr ? 0 : each.among);
      if (!found) return false;
      use.hazards = each.hazards;
      use.record = *found;
      use.unkept = nullptr;
    }
    return true;
  }
  void accepted(const Event& event) {
    event_ = event;
    launch_.linked->launches.begin();
  }
  [[nodiscard]] const sched::TaskOps& ops() const noexcept { return launch_.ops(); }
  [[nodiscard]] sched::Label put(void* place, const Event& /*event*/) noexcept {
    ::new (place) SmallLaunch(launch_);
    return launch_.linked->label;
  }

 private:
  const ContextState& context_;
  SmallLaunch& launch_;
  Event& event_;
};

}  // namespace

const sched::TaskOps& SmallLaunch::ops() const noexcept {
  static constexpr sched::TaskOps any{&construct, &run, &destroy};
  static constexpr sched::TaskOps one_kernel{&construct, &run, &destroy, nullptr, nullptr, true};
  return linked->single && linked->single->fits_any_stack ? one_kernel : any;
}

bool is_small(const Code& code, const Execution& execution) {
  const jit::Signature& signature = Inside::of(code)->signature();
  return !signature.merge && signature.statics.size() <= SmallLaunch::statics_max &&
         !execution.queue->runs_ahead();
}

bool submit_plainly(const ContextState& context, SmallLaunch launch, Event& event) noexcept {
  PlainLaunch plain(context, launch, event);
  return submit_plainly(*context.device, plain);
}

Event submit_small(const ContextState& context, const Linked& linked, SmallLaunch launch,
                   const SubmitOptions& options) {
  launch.linked = &linked;
  const Counted counted{*context.device, context, linked.label, linked.accesses, linked.launches};
  return submit_counted(counted, values_of(launch), launch.ops(), &launch, options);
}

Event submit_launch(const ContextState& context, const Linked& linked, const Statics& statics,
                    const Trace& trace, const MergeSource* source, const SubmitOptions& options) {
  auto launch = Launch::make(*linked.execution);
  launch->fill(linked, statics, trace);
  const Living* const users[] = {&context};
  const std::span values = launch->statics();
  if (!Inside::of(linked.code)->signature().merge) {
    Work work{linked.label, std::move(launch), linked.accesses, nullptr, users};
    work.statics = values;
    return submit(*context.device, std::move(work), options);
  }
  MergeRead& read = launch->merging();
  return submit_consumer(context, linked, read, source, values, std::move(launch), options);
}

}  // namespace heddle::rt
