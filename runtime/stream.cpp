// See stream.hpp.
#include "runtime/stream.hpp"

#include <new>
#include <utility>

#include "scheduler/device/waiting.hpp"
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
}

void Stream::end(sched::Completion task) noexcept { record({std::move(task)}); }

Status Stream::wait() noexcept {
  const Event told = waits_->next();
  record({std::nullopt, told.ticket()});
  while (!told.done())
    static_cast<void>(sched::wait_here(told, {}, sched::tuning::spin_default, false));
  return told.status();
}

void Stream::record(Mark mark) noexcept {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++recorded_;
    marks_[number % marks_.size()] = std::move(mark);
  }
  // What it says of this one holds for those before.
  if (Status status = queue_->record(number); !status.ok()) ended(number, std::move(status));
}

void Stream::ended(std::uint64_t number, Status status) noexcept {
  const auto self = shared_from_this();  // the last task that knows it may end here
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
