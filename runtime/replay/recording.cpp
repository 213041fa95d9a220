// See runtime/replay/recording.hpp.
#include "runtime/replay/recording.hpp"

#include <fmt/format.h>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/context/copies.hpp"
#include "runtime/context/launch.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/device/route.hpp"
#include "runtime/launch/merge_read.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/replay/replay_state.hpp"

namespace heddle {
namespace rt {

std::unique_lock<std::mutex> RecordingState::lock() const {
  auto lock = mutex_.lock_or_fork();
  if (lock) return lock;
  throw Error(ErrorCode::unavailable,
              fmt::format("recording '{}': forked: a thread of the parent was recording when this "
                          "process was forked; make another in the child",
                          name));
}

void RecordingState::add(std::shared_ptr<const Recorded> call) {
  const auto locked = lock();
  calls_.push_back(std::move(call));
}

std::vector<std::shared_ptr<const Recorded>> RecordingState::calls() const {
  const auto locked = lock();
  return calls_;
}

namespace {

/// Notes a context of the call; its ledger will be locked with the call's accesses.
void use(Recorded& call, const Context& context) {
  const auto& state = Inside::of(context);
  call.accesses.add(*state->device->execution->ledger);
  call.contexts.push_back(state);
}

/// Names the call in its accesses, and refuses donated memory. Promised memory is accepted, as a
/// run may come after the hand-over.
void require_memory(Recorded& call, const std::string& recording) {
  call.accesses.be_of(call.what);
  for (const Accesses::Touch& each : call.accesses.touches()) {
    require_live(each.named,
                 fmt::format("recording '{}' on {}", recording, call.device->execution->name));
  }
}

void record_launch(Recorded& call, const Routine& routine, RecordedStatics statics) {
  const Context context = routine.context();
  use(call, context);
  call.device = Inside::of(context)->device;
  require_open(*call.device);
  call.linked = Inside::of(context)->routine();
  if (!call.linked) Inside::of(context)->refuse_finalised();
  for (const Accesses::Touch& each : call.linked->accesses.touches()) {
    if (each.named.taker == nullptr) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a recording cannot have routine '{}', which takes the memory of "
                            "tensor '{}' as it is scheduled, and so can be scheduled once",
                            routine.name(), each.named.tensor->label()));
  }
  call.what = fmt::format("routine '{}'", routine.name());
  call.accesses.then(call.linked->accesses);
  call.statics = std::move(statics);
}

void record_routine(RecordingState& recording, const Routine& routine, RecordedStatics statics) {
  if (const auto merged = routine.merge_tensor()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("recording '{}': routine '{}' merges tensor '{}'; record it with "
                            "merge(), which says from where",
                            recording.name, routine.name(), merged->label()));
  }
  auto call = std::make_shared<Recorded>();
  record_launch(*call, routine, std::move(statics));
  require_memory(*call, recording.name);
  recording.add(std::move(call));
}

}  // namespace
}  // namespace rt

Recording::Recording(std::string name)
    : state_(std::make_shared<rt::RecordingState>(std::move(name))) {}

void Recording::schedule(const Routine& routine, BindingsView bindings) {
  rt::record_routine(*state_, routine, rt::RecordedStatics(routine.code(), bindings));
}

void Recording::schedule(const Call& call) {
  const rt::CallState& state = *Inside::of(call);
  rt::record_routine(*state_, state.routine, rt::RecordedStatics(state.statics));
}

Transfer Recording::copy(const Tensor& tensor, const Context& source, const Context& destination) {
  auto call = std::make_shared<rt::Recorded>();
  rt::CopyPlan plan = rt::plan_copy(tensor, source, destination);
  if (!plan.nothing.empty()) return {TransferOutcome::nothing_to_do, {}, std::move(plan.nothing)};
  call->device = Inside::of(destination)->device;
  rt::use(*call, source);
  rt::use(*call, destination);
  call->tensor = tensor;
  call->what = fmt::format("copy of '{}'", tensor.label());
  call->from = std::move(plan.from);
  call->to = std::move(plan.to);
  call->accesses.add({call->to.get(), rt::Use::overwrite, &*call->tensor});
  call->accesses.add({call->from.get(), rt::Use::read, &*call->tensor});
  rt::require_memory(*call, state_->name);
  call->move = rt::plan_move(*call->device->execution, rt::place_of(*call->from),
                             rt::place_of(*call->to), call->to->num_bytes(), "copy of", &tensor);
  state_->add(std::move(call));
  return {TransferOutcome::scheduled, {}, {}};
}

void Recording::merge(const Routine& consumer, const Context& source, MergeMode mode,
                      BindingsView bindings) {
  auto call = std::make_shared<rt::Recorded>();
  call->tensor = rt::require_consumer(consumer, mode);
  call->from = rt::require_source(*call->tensor, source, "merge");
  rt::record_launch(*call, consumer, rt::RecordedStatics(consumer.code(), bindings));
  rt::use(*call, source);
  call->accesses.add({call->from.get(), rt::Use::read, &*call->tensor});
  rt::require_memory(*call, state_->name);
  auto read = std::make_shared<rt::MergeRead>();
  call->merged = rt::read_merged(*call->device, *call->linked,
                                 {&*call->tensor, call->from.get(), mode}, *read);
  call->merge = std::move(read);
  state_->add(std::move(call));
}

Replay Recording::finish() const {
  return Inside::make<Replay>(rt::ReplayState::make(state_->name, state_->calls()));
}

}  // namespace heddle
