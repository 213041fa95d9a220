// The door: what runs on a device goes through it, and says which buffers it touches. One submit is
// accepted whole or refused before anything changed: it cannot fall between the two halves of a
// donation. Any thread.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/device_state.hpp"
#include "scheduler/device/ticket_guard.hpp"

namespace heddle::rt {

enum class Use : std::uint8_t {
  read,
  change,     ///< writes some of it, or reads it too
  overwrite,  ///< writes all of it before it reads any
};

/// A use of a buffer. Points to what the caller keeps during the call.
struct Access {
  const BufferView* view;
  Use use;
  const Tensor* tensor;  ///< for messages; null: none is known
};

/// What a task touches: each buffer once, in the order in which all threads lock them.
class Accesses {
 public:
  /// What is an overwrite for a view into the buffer is a change of the buffer.
  void add(Access access);
  [[nodiscard]] const std::vector<Access>& list() const noexcept { return list_; }

 private:
  std::vector<Access> list_;
};

/// A task and the memory that it uses.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;
  [[nodiscard]] virtual Status run() = 0;
  std::vector<std::shared_ptr<const Memory>> kept;
  bool accepted = false;  ///< as a task
};

/// Checks and notes the uses of one submit, at the moment at which it takes its ticket. No lock is
/// held while it waits for room in the queue.
class Door : public sched::TicketGuard {
 public:
  Door(const DeviceState& device, sched::Label label, const Accesses& accesses)
      : device_(device), label_(label), accesses_(&accesses) {}
  virtual ~Door() = default;

  /// Throws Error when it is refused: failed_precondition naming tensor, taker and place where a
  /// buffer was donated, or the device or backend that was finalised; else what the scheduler says.
  Event submit_work(std::unique_ptr<Work> work, const sched::SubmitOptions& options);
  /// `run()` gives a Status.
  template <class F>
  Event submit(F run, const sched::SubmitOptions& options) {
    class Task final : public Work {
     public:
      explicit Task(F&& f) : run_(std::move(f)) {}
      Status run() override { return run_(); }

     private:
      F run_;
    };
    return submit_work(std::make_unique<Task>(std::move(run)), options);
  }

  Status enter(sched::TaskNote& note) noexcept override;
  void leave(const Event* taken) noexcept override;

 protected:
  [[nodiscard]] const DeviceState& device() const noexcept { return device_; }
  /// From enter() on: other accesses than it was made with. The caller keeps them.
  void replace(const Accesses& accesses) noexcept { accesses_ = &accesses; }
  /// Of the task; there is room for one more after enter().
  [[nodiscard]] std::vector<std::shared_ptr<const Memory>>& kept() noexcept { return work_->kept; }

 private:
  void unlock() noexcept;

  const DeviceState& device_;
  const sched::Label label_;
  const Accesses* accesses_;
  Work* work_ = nullptr;
};

/// Submits what touches these buffers alone.
template <class F>
Event submit(const DeviceState& device, sched::Label label, const Accesses& accesses, F run,
             const sched::SubmitOptions& options = {}) {
  return Door(device, label, accesses).submit(std::move(run), options);
}

/// Throws failed_precondition when the buffer was donated, naming tensor or type, taker and place.
/// `user` would use it.
void require_live(const Access& access, std::string_view user);

}  // namespace heddle::rt
