// The invariants.
#include "tools/stress/checks.hpp"

#include <fmt/format.h>

#include <map>

namespace heddle::stress {
namespace {

void check_task(const std::string& device, const TaskFacts& task,
                std::vector<std::string>& broken) {
  const auto say = [&](const std::string& what) {
    broken.push_back(fmt::format("device '{}', ticket {}: {}", device, task.ticket, what));
  };
  if (!task.done) return say("its device is idle, and its event is pending");
  if (task.runs > 1) say(fmt::format("ran {} times", task.runs));
  const int reports = task.ends_later ? task.runs : 0;
  if (task.reports != reports)
    say(fmt::format("its end was reported {} times, expected {}", task.reports, reports));
  // Tasks that were in flight behind a failure may have run successfully, and still end as skipped.
  const bool may_be_skipped = task.ends_later && task.ran_well;
  if (task.ran_well != task.status.ok() && !may_be_skipped) {
    say(fmt::format("its callable {}, its event says: {}",
                    task.runs == 0  ? "did not run"
                    : task.ran_well ? "returned ok"
                                    : "failed",
                    task.status.to_string()));
  }
}

}  // namespace

std::vector<std::string> check(const DeviceFacts& device) {
  std::vector<std::string> broken;
  const auto say = [&](const std::string& what) {
    broken.push_back(fmt::format("device '{}': {}", device.name, what));
  };
  const sched::Counters& c = device.counters;
  if (device.overlaps != 0) say(fmt::format("{} tasks overlapped", device.overlaps));
  if (device.misordered != 0) say(fmt::format("{} tasks ran out of order", device.misordered));
  if (c.submitted != device.accepted)
    say(fmt::format("counts {} tasks, {} were accepted", c.submitted, device.accepted));
  if (c.submitted != c.done + c.failed + c.skipped + c.cancelled) {
    say(fmt::format(
        "idle, and {} submitted are not {} done + {} failed + {} skipped + {} cancelled",
        c.submitted, c.done, c.failed, c.skipped, c.cancelled));
  }
  for (const TaskFacts& task : device.tasks) check_task(device.name, task, broken);
  return broken;
}

std::vector<std::string> check(const Trace& trace) {
  std::vector<std::string> broken;
  std::map<std::uint64_t, std::vector<std::chrono::nanoseconds>> open;  // ends, by track
  for (const TraceEvent& event : trace.events) {
    auto& ends = open[event.track];
    while (!ends.empty() && ends.back() <= event.begin) ends.pop_back();
    const auto end = event.begin + event.duration;
    if (!ends.empty() && end > ends.back()) {
      broken.push_back(fmt::format(
          "trace: something on track '{}' begins at {} ns inside of another, and ends "
          "{} ns after it",
          trace.name_of(event.track), event.begin.count(), (end - ends.back()).count()));
    }
    ends.push_back(end);
  }
  return broken;
}

}  // namespace heddle::stress
