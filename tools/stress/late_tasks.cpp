// See late_tasks.hpp.
#include "tools/stress/late_tasks.hpp"

#include <utility>

namespace heddle::stress {
namespace {

// All atomics here are relaxed counters: they must not add order to the scheduler's.
constexpr auto as_numbers = std::memory_order_relaxed;

}  // namespace

class LateTasks::Kept {
 public:
  Kept(LateTasks& all, InFlight& device, LateEnd& task) : all_(all), device_(device), task_(task) {}
  ~Kept() {
    if (ticket_ == 0) return;
    if (task_.reports != 1) all_.complain_("a callable went before its task's end");
    if (ticket_ <= device_.last_gone) all_.complain_("callables went out of order");
    device_.last_gone = ticket_;
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  void begin() { ticket_ = this_task::ticket(); }
  [[nodiscard]] InFlight& device() const noexcept { return device_; }
  [[nodiscard]] LateEnd& task() const noexcept { return task_; }

 private:
  LateTasks& all_;
  InFlight& device_;
  LateEnd& task_;
  std::uint64_t ticket_ = 0;  // 0: it has not begun
};

/// Reports an end; destroyed without a report, reports a failure.
class LateTasks::Unreported {
 public:
  Unreported(InFlight& device, LateEnd& task, sched::Completion completion)
      : device_(device), task_(task), completion_(std::move(completion)) {}
  ~Unreported() {
    if (completion_.pending()) note(true);
  }
  Unreported(const Unreported&) = delete;
  Unreported& operator=(const Unreported&) = delete;
  [[nodiscard]] Status end(Status status) {
    note(!status.ok());
    return completion_.end(std::move(status));
  }

 private:
  /// Called before the Completion is reported, which ends the task.
  void note(bool bad) {
    ++task_.reports;
    task_.reported_bad = bad;
    device_.unreported.fetch_sub(1, as_numbers);
  }

  InFlight& device_;
  LateEnd& task_;
  sched::Completion completion_;
};

LateTasks::LateTasks(std::function<void(const char*)> complain) : complain_(std::move(complain)) {}

std::shared_ptr<LateTasks::Kept> LateTasks::keep(InFlight& device, LateEnd& task) {
  return std::make_shared<Kept>(*this, device, task);
}

std::shared_ptr<LateTasks::Unreported> LateTasks::begin(Kept& kept, sched::Completion completion) {
  kept.begin();
  const std::uint32_t others = kept.device().unreported.fetch_add(1, as_numbers);
  if (others >= kept.device().max) complain_("too many tasks in flight");
  if (others != 0) beside_others_.fetch_add(1, as_numbers);
  begun_.fetch_add(1, as_numbers);
  return std::make_shared<Unreported>(kept.device(), kept.task(), std::move(completion));
}

void LateTasks::check_alone(const InFlight& device) {
  if (device.unreported.load(as_numbers) != 0)
    complain_("a task began before all before it had ended");
}

void LateTasks::leave(std::shared_ptr<Unreported> task) {
  const std::lock_guard lock(mutex_);
  left_.push_back(std::move(task));
}

bool LateTasks::end_one(const Draw& draw) {
  std::shared_ptr<Unreported> task;
  {
    const std::lock_guard lock(mutex_);
    if (left_.empty()) return false;
    std::swap(left_[draw(left_.size())], left_.back());
    task = std::move(left_.back());
    left_.pop_back();
  }
  end(*task, draw);
  return true;
}

/// Or drops the Completion.
void LateTasks::end(Unreported& task, const Draw& draw) {
  Status status;
  switch (draw(16)) {
    case 0:
      dropped_.fetch_add(1, as_numbers);
      return;
    case 1:
      failed_.fetch_add(1, as_numbers);
      status = Status(ErrorCode::unavailable, "drawn to fail at the end");
      break;
    case 2:
      status = Status(ErrorCode::cancelled, "drawn to have been asked to stop");
      break;
    default:
      break;
  }
  if (!task.end(std::move(status)).ok()) complain_("a Completion was refused");
}

LateTasks::Counts LateTasks::counts() const noexcept {
  return {begun_.load(as_numbers), beside_others_.load(as_numbers), dropped_.load(as_numbers),
          failed_.load(as_numbers)};
}

}  // namespace heddle::stress
