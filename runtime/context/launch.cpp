// See runtime/context/launch.hpp.
#include "runtime/context/launch.hpp"

#include <array>
#include <mutex>
#include <new>
#include <optional>

#include "jit/system/inside.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/launch/merge_read.hpp"
#include "runtime/launch/steps.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/device/ticket_guard.hpp"
#include "scheduler/threads/never_destroyed.hpp"

namespace heddle::rt {
namespace {

using Trace = std::function<void(const TracedValue&)>;

// How the queue handles a SmallLaunch.

void construct(void* to, void* from) noexcept {
  ::new (to) SmallLaunch(*static_cast<const SmallLaunch*>(from));
}
/// One launch of it has ended.
void count_end(const Linked* linked) noexcept {
  if (linked->launches.end()) delete linked;
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
  if (linked.plain) {
    failure = run_plain(*linked.execution, linked.code, *linked.plain, statics);
  } else {
    Run::Room room;
    failure =
        Run(*linked.execution, linked, linked.tables, {statics, nullptr, *no_trace}, room).all();
  }
  if (!failure.ok()) return false;
  destroy(callable);
  return true;
}

/// One launch: everything that was decided when it was scheduled. Once it has ended it is left to
/// others of its device, empty.
class Launch final : public Operation {
 public:
  [[nodiscard]] static std::unique_ptr<Launch> make(Execution& execution) {
    const std::lock_guard lock(*execution.ledger);
    Spare* const spare = execution.spares.take();  // no other operation is kept there
    if (spare != nullptr) return std::unique_ptr<Launch>(static_cast<Launch*>(spare));
    return std::make_unique<Launch>();
  }
  /// What is launched, and with what. Throws as Statics::take() does.
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
  /// The code reads the merge buffer: how is to be filled in.
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
    execution->spares.give(*this);  // and may go with the execution
  }

  const Linked* linked_ = nullptr;  // held by being counted there, once the launch is accepted
  std::vector<std::int64_t> statics_;
  Trace trace_;
  MergeRead merge_;
  bool merges_ = false;
  Run::Room room_;
  std::optional<Run> run_;  // goes first
};

/// Of a launch that takes no lock; one that touches more takes the way of all others.
constexpr std::size_t plain_touches_max = 32;

/// All that it uses is there, and nothing is to be waited for: the use is noted, and has a ticket.
/// `note`: none, unless its device is disturbed meanwhile. The ledger of the device is locked.
sched::PlainTicket take_ticket(const DeviceState& device, const SmallLaunch& launch,
                               std::optional<sched::TaskNote>& note) {
  const Linked& linked = *launch.linked;
  if (linked.accesses.ledgers().size() != 1) return {};
  const std::uint64_t timeline = device.timeline->id();
  const std::uint64_t disturbances = sched::disturbances(*device.timeline);
  const auto& touches = linked.accesses.touches();
  const bool automatic = device.execution->sync == Sync::automatic;
  if (touches.size() > plain_touches_max) return {};
  const Chosen statics = values_of(launch);
  const auto next = [&](const Accesses::Touch& each) {
    return Accesses::next(each, timeline, disturbances, automatic, statics);
  };
  std::array<Hazards::Record*, plain_touches_max> records;  // NOLINT: of each touch, set here
  for (std::size_t k = 0; k < touches.size(); ++k) {
    const Accesses::Touch& each = touches[k];
    const bool lent = automatic && each.use != Use::read && !each.buffer->loans.empty();
    if (lent || each.buffer->memory == nullptr || may_be_fresh(*each.buffer)) return {};
    const auto found =
        each.hazards->plain(next(each), each.named.slice == nullptr ? 0 : each.among);
    if (!found) return {};
    records[k] = *found;
  }
  const sched::PlainTicket ticket(*device.timeline);
  if (!ticket) return {};
  if (sched::disturbed_since(*device.timeline, disturbances)) [[unlikely]]
    linked.accesses.doubt(timeline, disturbances, automatic, statics, note.emplace());
  for (std::size_t k = 0; k < touches.size(); ++k)
    touches[k].hazards->note_plainly(records[k], ticket.event(), next(touches[k]), false);
  linked.launches.begin();
  return ticket;
}

}  // namespace

constexpr sched::TaskOps SmallLaunch::ops{&construct, &run, &destroy};

bool is_small(const Code& code, const Execution& execution) {
  const jit::Signature& signature = Inside::of(code)->signature();
  return !signature.merge && signature.statics.size() <= SmallLaunch::statics_max &&
         !execution.queue->runs_ahead();
}

bool submit_plainly(const ContextState& context, SmallLaunch launch, Event& event) noexcept {
  const DeviceState& device = *context.device;
  Ledger& ledger = *device.execution->ledger;
  if (!ledger.try_lock_alone()) return false;
  sched::PlainTicket ticket;
  std::optional<sched::TaskNote> note;
  {
    const std::lock_guard lock(ledger, std::adopt_lock);
    launch.linked = context.locked_routine();
    if (launch.linked != nullptr) ticket = take_ticket(device, launch, note);
  }
  if (!ticket) return false;
  event = ticket.event();
  const sched::Label label = launch.linked->label;  // first: the task may end at once
  ::new (ticket.place()) SmallLaunch(launch);
  if (note) [[unlikely]] {
    ticket.publish(label, SmallLaunch::ops, *note);
  } else {
    ticket.publish(label, SmallLaunch::ops);
  }
  return true;
}

Event submit_small(const ContextState& context, const Linked& linked, SmallLaunch launch,
                   const SubmitOptions& options) {
  launch.linked = &linked;
  const Counted counted{*context.device, context, linked.label, linked.accesses, linked.launches};
  return submit_counted(counted, values_of(launch), SmallLaunch::ops, &launch, options);
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
