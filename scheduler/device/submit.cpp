// Submission by handles: TaskDevice, TicketGuard and PlainTicket forward to their device.
#include "scheduler/device/device_core.hpp"
#include "scheduler/device/empty_handle.hpp"
#include "scheduler/device/ticket_guard.hpp"

namespace heddle::sched {

TaskDevice::Slot TaskDevice::reserve(DeviceCore& core) noexcept { return core.reserve(); }

void TaskDevice::publish(DeviceCore& core, Slot slot, const char* label,
                         const TaskOps& task) noexcept {
  core.publish(slot, label, task);
}

Event TaskDevice::submit_task(Label label, const TaskOps& task, void* from) const noexcept {
  if (core_ == nullptr) [[unlikely]]
    return refuse_empty();
  return core_->admission().submit_otherwise(label, task, from);
}

Event TaskDevice::submit_task(Label label, const TaskOps& task, void* from,
                              const SubmitOptions& options) const noexcept {
  if (core_ == nullptr) return refuse_empty();
  TaskNote note;
  return core_->admission().submit_carefully(label, note, task, from, options, nullptr);
}

Event TicketGuard::submit(const TaskDevice& device, Label label, const TaskOps& ops, void* from,
                          const SubmitOptions& options, TicketGuard& guard) noexcept {
  TaskNote note;
  return DeviceCore::in(device).admission().submit_carefully(label, note, ops, from, options,
                                                             &guard);
}

std::uint64_t disturbances(const TaskDevice& device) noexcept {
  return DeviceCore::in(device).disturbances().begun();
}

bool disturbed_since(const TaskDevice& device, std::uint64_t before) noexcept {
  return DeviceCore::in(device).disturbances().changed_since(before);
}

PlainTicket::PlainTicket(const TaskDevice& device) noexcept : core_(&DeviceCore::in(device)) {
  auto slot = core_->reserve();
  if (slot.callable == nullptr) [[unlikely]]
    slot = core_->reserve(Recount());
  place_ = slot.callable;
  if (place_ != nullptr) [[likely]]
    event_ = core_->admission().event(slot.ticket);
}

void PlainTicket::publish(Label label, const TaskOps& ops) const noexcept {
  core_->publish({place_, event_.ticket()}, label.c_str(), ops);
}

void PlainTicket::publish(Label label, const TaskOps& ops, TaskNote& note) const noexcept {
  core_->publish({place_, event_.ticket()}, label.c_str(), ops, note);
}

}  // namespace heddle::sched
