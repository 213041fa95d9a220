// Event: a position on a timeline, to be asked, waited for and called back by. Any thread.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "heddle/status.hpp"

namespace heddle::sched {
class Timeline;
class Admission;
}  // namespace heddle::sched

#pragma GCC visibility push(default)
namespace heddle {

namespace sched {
class TaskDevice;
}  // namespace sched

/// An owned file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

/// The identity of an event, in plain numbers that may leave the process: equal for copies of an
/// event, and for no two events of whatever processes. An event that belongs to no timeline has
/// zeros.
struct EventId {
  /// A number that each process draws at random, a forked child too; events that a child inherited
  /// keep their parent's.
  std::uint64_t process = 0;
  std::uint64_t timeline = 0;  ///< a place for one, which is given to another when it is closed
  std::uint64_t epoch = 0;     ///< which of those is meant: Event::device_id()
  std::uint64_t ticket = 0;    ///< Event::ticket()
  friend auto operator<=>(const EventId&, const EventId&) = default;
  /// "5be0cd19137e2179:3.12#7": process in hexadecimal, timeline, epoch, ticket.
  [[nodiscard]] std::string to_string() const;
};

/// A position on a timeline: a value that outlives its device (S7), and that costs nothing to copy.
/// How it ended is kept while its device is open, and for the latest 4096 closed devices that had
/// failures; status() of older ones is `unavailable`. The first failure of a timeline and the
/// latest 1024 keep text and causes, the others their code (S11). A default event is done. Moving
/// one copies it.
class Event {
 public:
  using Clock = std::chrono::steady_clock;
  /// Runs callbacks somewhere of the host's choosing.
  using Executor = std::function<void(std::function<void()>)>;

  Event() = default;
  Event(const Event&) = default;
  Event& operator=(const Event&) = default;
  ~Event() = default;
  [[nodiscard]] bool done() const noexcept;
  /// ok while pending and after a good end; otherwise why it failed, was skipped, cancelled or
  /// refused.
  [[nodiscard]] Status status() const noexcept;
  /// Blocks the caller until done; then status(). Inside a task that has to end first, because what
  /// it waits for waits for it, through whatever devices: failed_precondition, naming the cycle.
  Status wait() const noexcept;
  /// As wait(), or `deadline` when the time passed first. It closes no cycle for waits that come
  /// later: these are not refused, as this one ends at its deadline (S25). In tasks of inline
  /// devices, which have nobody to keep the time, it holds its thread up.
  Status wait_for(std::chrono::nanoseconds timeout) const noexcept;
  Status wait_until(Clock::time_point deadline) const noexcept;
  /// Calls back once done: on the thread that ends the task, or here and now when it is done
  /// already; never under a lock. On the thread that ends the task, the callback counts as part of
  /// that task: waiting there for its device is failed_precondition. Where that device's queue runs
  /// ahead, that thread tells all ends of its completion domain, and so is any wait there without a
  /// deadline, and with one for others of that domain; a full queue is `exhausted`. What a callback
  /// throws goes to the log. A callback within 64 others runs after these, or before its
  /// thread waits. In a forked child, where nobody ends what it inherited, it is called at once,
  /// with `unavailable`. Throws Error(invalid_argument) for a callback or executor that is empty.
  void then(std::function<void(const Status&)> callback) const;
  void then(const Executor& executor, std::function<void(const Status&)> callback) const;
  /// A descriptor (eventfd) that is readable once done. Each call makes one, and a pending event
  /// keeps a second descriptor for it until it is done: take it once. Throws Error: exhausted
  /// without descriptors, unavailable for a pending event in a forked child.
  [[nodiscard]] FileDescriptor fd() const;

  /// false: the submission was refused; status() says why and nothing will run.
  [[nodiscard]] bool accepted() const noexcept { return refusal_.ok(); }
  [[nodiscard]] EventId id() const noexcept;
  [[nodiscard]] std::uint64_t ticket() const noexcept { return ticket_; }
  /// sched::TaskDevice::id() of its device, or the number from the same count that its
  /// ExternalTimeline has: none gets it again in this process. 0 for an event that belongs to
  /// neither.
  [[nodiscard]] std::uint64_t device_id() const noexcept { return accepted() ? place_.id : 0; }
  /// Device, ticket and state, as "work#7 done".
  [[nodiscard]] std::string to_string() const;

 private:
  friend class sched::Timeline;
  friend class sched::Admission;
  friend class sched::TaskDevice;
  struct Place {
    sched::Timeline* timeline = nullptr;  // in a pool that is never given back
    std::uint64_t id = 0;                 // the number of the timeline that was there
  };
  Event(const Place& place, std::uint64_t ticket) noexcept : place_(place), ticket_(ticket) {}
  explicit Event(Status refusal) noexcept : refusal_(std::move(refusal)) {}
  Event(const Place& refuser, Status refusal) noexcept
      : place_(refuser), refusal_(std::move(refusal)) {}

  Place place_;  // that of what refused it, if something did
  std::uint64_t ticket_ = 0;
  Status refusal_;
};

}  // namespace heddle

template <>
struct std::hash<heddle::EventId> {
  std::size_t operator()(const heddle::EventId& id) const noexcept;
};
#pragma GCC visibility pop
