// Tasks: their names, how a queue keeps them, and what ends those that end later than they return.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string_view>
#include <utility>

#include "heddle/status.hpp"

namespace heddle::sched {
class DeviceCore;
class HardwareQueue;
class LateEnds;
class TicketGuard;
}  // namespace heddle::sched

#pragma GCC visibility push(default)
namespace heddle::sched {

/// A task's name: errors, traces and snapshots show it. Copies a pointer: the text must live for
/// ever, as a string literal does. A local buffer does not; intern() keeps a copy of its text.
class Label {
 public:
  template <std::size_t N>
  constexpr Label(const char (&text)[N],  // NOLINT: submit("step", ...)
                  std::source_location site = std::source_location::current()) noexcept
      : text_(text), site_(site) {}
  /// A label for text made at run time. Equal texts share one copy, kept until the process ends.
  [[nodiscard]] static Label intern(std::string_view text,
                                    std::source_location site = std::source_location::current());
  [[nodiscard]] constexpr const char* c_str() const noexcept { return text_; }
  /// Where it was written: that of submit("step", ...) is the submission's.
  [[nodiscard]] constexpr const std::source_location& site() const noexcept { return site_; }

 private:
  struct Interned {};
  constexpr Label(Interned, const char* text, std::source_location site) noexcept
      : text_(text), site_(site) {}
  const char* text_;
  std::source_location site_;
};

/// Callables up to this many bytes are kept in the queue itself: submitting them allocates nothing.
inline constexpr std::size_t task_bytes_max = 48;

/// How a queue slot handles the callable in it.
struct TaskOps {
  void (*construct)(void* to, void* from) noexcept;  ///< from what was given to submit()
  /// true: it ended well, and the callable is destroyed. false: `failure` says why; so does what it
  /// throws.
  bool (*run)(void* callable, Status& failure);
  void (*destroy)(void* callable) noexcept;  ///< unless run() did
  /// Null: the task ends as run() returns. Else run() only issues it and destroys nothing: once it
  /// has ended, this makes of what was reported how it ended.
  Status (*finish)(void* callable, Status reported) noexcept = nullptr;
  /// Called in the place of run(), in the task's turn, for a task that is not to run; destroy()
  /// follows. Null: nothing is called.
  void (*pass_over)(void* callable) noexcept = nullptr;
};

/// Ends one task, from any thread, once: when the I/O, the driver or the peer that the task waits
/// for says so. It belongs to the task that was given it, and keeps the task's device (not its
/// handles). Dropped without a word, it ends the task as failed. In a forked child it ends nothing.
class Completion {
 public:
  Completion(Completion&& other) noexcept : core_(std::move(other.core_)), ticket_(other.ticket_) {}
  /// The task of the one that is overwritten fails, as by its destructor.
  Completion& operator=(Completion&& other) noexcept;
  ~Completion();

  /// The task has ended; not ok: it failed, or, with `cancelled` after a stop request, was
  /// cancelled. What follows from that (ends in ticket order, callbacks, waits, the destructor of
  /// the task) happens here, unless another thread is at it already: it then goes on with this.
  /// A callback that waits there holds up this thread and the ends that come after. Gives
  /// failed_precondition when it ended its task before, or was moved from.
  Status end(Status status = {}) noexcept;
  /// Whether its task has yet to be ended; false also for one that was moved from.
  [[nodiscard]] bool pending() const noexcept { return core_ != nullptr; }

 private:
  friend class TaskDevice;
  friend class HardwareQueue;
  friend class LateEnds;
  friend class TicketGuard;
  Completion(std::shared_ptr<DeviceCore> core, std::uint64_t ticket) noexcept
      : core_(std::move(core)), ticket_(ticket) {}
  /// Ends the task that is being issued on this thread.
  [[nodiscard]] static Completion of_running_task() noexcept;

  std::shared_ptr<DeviceCore> core_;
  std::uint64_t ticket_;
};

}  // namespace heddle::sched
#pragma GCC visibility pop
