// See runtime/door/queued.hpp.
#include "runtime/door/queued.hpp"

#include <memory>
#include <new>
#include <utility>

#include "runtime/device/execution.hpp"
#include "runtime/device/route.hpp"
#include "runtime/queue/stream.hpp"
#include "scheduler/device/ticket_guard.hpp"

namespace heddle::rt {

Operation& Queued::of(void* callable) noexcept {
  return **static_cast<std::unique_ptr<Operation>*>(callable);
}

void Queued::construct(void* to, void* from) noexcept {
  ::new (to) std::unique_ptr<Operation>(std::move(*static_cast<std::unique_ptr<Operation>*>(from)));
}

void Queued::destroy(void* callable) noexcept {
  Operation& operation = *static_cast<std::unique_ptr<Operation>*>(callable)->release();
  if (!operation.again_) operation.kept_.clear();
  operation.merged_.reset();
  operation.fresh_.clear();
  operation.retire(std::move(operation.execution_));
}

void Queued::pass_over(void* callable) noexcept {
  for (const Operation::Fresh& each : of(callable).fresh_)
    log_missing(*of(callable).execution_, zero(of(callable), each));
  of(callable).pass_over(*of(callable).execution_);
}

Status Queued::zero(const Operation& operation, const Operation::Fresh& fresh) noexcept {
  const auto& own = operation.execution_->queue;
  return Move{Route::fill, fresh.data, nullptr, fresh.bytes, own, {}, fresh.queue}.run();
}

Status Queued::run_after_zeros(Operation& operation) {
  for (Operation::Fresh& each : operation.fresh_) {
    if (each.overwritten) continue;
    Status status = zero(operation, each);
    // Host code may read the bytes at once, so the zeros have to be complete.
    if (status.ok() && operation.host_takes_part()) status = operation.execution_->queue->settle();
    if (!status.ok()) return status;
    each.zeroed = true;
  }
  return operation.run(*operation.execution_);
}

void Queued::zero_rest(const Operation& operation) noexcept {
  for (const Operation::Fresh& each : operation.fresh_) {
    if (each.zeroed) continue;
    static_cast<void>(zero(operation, each));  // the first failure is reported already
    // The task ends on return, and the memory may be freed then.
    if (operation.host_takes_part()) static_cast<void>(operation.execution_->queue->settle());
  }
}

Status Queued::begin(Operation& operation) {
  Status status;
  try {
    status = run_after_zeros(operation);
  } catch (...) {
    zero_rest(operation);
    throw;
  }
  if (!status.ok()) zero_rest(operation);
  return status;
}

bool Queued::run(void* callable, Status& failure) {
  failure = begin(of(callable));
  if (failure.ok()) destroy(callable);
  return failure.ok();
}

bool Queued::issue(void* callable, Status& failure) {
  sched::Completion end = sched::TicketGuard::completion_of_running_task();
  Stream& queue = *of(callable).execution_->queue;
  try {
    failure = begin(of(callable));
  } catch (...) {
    queue.end(std::move(end));
    throw;
  }
  queue.end(std::move(end));
  return failure.ok();
}

Status Queued::finish(void* callable, Status reported) noexcept {
  return of(callable).ended(*of(callable).execution_, std::move(reported));
}

constexpr sched::TaskOps Queued::to_the_end{&construct, &run, &destroy, nullptr, &pass_over};
constexpr sched::TaskOps Queued::ahead{&construct, &issue, &destroy, &finish, &pass_over};

}  // namespace heddle::rt
