// The parts of Scheduler::submit_any(): the task made of a callable, and the task's lease of a
// device of the scheduler, which is free for the next task once this task ends.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "heddle/event.hpp"
#include "heddle/task_device.hpp"

namespace heddle::sched {
class AnyDevices;
struct AnyPlace;
}  // namespace heddle::sched

#pragma GCC visibility push(default)
namespace heddle::sched {

/// A task's lease of a device. The lease does not keep the device alive; its destruction frees the
/// device for another task. Any thread.
class AnyLease {
 public:
  AnyLease() noexcept = default;
  AnyLease(AnyLease&& other) noexcept = default;
  AnyLease& operator=(AnyLease&& other) noexcept;
  ~AnyLease() { give_back(); }

 private:
  friend class AnyDevices;
  explicit AnyLease(std::shared_ptr<AnyPlace> place) noexcept : place_(std::move(place)) {}
  void give_back() noexcept;
  std::shared_ptr<AnyPlace> place_;
};

/// The device that a task goes to, or the reason for a refusal.
struct AnyGrant {
  std::optional<TaskDevice> device{};
  AnyLease lease{};
  Event refused{};
};

template <class F>
struct AnyTask {
  AnyLease lease;  // given back after the callable is gone
  F callable;
  std::invoke_result_t<F&> operator()() { return callable(); }
};

}  // namespace heddle::sched
#pragma GCC visibility pop
