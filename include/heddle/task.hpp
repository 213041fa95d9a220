// Tasks: their names, their representation in a queue, and the completion of tasks that end later
// than they return.
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

/// A task's name, shown in errors, traces and snapshots. Copies a pointer: the text must live for
/// ever, as a string literal does. The text of a local buffer does not; intern() keeps a copy.
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
  /// The place where the label was written: for submit("step", ...), the place of the submission.
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

/// How a queue slot handles its callable.
struct TaskOps {
  void (*construct)(void* to, void* from) noexcept;  ///< from the argument of submit()
  /// true: the callable succeeded and is destroyed. false: it failed, and `failure` gives the
  /// reason; an exception also means failure.
  bool (*run)(void* callable, Status& failure);
  void (*destroy)(void* callable) noexcept;  ///< unless run() destroyed it
  /// Null: the task ends when run() returns. Otherwise run() only issues the task and does not
  /// destroy the callable; once the task has ended, finish() turns the reported status into the
  /// task's status.
  Status (*finish)(void* callable, Status reported) noexcept = nullptr;
  /// Called instead of run(), in the task's turn, for a task that must not run; destroy() follows.
  /// Null: no call.
  void (*pass_over)(void* callable) noexcept = nullptr;
  /// True if run() and destroy() neither wait for an event nor call code of the user: on an inline
  /// device the task then runs on the stack of its thread, without a fiber.
  bool never_waits = false;
};

/// Ends one task, from any thread, once: when the I/O, the driver or the peer that the task waits
/// for reports the end. A Completion belongs to the task that received it, and keeps the task's
/// device alive (not the device's handles). A Completion destroyed without a call of end() ends the
/// task as failed. In a forked child a Completion ends no task.
class Completion {
 public:
  Completion(Completion&& other) noexcept : core_(std::move(other.core_)), ticket_(other.ticket_) {}
  /// The task of the overwritten Completion fails, as by its destructor.
  Completion& operator=(Completion&& other) noexcept;
  ~Completion();

  /// The task has ended; a status that is not ok: the task failed or, for `cancelled` after a stop
  /// request, was cancelled. The consequences (ends in ticket order, callbacks, waits, the
  /// destructor of the task) happen in this call, unless another thread is already processing ends
  /// and continues with this end. A callback that waits there delays this thread and the later
  /// ends. Returns failed_precondition if the Completion ended its task before, or was moved from.
  Status end(Status status = {}) noexcept;
  /// Whether the task has yet to be ended; false also for a moved-from Completion.
  [[nodiscard]] bool pending() const noexcept { return core_ != nullptr; }

 private:
  friend class TaskDevice;
  friend class HardwareQueue;
  friend class LateEnds;
  friend class TicketGuard;
  Completion(std::shared_ptr<DeviceCore> core, std::uint64_t ticket) noexcept
      : core_(std::move(core)), ticket_(ticket) {}
  /// The Completion of the task that is being issued on this thread.
  [[nodiscard]] static Completion of_running_task() noexcept;

  std::shared_ptr<DeviceCore> core_;
  std::uint64_t ticket_;
};

}  // namespace heddle::sched
#pragma GCC visibility pop
