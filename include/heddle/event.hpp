// Event: a position on a timeline that can be queried, awaited and given callbacks. Any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "heddle/duration.hpp"
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
/// event, and different for any two events of any processes. An event without a timeline has zeros.
struct EventId {
  /// A random number per process, also per forked child; events that a child inherited keep the
  /// parent's number.
  std::uint64_t process = 0;
  std::uint64_t timeline = 0;  ///< the timeline's place, reused after the timeline closes
  std::uint64_t epoch = 0;     ///< tells timelines of one place apart: Event::device_id()
  std::uint64_t ticket = 0;    ///< Event::ticket()
  friend auto operator<=>(const EventId&, const EventId&) = default;
  /// "5be0cd19137e2179:3.12#7": process in hexadecimal, timeline, epoch, ticket.
  [[nodiscard]] std::string to_string() const;
};

/// A position on a timeline: a value that outlives its device (S7), and costs nothing to copy. The
/// way that an event ended is kept while its device is open, and for the latest 4096 closed devices
/// that had failures; status() of older events is `unavailable`. The first failure of a timeline
/// and the latest 1024 keep text and causes, other failures only their code (S11). A default event
/// is done. Moving an event copies it.
class Event {
 public:
  using Clock = std::chrono::steady_clock;
  /// Runs callbacks at a place of the host's choosing.
  using Executor = std::function<void(std::function<void()>)>;

  Event() = default;
  Event(const Event&) = default;
  Event& operator=(const Event&) = default;
  ~Event() = default;
  [[nodiscard]] bool done() const noexcept;
  /// ok while pending and after a good end; otherwise the reason why the task failed, was skipped,
  /// cancelled or refused.
  [[nodiscard]] Status status() const noexcept;
  /// Blocks the caller until done; returns status(). Inside a task that must end before the event
  /// can, through any number of devices: failed_precondition, naming the cycle.
  Status wait() const noexcept;
  /// wait() with a time limit: `deadline` if the time passed first. Later waits are not refused for
  /// a cycle through this wait, because this wait ends at its deadline (S25). In tasks of inline
  /// devices, which have no thread to keep the time, the wait blocks its thread.
  Status wait_for(std::chrono::nanoseconds timeout) const noexcept;
  Status wait_until(Clock::time_point deadline) const noexcept;
  /// Calls back once done: on the thread that ends the task, or immediately on the calling thread
  /// if the event is already done; never under a lock. On the thread that ends the task, the
  /// callback counts as part of that task: waiting there for its device is failed_precondition.
  /// Where that device's queue runs ahead, the thread reports every end of its completion domain,
  /// and failed_precondition also answers any wait there without a deadline, and a wait with a
  /// deadline for other events of the domain; a full queue is `exhausted`. Exceptions of a callback
  /// go to the log. A callback nested within 64 callbacks runs after them, or before its thread
  /// waits. In a forked child, where no thread ends inherited events, the callback is called at
  /// once, with `unavailable`. Throws Error(invalid_argument) for an empty callback or executor.
  void then(std::function<void(const Status&)> callback) const;
  void then(const Executor& executor, std::function<void(const Status&)> callback) const;
  /// A descriptor (eventfd) that is readable once done. Every call makes a descriptor, and a
  /// pending event keeps a second descriptor for it until done: call once. Throws Error: exhausted
  /// without descriptors, unavailable for a pending event in a forked child.
  [[nodiscard]] FileDescriptor fd() const;

  /// false: the submission was refused; status() gives the reason, and the task will not run.
  [[nodiscard]] bool accepted() const noexcept { return refusal_.ok(); }
  [[nodiscard]] EventId id() const noexcept;
  [[nodiscard]] std::uint64_t ticket() const noexcept { return ticket_; }
  /// sched::TaskDevice::id() of the event's device, or the number of the event's ExternalTimeline,
  /// from the same count; never reused in this process. 0 for an event that belongs to neither.
  [[nodiscard]] std::uint64_t device_id() const noexcept { return accepted() ? place_.id : 0; }
  /// Device, ticket and state, as "work#7 done".
  [[nodiscard]] std::string to_string() const;

 private:
  friend class sched::Timeline;
  friend class sched::Admission;
  friend class sched::TaskDevice;
  /// Copied word by word: a load of two words that were just stored one by one would wait until
  /// every earlier store has reached the cache, also the store to the queue's slot, which belongs
  /// to the worker's processor.
  struct Place {
    Place() = default;
    Place(sched::Timeline* at, std::uint64_t number) noexcept : timeline(at), id(number) {}
    Place(const Place& from) noexcept : timeline(word(from.timeline)), id(word(from.id)) {}
    Place& operator=(const Place& from) noexcept {
      timeline = word(from.timeline);
      id = word(from.id);
      return *this;
    }
    ~Place() = default;

    sched::Timeline* timeline = nullptr;  // in a pool that is never freed
    std::uint64_t id = 0;                 // the number of the timeline at that place

   private:
    /// Keeps compilers from merging loads of neighbouring words.
    template <class T>
    static T word(T value) noexcept {
      asm("" : "+r"(value));
      return value;
    }
  };
  Event(const Place& place, std::uint64_t ticket) noexcept : place_(place), ticket_(ticket) {}
  explicit Event(Status refusal) noexcept : refusal_(std::move(refusal)) {}
  Event(const Place& refuser, Status refusal) noexcept
      : place_(refuser), refusal_(std::move(refusal)) {}

  Place place_;  // for a refused event: the refuser's place
  std::uint64_t ticket_ = 0;
  Status refusal_;
};

}  // namespace heddle

template <>
struct std::hash<heddle::EventId> {
  std::size_t operator()(const heddle::EventId& id) const noexcept;
};
#pragma GCC visibility pop
