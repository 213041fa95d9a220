// Ends of tickets, good and bad.
#include "scheduler/device/ending.hpp"

#include <fmt/format.h>

#include <utility>

#include "scheduler/device/hooks.hpp"

namespace heddle::sched {

std::string Ending::describe(const char* label, std::uint64_t ticket, const TaskNote& note) const {
  std::string text = fmt::format("device '{}' task '{}' (ticket {}", device_.name(), label, ticket);
  if (note.site.line() != 0)
    text += fmt::format(", submitted at {}:{}", note.site.file_name(), note.site.line());
  return text + ")";
}

namespace {

/// Drops most causes of a failure that passed through many tasks.
Status shortened(Status failure) noexcept {
  if (failure.causes() < tuning::causes_max) return failure;
  return Status(failure.code(), "it came after earlier failures, whose texts are no longer kept",
                failure.root());
}

}  // namespace

Status Ending::refusal_by(std::span<const Awaited> after, std::uint64_t ticket,
                          const TaskNote& note) const noexcept {
  for (const auto& [event, heeded] : after) {
    if (!heeded || !Timeline::has_ended(event)) continue;
    // A caller that sees this task's end sees the cause too: the cause counts as seen.
    Status ended = event.status();
    if (ended.ok()) continue;
    return Status(
        ErrorCode::device_failed,
        [&] {
          return fmt::format("{} came after {}, which ended badly",
                             describe(lane_.at(ticket).label, ticket, note), event.to_string());
        },
        shortened(std::move(ended)));
  }
  return {};
}

void Ending::failed(std::uint64_t ticket, const TaskNote& note, Status result) noexcept {
  destroy(ticket);
  const bool asked_to_stop = control_.asked_to_stop(ticket);
  if ((asked_to_stop || note.own_status) && result.code() == ErrorCode::cancelled) {
    count(cancelled_);
    device_.timeline->note(ticket, ticket, End::cancelled, result, note.contain);
    finish(ticket, trace::Ended::cancelled);
    return;
  }
  if (note.own_status) return end_badly(ticket, note, result, false);
  std::exception_ptr exception = result.exception();
  Status failure(
      ErrorCode::device_failed,
      [&] { return describe(running_.label(), ticket, note) + " failed"; }, std::move(result));
  end_badly(ticket, note, failure.with_exception(std::move(exception)), !note.contain);
}

void Ending::refused(std::uint64_t ticket, const TaskNote& note, const Status& why) noexcept {
  if (why.code() == ErrorCode::cancelled) {
    drop(ticket, End::cancelled, why);
  } else if (note.is_wait) {
    destroy(ticket);
    end_badly(ticket, note, why, true);
  } else {
    leave_out(ticket, End::skipped, why, true);
  }
}

/// The task or its predecessor failed. Poison ends later tasks of this epoch as skipped.
void Ending::end_badly(std::uint64_t ticket, const TaskNote& note, const Status& why,
                       bool poison) noexcept {
  count(failed_);
  device_.timeline->note(ticket, ticket, End::failed, why, !poison || note.contain);
  if (poison) control_.poison(ticket, why);
  simulated_point();
  finish(ticket, trace::Ended::failed);
}

void Ending::drop(std::uint64_t ticket, End end, const Status& why) noexcept {
  leave_out(ticket, end, why, false);
}

/// `alone`: the failure belongs to another device, and skips no further task of this device.
void Ending::leave_out(std::uint64_t ticket, End end, const Status& why, bool alone) noexcept {
  destroy(ticket);
  count(end == End::skipped ? skipped_ : cancelled_);
  device_.timeline->note(ticket, ticket, end, why, alone);
  simulated_point();
  finish(ticket, end == End::skipped ? trace::Ended::skipped : trace::Ended::cancelled);
}

void Ending::destroy(std::uint64_t ticket) noexcept {
  lane_.look(ticket).ops().destroy(lane_.at(ticket).callable);
}

void Ending::finish(std::uint64_t ticket, trace::Ended ended) noexcept {
  if (!lane_.note(ticket).after.empty()) {
    waits_.leave_gate();
    lane_.note(ticket).after.reset();
  }
  if (trace::on()) trace_.end_task(running_.label(), ticket, ended);
  if (device_.timeline->advance(ticket)) call_back(ticket);
}

void Ending::call_back(std::uint64_t ticket) noexcept {
  trace_.begin();
  if (device_.timeline->call_back(ticket)) trace_.end_callbacks(ticket);
}

void Ending::show(Counters& counters) const noexcept {
  // relaxed: statistics; exact when the device is idle. Pairs with the stores of count().
  constexpr auto order = std::memory_order_relaxed;
  counters.failed = failed_.load(order);
  counters.skipped = skipped_.load(order);
  counters.cancelled = cancelled_.load(order);
}

}  // namespace heddle::sched
