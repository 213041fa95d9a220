// See runtime/replay/turns.hpp.
#include "runtime/replay/turns.hpp"

#include <utility>

#include "heddle/status.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::rt {

Turns::Turn::Turn(Turns& turns, std::optional<Event::Clock::time_point> deadline) : turns_(turns) {
  if (sched::current_task() != nullptr) return;
  std::optional<Event> before;
  {
    const std::lock_guard lock(turns.mutex_);
    mine_ = turns.timeline_.next();
    before = std::exchange(turns.last_, mine_);
  }
  if (!before || before->done()) return;
  Status status = deadline ? before->wait_until(*deadline) : before->wait();
  if (status.ok()) return;
  give_up(*before);
  throw Error(std::move(status));
}

void Turns::Turn::give_up(const Event& before) noexcept try {
  before.then([timeline = turns_.timeline_, mine = *mine_](const Status& /*ended*/) mutable {
    static_cast<void>(timeline.signal(mine.ticket()));
  });
} catch (...) {  // no memory for the callback: waits here
  static_cast<void>(before.wait());
  static_cast<void>(turns_.timeline_.signal(mine_->ticket()));
}

Turns::Turn::~Turn() {
  // signal() fails only in a forked child, where no thread waits.
  if (mine_) static_cast<void>(turns_.timeline_.signal(mine_->ticket()));
}

}  // namespace heddle::rt
