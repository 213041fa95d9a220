// Tasks in parts: prepares helpers at submission, and runs the parts on the task's thread and its
// helpers.
#include <fmt/format.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <new>
#include <stop_token>
#include <utility>

#include "scheduler/device/device_core.hpp"
#include "scheduler/device/empty_handle.hpp"
#include "scheduler/device/helpers.hpp"
#include "scheduler/device/task_parts.hpp"
#include "scheduler/threads/what.hpp"

namespace heddle::sched {
namespace {

/// The state of one task in parts, on the stack of the thread that runs the task.
class PartsRun {
 public:
  PartsRun(const Parts& parts, TaskContext& task, const Cut& cut)
      : parts_(parts),
        task_(task),
        device_(task.device->identity()),
        cut_(cut),
        rows_(Cut::of(cut.parts, 0, tuning::rows_max)),
        stop_(task.device->stop_token(task.ticket)) {
    task_.device->parts().begin(cut);
    task_.in_part = true;
  }
  ~PartsRun() { task_.in_part = false; }
  PartsRun(const PartsRun&) = delete;
  PartsRun& operator=(const PartsRun&) = delete;

  void together() noexcept {
    const PartFunction row = [](void* run, std::uint32_t number, std::uint32_t member) noexcept {
      static_cast<PartsRun*>(run)->run_as_member(number, member);
    };
    const auto rows = static_cast<std::uint32_t>(rows_.parts);
    if (device_.helpers->team().run(rows, row, this, stop_) != 0) note_left();
  }
  void in_order() noexcept {
    for (std::size_t part = 0; part < cut_.parts && begins(part); ++part) run_here(part);
    task_.device->parts().note_rest();
  }
  void interleaved() noexcept {
    static_cast<void>(run_interleaved(
        *hooks(), device_.helpers->width(), cut_.parts,
        [this](std::size_t part) { return begins(part); },
        [this](std::size_t part, std::uint32_t) { run_here(part); }));
    task_.device->parts().note_rest();
  }
  [[nodiscard]] Status ended();

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  void run_as_member(std::uint32_t row, std::uint32_t member) noexcept;
  /// Called on the thread that runs the task.
  void run_here(std::size_t part) noexcept {
    task_.device->parts().note(part);
    run(part);
  }
  void run(std::size_t part) noexcept;
  /// True if the part may begin: no stop was requested, and no earlier part has failed.
  [[nodiscard]] bool begins(std::size_t part) noexcept {
    if (stop_.stop_requested()) return note_left(), false;
    // relaxed: pairs with the store in run(); a part that misses a failure begins as if the failure
    // had come later, and no part before the failed one is left out.
    return part < failed_.load(std::memory_order_relaxed);
  }
  void note_left() noexcept {
    // relaxed: pairs with the load in ended(), once all parts have ended.
    left_.store(true, std::memory_order_relaxed);
  }

  const Parts& parts_;
  TaskContext& task_;
  const Identity& device_;
  const Cut cut_;
  // rows of parts: a thread claims a row at a time; a single part each, unless there are very many
  // parts
  const Cut rows_;
  const std::stop_token stop_;
  std::atomic<bool> left_{false};          // parts were left out after a stop request
  std::atomic<std::size_t> failed_{none};  // the first failed part
  std::mutex mutex_;                       // guards failure_, and changes of failed_
  Status failure_;
};

void PartsRun::run_as_member(std::uint32_t row, std::uint32_t member) noexcept {
  std::size_t part = rows_.from(row);
  const std::size_t end = rows_.to(row);
  if (member == 0) {
    for (; part < end && begins(part); ++part) run_here(part);
    return task_.device->parts().note_rest();
  }
  TaskContext here{task_.device, task_.timeline, task_.ticket, nullptr, nullptr};
  here.in_part = true;
  const TaskScope scope(here);
  for (; part < end && begins(part); ++part) {
    device_.helpers->note(member, task_.timeline, part);
    run(part);
  }
  device_.helpers->note_rest(member);
}

void PartsRun::run(std::size_t part) noexcept {
  Status ended;
  try {
    ended = parts_.run(parts_.callable, cut_.from(part), cut_.to(part));
  } catch (...) {
    ended = failure_of_thrown();
  }
  if (ended.ok()) return;
  const std::lock_guard lock(mutex_);
  // relaxed, here and in the store: changed under the lock; pairs with the load in begins().
  if (part >= failed_.load(std::memory_order_relaxed)) return;
  failed_.store(part, std::memory_order_relaxed);
  failure_ = std::move(ended);
}

/// Called once all begun parts have ended.
Status PartsRun::ended() {
  // relaxed, here and in the load of left_: pairs with the stores in run() and note_left(); the
  // ends of the parts come before this call.
  if (const std::size_t part = failed_.load(std::memory_order_relaxed); part != none) {
    const ErrorCode code = failure_.code();
    std::exception_ptr exception = failure_.exception();
    return Status(
               code, [&] { return cut_.describe(part) + ", failed"; }, std::move(failure_))
        .with_exception(std::move(exception));
  }
  // relaxed: pairs with the store in note_left(), as said above.
  if (!left_.load(std::memory_order_relaxed)) return {};
  return Status(ErrorCode::cancelled, [&] {
    return fmt::format("asked to stop before all {} parts had begun", cut_.parts);
  });
}

}  // namespace

Status run_parts(const Parts& parts) {
  TaskContext& task = *current_task();
  const Identity& device = task.device->identity();
  const std::size_t wanted = tuning::parts_per_thread * device.helpers->width();
  const Cut cut = Cut::of(parts.count, parts.grain, wanted);
  if (cut.parts == 0) return {};
  const Sharing sharing = sharing_of(task);
  PartsRun run(parts, task, cut);
  switch (sharing) {
    case Sharing::together:
      run.together();
      break;
    case Sharing::in_order:
      run.in_order();
      break;
    case Sharing::interleaved:
      run.interleaved();
      break;
  }
  return run.ended();
}

Status TaskDevice::prepare_parts(Label label, bool empty,
                                 const std::optional<std::size_t>& grain) const noexcept {
  if (core_ == nullptr) return empty_handle("TaskDevice");
  const Identity& device = core_->identity();
  if (empty) {
    return Status(ErrorCode::invalid_argument, [&] {
      return fmt::format(
          "device '{}' task '{}': there is nothing to call for its parts, but an empty function or "
          "a null pointer (expected what can be called with from and to)",
          device.name(), label.c_str());
    });
  }
  if (grain == std::size_t{0}) {
    return Status(ErrorCode::invalid_argument, [&] {
      return fmt::format(
          "device '{}' task '{}': parts of 0 indices (expected a grain of 1 or more; unset, the "
          "range is cut by the scheduler's width)",
          device.name(), label.c_str());
    });
  }
  if (device.fork_generation != fork_generation()) return {};  // the submission reports the fork
  try {
    device.host_runs() ? device.helpers->prepare() : device.helpers->start();
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, [&] {
      return fmt::format("device '{}': no memory for the parts of task '{}'", device.name(),
                         label.c_str());
    });
  }
  return {};
}

}  // namespace heddle::sched
