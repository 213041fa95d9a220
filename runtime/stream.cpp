// See stream.hpp.
#include "runtime/stream.hpp"

#include <new>
#include <utility>

#include "scheduler/device/waiting.hpp"
#include "scheduler/threads/task_context.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::rt {

Status Stream::open(std::shared_ptr<dev::PhysicalDevice> physical,
                    std::shared_ptr<Stream>* stream) noexcept {
  try {
    auto made = std::make_shared<Stream>(std::move(physical));
    Status status = made->physical_->new_queue(*made, &made->queue_);
    if (status.ok()) *stream = std::move(made);
    return status;
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, "no host memory to keep a queue");
  }
}

Stream::Stream(std::shared_ptr<dev::PhysicalDevice> physical) : physical_(std::move(physical)) {
  const dev::Properties& properties = physical_->properties();
  if (properties.completion_domain == 0) return;
  waits_.emplace("queue of " + properties.name);
  marks_.resize(in_flight_max + 1);  // the tasks', and that of a wait
  tasks_.resize(in_flight_max);
}

void Stream::end(sched::Completion task) noexcept {
  const std::uint64_t ticket = ticket_of(task);
  const std::uint64_t number = record({std::move(task)});
  const std::lock_guard lock(mutex_);
  tasks_[ticket % tasks_.size()] = {ticket, number};
}

Status Stream::wait() noexcept {
  const Event told = waits_->next();
  static_cast<void>(record({std::nullopt, told.ticket()}));
  while (!told.done())
    static_cast<void>(sched::wait_here(told, {}, sched::tuning::spin_default, false));
  return told.status();
}

/// The number of a new mark; 0: the device does not take it.
std::uint64_t Stream::record(Mark mark) noexcept {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++recorded_;
    marks_[number % marks_.size()] = std::move(mark);
  }
  Status status = queue_->record(number);
  if (status.ok()) return number;
  tell(number, std::move(status));  // and those before it
  return 0;
}

/// 0: it has none.
std::uint64_t Stream::mark_of(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(mutex_);
  const Marked& task = tasks_[ticket % tasks_.size()];
  return task.ticket == ticket ? task.number : 0;
}

Status Stream::come_after(sched::HardwareQueue& other, std::uint64_t ticket) noexcept {
  auto& them = static_cast<Stream&>(other);  // domains are of devices, whose queues these are
  if (&them == this) return {};              // it does anyway
  const std::uint64_t number = them.mark_of(ticket);
  if (number == 0) return Status(ErrorCode::unavailable, "that task has no mark");
  return queue_->wait({them.queue_.get(), number});
}

void Stream::ended(std::uint64_t number, Status status) noexcept {
  const sched::TellsEnds here(domain());
  tell(number, std::move(status));
}

void Stream::tell(std::uint64_t number, Status status) noexcept {
  const auto self = weak_from_this().lock();  // the last task that knows it may end here
  if (!self) return;                          // nobody is left who would wait
  while (true) {
    Mark mark;
    {
      const std::lock_guard lock(mutex_);
      if (told_ >= number) return;
      mark = std::exchange(marks_[++told_ % marks_.size()], {});
    }
    if (mark.task) {
      mark.task->end(status);
    } else {
      static_cast<void>(waits_->signal(mark.waits, status));
    }
  }
}

}  // namespace heddle::rt
