// PoolDescriptor: tells a host's event loop that its pool has ready entries, now or at the next
// timer. Any thread.
#pragma once

#include "heddle/scheduler.hpp"

namespace heddle::sched {

class PoolDescriptor {
 public:
  /// Throws Error(exhausted) without descriptors. Readable at first.
  PoolDescriptor();

  /// Readable (by poll, select, epoll) after signal() or from the alarm on, until clear().
  [[nodiscard]] int get() const noexcept { return both_.get(); }
  void signal() noexcept;
  void set_alarm(Event::Clock::time_point when) noexcept;
  void clear() noexcept;

 private:
  FileDescriptor signal_;  // eventfd
  FileDescriptor alarm_;   // timerfd
  FileDescriptor both_;    // epoll
};

}  // namespace heddle::sched
