// Turns: host threads that do something of several steps do it one after the other. Any thread.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "heddle/task_device.hpp"

namespace heddle::rt {

class Turns {
 public:
  /// `name`: of what they take turns at, for those who look what a thread waits for.
  explicit Turns(std::string name) : timeline_(std::move(name)) {}

  /// The calling thread's turn, from its constructor, which waits for it, to its end. Tasks, and
  /// callbacks, have none: whoever's turn it is may wait for room in the queue that they keep full.
  /// Throws `deadline` where there is one and it comes first; unavailable in a forked child.
  class Turn {
   public:
    Turn(Turns& turns, std::optional<Event::Clock::time_point> deadline);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();

   private:
    /// It will not be taken: those behind it follow whoever was before it.
    void give_up(const Event& before) noexcept;

    Turns& turns_;
    std::optional<Event> mine_;
  };

 private:
  sched::ExternalTimeline timeline_;
  std::mutex mutex_;
  std::optional<Event> last_;  // guarded by mutex_: ends when everybody so far had a turn
};

}  // namespace heddle::rt
