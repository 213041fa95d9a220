// A FIFO lock ("turns") for host threads that submit several tasks in sequence. Any thread.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "heddle/task_device.hpp"

namespace heddle::rt {

class Turns {
 public:
  /// `name`: of the guarded operation, shown to users who look up a thread's wait.
  explicit Turns(std::string name) : timeline_(std::move(name)) {}

  /// A hold of the lock: the constructor waits for earlier holders, the destructor releases. Tasks
  /// and callbacks take no lock, as the holder may wait for room in the queue that a waiting task
  /// keeps full. Throws `deadline` where a given deadline passes first, and unavailable in a forked
  /// child.
  class Turn {
   public:
    Turn(Turns& turns, std::optional<Event::Clock::time_point> deadline);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();

   private:
    /// Abandons the turn: later turns follow `before`.
    void give_up(const Event& before) noexcept;

    Turns& turns_;
    std::optional<Event> mine_;
  };

 private:
  sched::ExternalTimeline timeline_;
  std::mutex mutex_;
  std::optional<Event> last_;  // guarded by mutex_: ends with the last turn handed out so far
};

}  // namespace heddle::rt
