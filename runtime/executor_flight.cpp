// See executor_flight.hpp.
#include "runtime/executor_flight.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "heddle/status.hpp"
#include "scheduler/threads/process_mutex.hpp"
#include "scheduler/threads/task_context.hpp"
#include "scheduler/threads/thread_number.hpp"

namespace heddle::rt {

Runner Runner::here() {
  const sched::TaskContext* task = sched::current_task();
  if (task == nullptr) return {sched::thread_number(), 0, 0};
  while (task->outer != nullptr) task = task->outer;  // which waits where those inside do
  return {0, task->timeline, task->ticket};
}

/// While it lives, this runner waits for that flight.
class Flight::Waiting {
 public:
  explicit Waiting(const Flight& flight) : me_(Runner::here()) {
    const std::lock_guard lock(mutex_);
    for (const Flight* next = &flight; next != nullptr;) {
      if (next->maker_ == me_) {
        throw Error(ErrorCode::failed_precondition,
                    "a function that is being traced for an executor calls that executor with the "
                    "same types, itself or by others that are being traced; call functions inside "
                    "of functions directly");
      }
      const auto at = waiting().find(next->maker_);
      next = at != waiting().end() ? at->second : nullptr;
    }
    waiting().emplace(me_, &flight);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    const std::lock_guard lock(mutex_);
    waiting().erase(me_);
  }

 private:
  static constinit inline sched::ProcessMutex mutex_;
  /// Never destroyed: threads may wait while the process ends.
  static std::map<Runner, const Flight*>& waiting() {
    static auto& map = *new std::map<Runner, const Flight*>();
    return map;
  }
  const Runner me_;
};

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
    const Waiting waiting(*this);
    throw_if_failed(landed_.wait());
  }
  if (failure_) std::rethrow_exception(failure_);
  return *entry_;
}

}  // namespace heddle::rt
