// See late_tasks.hpp.
#include "tools/stress/late_tasks.hpp"

#include <chrono>
#include <utility>

namespace heddle::stress {

class LateTasks::Kept {
 public:
  Kept(LateTasks& all, InFlight& device, std::shared_ptr<LateEnd> task)
      : all_(all), device_(device), task_(std::move(task)) {}
  ~Kept() {
    if (ticket_ == 0 || all_.over_) return;
    if (task_->reports != 1) all_.simulation_.fail("a callable went before its task's end");
    if (ticket_ <= device_.last_gone) all_.simulation_.fail("callables went out of order");
    device_.last_gone = ticket_;
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  void begin() { ticket_ = this_task::ticket(); }
  [[nodiscard]] InFlight& device() const noexcept { return device_; }
  [[nodiscard]] const std::shared_ptr<LateEnd>& task() const noexcept { return task_; }

 private:
  LateTasks& all_;
  InFlight& device_;
  const std::shared_ptr<LateEnd> task_;
  std::uint64_t ticket_ = 0;  // 0: it has not begun
};

/// Reports an end, as failed where it is dropped.
class LateTasks::Unreported {
 public:
  Unreported(InFlight& device, std::shared_ptr<LateEnd> task, sched::Completion completion)
      : device_(device), task_(std::move(task)), completion_(std::move(completion)) {
    ++device_.unreported;
  }
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
  /// Before the Completion is told, which ends the task.
  void note(bool bad) {
    ++task_->reports;
    task_->bad = task_->bad || bad;
    --device_.unreported;
  }

  InFlight& device_;
  const std::shared_ptr<LateEnd> task_;
  sched::Completion completion_;
};

LateTasks::LateTasks(Simulation& simulation) : simulation_(simulation) {}

std::shared_ptr<LateTasks::Kept> LateTasks::keep(InFlight& device, std::shared_ptr<LateEnd> task) {
  return std::make_shared<Kept>(*this, device, std::move(task));
}

std::shared_ptr<LateTasks::Unreported> LateTasks::begin(Kept& kept, sched::Completion completion) {
  kept.begin();
  InFlight& device = kept.device();
  if (device.unreported >= device.max) simulation_.fail("too many tasks in flight");
  if (device.unreported != 0) ++beside_others_;
  ++begun_;
  return std::make_shared<Unreported>(device, kept.task(), std::move(completion));
}

void LateTasks::end_later(std::shared_ptr<Unreported> task) {
  if (simulation_.random(8) == 0) return end_it(*task);  // or at once
  left_.push_back(std::move(task));
  simulation_.host("end", [this, when = std::chrono::nanoseconds(1000 << simulation_.random(14))] {
    simulation_.sleep_for(when);
    end_one();
  });
}

void LateTasks::end_one() {
  if (left_.empty()) return;
  std::swap(left_[simulation_.random(left_.size())], left_.back());
  const std::shared_ptr<Unreported> task = std::move(left_.back());
  left_.pop_back();
  end_it(*task);
}

/// Or leaves it to be dropped.
void LateTasks::end_it(Unreported& task) {
  Status status;
  switch (simulation_.random(16)) {
    case 0:
      ++dropped_;
      return;
    case 1:
      ++failed_;
      status = Status(ErrorCode::unavailable, "drawn to fail at the end");
      break;
    case 2:
      status = Status(ErrorCode::cancelled, "drawn to have been asked to stop");
      break;
    default:
      break;
  }
  if (!task.end(std::move(status)).ok()) simulation_.fail("a Completion was refused");
}

void LateTasks::check_alone(const InFlight& device) {
  if (device.unreported != 0) simulation_.fail("a task began before all before it had ended");
}

std::vector<Seen> LateTasks::seen() const {
  return {{"tasks that end later", begun_},
          {"beside others in flight", beside_others_},
          {"dropped Completions", dropped_},
          {"failures at the end", failed_}};
}

}  // namespace heddle::stress
