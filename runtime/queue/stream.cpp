// See runtime/queue/stream.hpp.
#include "runtime/queue/stream.hpp"

#include <new>
#include <thread>
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
  marks_.resize(in_flight_max + 1);  // one per task, plus one for a wait
  tasks_.resize(in_flight_max);
}

/// A join: several queues report a mark, and the last report ends the joined mark.
class Stream::Joined {
 public:
  explicit Joined(std::shared_ptr<Stream> by) noexcept : by_(std::move(by)) {}
  ~Joined() { by_->tell(std::move(mark_), std::move(failed_)); }
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;
  /// Called before `by` records its own mark.
  void is_for(Mark mark) noexcept { mark_ = std::move(mark); }
  void ended(Status status) noexcept {
    const std::lock_guard lock(by_->mutex_);
    if (failed_.ok()) failed_ = std::move(status);
  }

 private:
  const std::shared_ptr<Stream> by_;
  Mark mark_;
  Status failed_;
};

void Stream::end(sched::Completion task) noexcept {
  const std::uint64_t ticket = ticket_of(task);
  std::uint64_t number = 0;  // stays 0 if the device refuses the mark
  static_cast<void>(tell_next({.task = std::move(task)}, &number));
  const std::lock_guard lock(mutex_);
  tasks_[ticket % tasks_.size()] = {ticket, number};
}

Status Stream::wait() noexcept {
  const Event told = waits_->next();
  std::uint64_t number = 0;
  static_cast<void>(tell_next({.waits = told.ticket()}, &number));
  // A failed wait means no memory to run other tasks on this thread meanwhile: try again.
  while (sched::wait_here(told, {}, sched::tuning::spin_default, false) != sched::Waited::done)
    std::this_thread::sleep_for(sched::tuning::pause_without_memory);
  return told.status();
}

Status Stream::follow(Stream& other) noexcept {
  if (&other == this) return {};
  if (!runs_ahead() || domain() != other.domain()) return other.settle();
  return wait_for(other, {});
}

Status Stream::join(Stream& other) noexcept {
  if (&other == this) return {};
  if (!runs_ahead() || domain() != other.domain()) return other.settle();
  try {
    if (!joined_) joined_ = std::make_shared<Joined>(shared_from_this());
  } catch (const std::bad_alloc&) {
    return other.settle();
  }
  return wait_for(other, {.joined = joined_});
}

/// Precondition: `other` is in the same domain.
Status Stream::wait_for(Stream& other, Mark mark) noexcept {
  std::uint64_t number = 0;
  if (Status status = other.record(std::move(mark), &number); !status.ok()) return status;
  return queue_->wait({other.queue_.get(), number}).ok() ? Status() : other.settle();
}

/// Records `mark`, and joins it with the joined queues.
Status Stream::tell_next(Mark mark, std::uint64_t* number) noexcept {
  if (!joined_) return record(std::move(mark), number);
  joined_->is_for(std::move(mark));
  return record({.joined = std::move(joined_)}, number);
}

/// Not ok: the device refuses the mark.
Status Stream::record(Mark mark, std::uint64_t* number) noexcept {
  std::uint64_t next = 0;
  {
    const std::lock_guard lock(mutex_);
    next = mark.number = ++recorded_;
    if (mark.is_told()) marks_[next_mark_++ % marks_.size()] = std::move(mark);
  }
  Status status = queue_->record(next);
  if (status.ok()) {
    *number = next;
  } else {
    tell(next, status);  // and the marks before it
  }
  return status;
}

/// 0: the task has no mark.
std::uint64_t Stream::mark_of(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(mutex_);
  const Marked& task = tasks_[ticket % tasks_.size()];
  return task.ticket == ticket ? task.number : 0;
}

Status Stream::come_after(sched::HardwareQueue& other, std::uint64_t ticket) noexcept {
  auto& them = static_cast<Stream&>(other);  // every queue of a domain is a Stream
  if (&them == this) return {};              // already ordered
  const std::uint64_t number = them.mark_of(ticket);
  if (number == 0) return Status(ErrorCode::unavailable, "that task has no mark");
  return queue_->wait({them.queue_.get(), number});
}

void Stream::ended(std::uint64_t number, Status status) noexcept {
  const sched::TellsEnds here(domain());
  tell(number, std::move(status));
}

void Stream::tell(std::uint64_t number, Status status) noexcept {
  const auto self = weak_from_this().lock();  // the last task that holds the stream may end here
  if (!self) return;                          // no waiter is left
  Mark mark;
  for (Status how; take_next(number, status, &mark, &how);)
    tell(std::exchange(mark, {}), std::move(how));
}

/// Takes the next mark up to `number` with a receiver, and the status of the work before the mark.
bool Stream::take_next(std::uint64_t number, const Status& status, Mark* mark,
                       Status* how) noexcept {
  const std::lock_guard lock(mutex_);
  if (told_ >= number) return false;
  Mark& next = marks_[first_mark_ % marks_.size()];
  const bool is_due = first_mark_ != next_mark_ && next.number <= number;
  told_ = is_due ? next.number : number;
  if (failed_.ok()) failed_ = status;
  if (!is_due) return false;
  ++first_mark_;
  *mark = std::exchange(next, {});
  *how = std::exchange(failed_, {});
  return true;
}

void Stream::tell(Mark mark, Status status) noexcept {
  if (mark.joined) {
    mark.joined->ended(std::move(status));
  } else if (mark.task) {
    mark.task->end(std::move(status));
  } else if (mark.waits != 0) {
    static_cast<void>(waits_->signal(mark.waits, status));
  }
}

}  // namespace heddle::rt
