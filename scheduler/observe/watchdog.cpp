// The watchdog's thread and report.
#include "scheduler/observe/watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "heddle/observe.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/parker.hpp"
#include "scheduler/threads/threads.hpp"
#include "scheduler/threads/what.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {
namespace {

std::string describe(const std::string& name, std::chrono::nanoseconds limit,
                     const std::vector<Snapshot>& devices) {
  std::string text = fmt::format("watchdog of '{}': no progress for more than {} ms at", name,
                                 std::chrono::duration<double, std::milli>(limit).count());
  for (const Snapshot& device : devices) {
    if (device.overdue)
      text += fmt::format(" '{}' (ticket {})", device.device, device.running_ticket);
  }
  for (const Snapshot& device : devices)
    text += fmt::format("\n  {} {}", device.overdue ? "*" : " ", device.to_string());
  return text;
}

}  // namespace

bool OverdueFinder::look(std::vector<Snapshot>& devices, Clock::time_point now) {
  bool any_new = false;
  std::map<std::uint64_t, Seen> seen;
  for (Snapshot& device : devices) {
    // A merely queued task has not begun: a host may run a manual device at any time.
    if (device.running.empty() && device.waiting_for.empty()) continue;
    Seen mine{device.running_ticket, now};
    if (const auto before = seen_.find(device.id);
        before != seen_.end() && before->second.ticket == mine.ticket) {
      mine = before->second;
    }
    any_new |= is_new(mine, device, now);
    seen.emplace(device.id, std::move(mine));
  }
  seen_ = std::move(seen);
  return any_new;
}

/// Marks the device if its task or the task's part is overdue; returns whether one of them is newly
/// overdue.
bool OverdueFinder::is_new(Seen& mine, Snapshot& device, Clock::time_point now) const {
  if (mine.part != device.part) {
    mine.part = device.part;
    mine.part_since = now;
    mine.part_reported = false;
  }
  const bool late = now - mine.since >= limit_;
  const bool part_late = !mine.part.empty() && now - mine.part_since >= limit_;
  const bool any_new = (late && !mine.reported) || (part_late && !mine.part_reported);
  mine.reported |= late;
  mine.part_reported |= part_late;
  device.overdue = late || part_late;
  return any_new;
}

/// State shared by the thread and the threads that stop it.
struct Watchdog::Watch {
  std::string name;
  std::chrono::nanoseconds limit;
  Look look;
  Report report;
  Parker parker{};
  std::atomic<bool> stop{false};

  void run() noexcept {
    OverdueFinder finder(limit);
    const auto pause = std::max(limit / tuning::watchdog_looks, tuning::watchdog_pause_min);
    // acquire: pairs with the release in ~Watchdog().
    while (!stop.load(std::memory_order_acquire)) {
      try {
        look_once(finder);
      } catch (const std::exception& e) {
        log_made(LogLevel::error,
                 [&] { return fmt::format("a watchdog's look or report threw: {}", what_of(e)); });
      } catch (...) {
        log(LogLevel::error, "a watchdog's report threw something that is no std::exception");
      }
      parker.park(Event::Clock::now() + pause);
    }
  }
  void look_once(OverdueFinder& finder) const {
    std::vector<Snapshot> devices = look();
    if (!finder.look(devices, Event::Clock::now())) return;
    if (log_level() >= LogLevel::warn) log(LogLevel::warn, describe(name, limit, devices));
    if (report) report(devices);
  }
};

Watchdog::Watchdog(std::string name, std::chrono::nanoseconds limit, Look look, Report report)
    : fork_generation_(fork_generation()),
      watch_(new Watch{name, limit, std::move(look), std::move(report)}),
      thread_(start_thread(name + "/watch", {}, [watch = watch_] { watch->run(); })) {}

Watchdog::~Watchdog() {
  if (fork_generation() != fork_generation_) {
    // The thread does not exist here, and its memory may be reused.
    static_cast<void>(new std::thread(std::move(thread_)));
    return;
  }
  // release: pairs with the acquire in run().
  watch_->stop.store(true, std::memory_order_release);
  watch_->parker.unpark();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();  // the last scheduler was released in the watchdog's own report
  } else {
    thread_.join();
  }
}

}  // namespace heddle::sched
