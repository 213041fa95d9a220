// Clocks: what comes before what by the way in which it was submitted, awaited and told, never by
// when it happened to end: a vector clock for each ticket, as race detectors keep them for threads
// (Flanagan and Freund, FastTrack, PLDI 2009). They are kept while somebody holds them; until then
// nobody pays for them. Any thread.
//
// A task comes after the task before it on its timeline, the events that it lists, and what was
// known where it was submitted: in a task, what comes before that and what it has seen end so far;
// elsewhere, what any thread of the host has seen end, as threads may tell one another in ways that
// nobody sees. Something is seen by a wait, a poll that found it done, or a callback.
//
// A wait inside a task, or a signal, may add to what is known of a ticket that was submitted long
// before. So whether two tasks are in order may be open until the later one has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "heddle/event.hpp"
#include "scheduler/observe/trace.hpp"

namespace heddle::sched {

class Clocks {
 public:
  /// Clocks are kept: all submissions go the careful way.
  [[nodiscard]] static bool on() noexcept {
    return (trace::submits_on() & trace::submits_watched) != 0;
  }

  /// They are kept from here until the last one goes. What was submitted before counts as known to
  /// all.
  class Hold {
   public:
    Hold();
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    const std::uint32_t fork_generation_;
  };

  // What happens. Without memory for it, all that was submitted so far counts as known to all.

  /// It took its ticket on this thread, and lists these. `learns`: code of users runs in it, which
  /// may wait.
  static void submitted(const Event& task, std::span<const Event> after, bool learns) noexcept;
  /// It does so for other reasons, too.
  static void comes_after(const Event& task, const Event& before) noexcept;
  /// What that timeline is given next does.
  static void next_comes_after(std::uint64_t timeline, const Event& before) noexcept;
  /// Whether what it is given next does so, and nothing that it was given before.
  [[nodiscard]] static bool is_owed(std::uint64_t timeline) noexcept;
  /// This thread, or the task that runs here, knows that it has ended. Then tells what is due.
  static void saw(const Event& event) noexcept;
  /// The host is told so, on whatever thread: a callback, a descriptor.
  static void host_saw(const Event& event) noexcept;
  /// This thread is about to end that ticket: a signaller's, or a task's that ends later.
  static void ends(std::uint64_t timeline, std::uint64_t ticket, bool foreign) noexcept;
  /// All its tickets have ended, and none has its number again.
  static void closed(std::uint64_t timeline) noexcept;

  // What follows from it.

  enum class Answer : std::uint8_t {
    ordered,
    unordered,
    open,  ///< not in order, as far as is known yet
  };
  /// Whether `task` comes after `before`.
  [[nodiscard]] static Answer ask(const Event& task, const Event& before) noexcept;
  /// Whether whatever is submitted from here on, from wherever, comes after it.
  [[nodiscard]] static bool is_seen(const Event& event) noexcept;
  /// Whether what this thread does now comes after it.
  [[nodiscard]] static bool is_seen_here(const Event& event) noexcept;
  /// The answer was `open`: calls `tell`, which does not throw, once `task` has ended well, unless
  /// they turn out to be in order. Throws std::bad_alloc.
  static void tell_unless_ordered(const Event& task, const Event& before,
                                  std::function<void()> tell);
  /// Calls what is due, under no lock.
  static void tell_due() noexcept;
  /// Clocks that are kept.
  [[nodiscard]] static std::size_t size() noexcept;
};

}  // namespace heddle::sched
