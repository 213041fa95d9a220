// See runtime/memory/order_watch.hpp. Also owns the texts of MissingOrder.
#include "runtime/memory/order_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "scheduler/observe/log.hpp"
#include "scheduler/threads/what.hpp"

namespace heddle {
namespace {

std::string name_of(const MissingOrder::Use& use) {
  return use.ticket == 0 ? fmt::format("'{}' by {}", use.label, use.device)
                         : fmt::format("'{}' ({}#{})", use.label, use.device, use.ticket);
}

}  // namespace

std::string MissingOrder::Use::to_string() const {
  std::string text =
      fmt::format("{} {} bytes {} to {}", name_of(*this), writes ? "writes" : "reads", begin, end);
  if (site.line() != 0) text += fmt::format(", asked for at {}:{}", site.file_name(), site.line());
  return text;
}

std::string MissingOrder::mend() const {
  if (after.ticket == 0)
    return fmt::format("wait for the event of {} before that", name_of(before));
  if (!after.lists_events) {  // the call takes no events
    return fmt::format("before {} have {} wait: device.wait(the event of {})", name_of(after),
                       after.device, name_of(before));
  }
  return fmt::format("submit {} with .after = {{the event of {}}}", name_of(after),
                     name_of(before));
}

std::string MissingOrder::to_string() const {
  return fmt::format("missing order on {}:\n  {}\n  which nothing puts after\n  {}\n  {}", memory,
                     after.to_string(), before.to_string(), mend());
}

namespace rt {
namespace {

/// Maximum number of reports per backend.
constexpr std::size_t told_max = 10'000;

MissingOrder::Use words_for(const WatchedUses::Use& use) {
  return {use.by->label,   use.by->device, use.event.ticket(), use.event,           use.writes,
          use.range.begin, use.range.end,  use.by->site,       use.by->lists_events};
}

}  // namespace

void OrderWatch::begin() {
  const auto lock = mutex_.lock_or_fork();
  if (lock && !clocks_) clocks_.emplace();
}

void OrderWatch::tell(const MissingOrder& missing, std::uint64_t memory) noexcept try {
  const auto place = [](const MissingOrder::Use& use) {
    return Place(use.label, use.site.file_name(), use.site.line());
  };
  {
    const auto lock = mutex_.lock_or_fork();
    if (!lock || known_.size() >= told_max) return;
    if (!known_.emplace(memory, place(missing.before), place(missing.after)).second) return;
  }
  // relaxed: a statistic; pairs with the load in told().
  told_.fetch_add(1, std::memory_order_relaxed);
  if (!tell_) return heddle::log(LogLevel::warn, missing.to_string());
  tell_(missing);
} catch (const std::exception& e) {
  sched::log_made(LogLevel::error, [&] {
    return fmt::format("BackendOptions::on_missing_order threw: {}", sched::what_of(e));
  });
} catch (...) {
  heddle::log(LogLevel::error, "BackendOptions::on_missing_order threw no std::exception");
}

std::uint64_t WatchedUses::next_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  // relaxed: only a unique number; no data depends on it.
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void WatchedUses::follow(const Use& next, bool automatic) const noexcept {
  for (const Use& before : uses_) {
    if ((automatic || before.former) &&
        conflict(before.range, before.writes, next.range, next.writes))
      sched::Clocks::comes_after(next.event, before.event);
  }
}

WatchedUses::Missing WatchedUses::missing(const Use& before, const MissingOrder::Use& after,
                                          std::shared_ptr<OrderWatch> watch) const {
  return {{name_, words_for(before), after}, number_, std::move(watch)};
}

void WatchedUses::look(const Use& next, std::vector<Missing>& found) const {
  for (const Use& before : uses_) {
    if (!conflict(before.range, before.writes, next.range, next.writes)) continue;
    const auto answer = sched::Clocks::ask(next.event, before.event);
    if (answer == sched::Clocks::Answer::ordered) continue;
    auto watch = next.by->watch.lock();
    if (!watch) return;
    Missing one = missing(before, words_for(next), std::move(watch));
    if (answer == sched::Clocks::Answer::unordered) {
      found.push_back(std::move(one));
    } else {
      const auto tell = [order = std::move(one.order), memory = one.memory, by = next.by] {
        if (const auto still = by->watch.lock()) still->tell(order, memory);
      };
      sched::Clocks::tell_unless_ordered(next.event, before.event, tell);
    }
  }
}

void WatchedUses::look_here(bool writes, const WatchedWork& by, std::vector<Missing>& found) const {
  for (const Use& before : uses_) {
    if (!conflict(before.range, before.writes, before.range, writes) ||
        sched::Clocks::is_seen_here(before.event))
      continue;
    auto watch = by.watch.lock();
    if (!watch) watch = before.by->watch.lock();
    if (!watch) continue;
    const MissingOrder::Use after{
        by.label, by.device,      0, {}, writes, before.range.begin, before.range.end,
        by.site,  by.lists_events};
    found.push_back(missing(before, after, std::move(watch)));
  }
}

void WatchedUses::note(Use use) {
  std::erase_if(uses_, [&](const Use& before) {
    if (sched::Clocks::is_seen(before.event)) return true;
    const bool mine = before.event.device_id() == use.event.device_id();
    if (!use.writes) return mine && !before.writes && before.range == use.range;
    // A later use not ordered after `before` is not ordered after `use` either, and is reported
    // against `use`.
    return use.range.covers(before.range) &&
           sched::Clocks::ask(use.event, before.event) == sched::Clocks::Answer::ordered;
  });
  uses_.push_back(std::move(use));
}

void WatchedUses::be_former() noexcept {
  for (Use& each : uses_) each.former = true;
}

}  // namespace rt

}  // namespace heddle
