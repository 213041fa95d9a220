// What Scheduler::submit_any() makes of a callable: a task on a device of the scheduler's own,
// which is free for the next one as it ends.
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

/// A task's hold on such a device, which does not keep that: it is free again when this is gone.
/// Any thread.
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

/// Where a task goes, or why nowhere.
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
