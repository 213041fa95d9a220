// See runtime/device/flight.hpp.
#include "runtime/device/flight.hpp"

#include <mutex>
#include <utility>

#include "heddle/status.hpp"
#include "scheduler/threads/task_context.hpp"
#include "scheduler/threads/thread_number.hpp"

namespace heddle::rt {

Runner Runner::here() {
  const sched::TaskContext* task = sched::current_task();
  if (task == nullptr) return {sched::thread_number(), 0, 0};
  while (task->outer != nullptr) task = task->outer;  // the outer task waits with the inner task
  return {0, task->timeline, task->ticket};
}

FlightWait::FlightWait(const Flight& flight) : FlightWait(Waited{&flight, {}}) {}
FlightWait::FlightWait(const Event& end)
    : FlightWait(Waited{nullptr, {0, end.device_id(), end.ticket()}}) {}

FlightWait::FlightWait(const Waited& waited) : me_(Runner::here()) {
  const std::lock_guard lock(mutex_);
  for (Waited next = waited;;) {
    const Runner runner = next.flight != nullptr ? next.flight->maker_ : next.runner;
    if (runner == me_) {
      throw Error(ErrorCode::failed_precondition,
                  "a function that is being traced for an executor calls that executor with the "
                  "same types, or waits until that is compiled, itself or by others that are being "
                  "traced; call functions inside of functions directly");
    }
    const auto at = waiting().find(runner);
    if (at == waiting().end()) break;
    next = at->second;
  }
  waiting().emplace(me_, waited);
}

FlightWait::~FlightWait() {
  const std::lock_guard lock(mutex_);
  waiting().erase(me_);
}

/// Never destroyed: threads may wait during process exit.
std::map<Runner, FlightWait::Waited>& FlightWait::waiting() {
  static auto& map = *new std::map<Runner, Waited>();
  return map;
}

void Flight::land(std::shared_ptr<Entry> made) noexcept {
  entry_ = std::move(made);
  static_cast<void>(timeline_.signal(landed_.ticket()));
}

void Flight::fail(std::exception_ptr why) noexcept {
  failure_ = std::move(why);
  static_cast<void>(timeline_.signal(landed_.ticket()));
}

Entry& Flight::wait() const {
  {
    const FlightWait waiting(*this);
    throw_if_failed(landed_.wait());
  }
  if (failure_) std::rethrow_exception(failure_);
  return *entry_;
}

}  // namespace heddle::rt
