// Timeline: ends of tickets, waiting and calling back.
#include "scheduler/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "heddle/observe.hpp"
#include "scheduler/fork.hpp"
#include "scheduler/task_context.hpp"

namespace heddle::sched {
namespace {

std::uint64_t next_timeline_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  // relaxed: pairs with no other access; ids only have to differ.
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// What is left of the text of an old failure: one copy for each code.
Status without_text(ErrorCode code) noexcept {
  static const std::vector<Status> statuses = [] {
    std::vector<Status> made;
    for (int k = 0; k <= static_cast<int>(ErrorCode::internal); ++k) {
      made.emplace_back(static_cast<ErrorCode>(k),
                        fmt::format("an older failure of a timeline that had more than {} since; "
                                    "its text is no longer kept",
                                    tuning::failure_texts_max));
    }
    return made;
  }();
  return statuses[std::min(static_cast<std::size_t>(code), statuses.size() - 1)];
}

}  // namespace

void Timeline::run_callback(const Callback& callback) noexcept {
  try {
    callback();
  } catch (const std::exception& e) {
    log(LogLevel::error, std::string("an event callback threw: ") + e.what());
  } catch (...) {
    log(LogLevel::error, "an event callback threw something that is no std::exception");
  }
}

std::unique_lock<std::mutex> Timeline::lock_or_fork() const noexcept {
  if (in_forked_child()) return {mutex_, std::try_to_lock};
  return std::unique_lock(mutex_);
}

Timeline::Timeline(std::string name)
    : id_(next_timeline_id()), name_(std::move(name)), fork_generation_(fork_generation()) {}

bool Timeline::in_forked_child() const noexcept { return fork_generation() != fork_generation_; }

Status Timeline::fork_refusal() const noexcept {
  return Status(ErrorCode::unavailable,
                fmt::format("timeline '{}': forked: this process is a child of the one that made "
                            "it, and who would end its "
                            "tickets is not here; open a new one",
                            name_));
}

bool Timeline::reached_seq_cst(std::uint64_t ticket) const noexcept {
  // seq_cst: re-check of a waiter after it has added itself; pairs with the store in advance().
  return completed_.load(std::memory_order_seq_cst) >= ticket;
}

Timeline::Outcome Timeline::outcome(std::uint64_t ticket) const noexcept {
  // acquire: pairs with the release in note(); a ticket seen as ended has its end noted already.
  if (!reached(ticket) || !has_bad_ends_.load(std::memory_order_acquire)) return {};
  const auto lock = lock_or_fork();
  if (!lock) return {fork_refusal(), false};
  const auto at = std::ranges::upper_bound(bad_ends_, ticket, {}, &Run::from);
  if (at == bad_ends_.begin()) return {};
  const Run& run = *std::prev(at);
  if (ticket > run.to) return {};
  // relaxed: a note for the log, read when the device closes.
  observed_.store(true, std::memory_order_relaxed);
  return {run.status, run.contained};
}

void Timeline::note(std::uint64_t from, std::uint64_t to, End end, const Status& status,
                    bool contained) noexcept {
  const std::lock_guard lock(mutex_);
  if (!bad_ends_.empty() && end != End::failed) {
    Run& last = bad_ends_.back();
    if (last.to + 1 == from && last.end == end && last.contained == contained &&
        last.status == status) {
      last.to = to;
      return;
    }
  }
  try {
    bad_ends_.push_back({from, to, end, contained, status});
  } catch (...) {
    // Without memory for one more entry the last one is stretched: a bad end is never taken for a
    // good one.
    if (!bad_ends_.empty()) bad_ends_.back().to = to;
  }
  if (bad_ends_.size() > tuning::failure_texts_max) {
    Run& old = bad_ends_[bad_ends_.size() - 1 - tuning::failure_texts_max];
    old.status = without_text(old.status.code());
  }
  // release: pairs with the acquire in outcome().
  has_bad_ends_.store(true, std::memory_order_release);
}

void Timeline::advance(std::uint64_t ticket) noexcept {
  // seq_cst: release pairs with the acquire in completed(); the total order pairs with call(): see
  // the protocol above.
  completed_.store(ticket, std::memory_order_seq_cst);
}

void Timeline::call_back(std::uint64_t ticket) noexcept {
  // seq_cst: pairs with the increment in call().
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  while (run_next_callback(ticket)) {
  }
  settle_put_off();
}

/// Takes the first callback that is due and runs it; false: there is none.
bool Timeline::run_next_callback(std::uint64_t ticket) noexcept {
  Callback callback;
  {
    const std::lock_guard lock(mutex_);
    if (calls_.empty() || calls_.begin()->first > ticket) return false;
    callback = std::move(calls_.begin()->second.second);
    calls_.erase(calls_.begin());
    // relaxed: pairs with the load in call_back(); whoever reads less than there are took one
    // itself or is followed by who did.
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
  run_callback(callback);
  return true;
}

std::uint64_t Timeline::call(std::uint64_t ticket, Callback callback) {
  if (!reached(ticket)) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t id = ++last_call_;
    const auto entry = calls_.emplace(ticket, std::pair(id, std::move(callback)));
    // seq_cst: pairs with the load in call_back().
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    if (!reached_seq_cst(ticket)) return id;
    // The completer may have missed this entry; it cannot take it while we hold the lock.
    callback = std::move(entry->second.second);
    calls_.erase(entry);
    // relaxed: as in run_next_callback().
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
  run_callback(callback);
  settle_put_off();
  return 0;
}

void Timeline::uncall(std::uint64_t id) noexcept {
  if (id == 0) return;
  const std::lock_guard lock(mutex_);
  const auto at =
      std::ranges::find_if(calls_, [&](const auto& entry) { return entry.second.first == id; });
  if (at == calls_.end()) return;
  calls_.erase(at);
  // relaxed: as in run_next_callback().
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

bool Timeline::wait(std::uint64_t ticket, std::optional<Clock::time_point> deadline,
                    std::chrono::nanoseconds spin) noexcept {
  run_put_off();
  if (deadline) {
    const auto now = Clock::now();
    spin = *deadline <= now ? Clock::duration(0) : std::min(spin, *deadline - now);
  }
  if (spin_until([&] { return reached(ticket); }, spin)) return true;
  // Shared with the callback: it may be running while a wait that timed out returns.
  std::shared_ptr<Parker> parker;
  std::uint64_t id = 0;
  try {
    parker = std::make_shared<Parker>();
    id = call(ticket, [parker] { parker->unpark(); });
  } catch (...) {
    // No memory to sleep with: poll, slowly.
    while (!reached(ticket) && !(deadline && Clock::now() >= *deadline)) cpu_relax();
    return reached(ticket);
  }
  const bool woken = parker->park(deadline);
  if (!woken) uncall(id);
  return woken || reached(ticket);
}

Status ExternalState::signal(std::uint64_t ticket, const Status& status) noexcept {
  {
    const std::lock_guard lock(signalling);
    // relaxed: pairs with the count in next(); who signals a ticket has been handed it.
    const std::uint64_t handed_out = tickets.load(std::memory_order_relaxed);
    const std::uint64_t ended = completed();
    if (ticket <= ended || ticket > handed_out) {
      return Status(ErrorCode::invalid_argument,
                    fmt::format("timeline '{}': signal of ticket {} (expected {} to {})", name(),
                                ticket, ended + 1, handed_out));
    }
    if (!status.ok()) note(ticket, ticket, End::failed, status, true);
    advance(ticket);
  }
  call_back(ticket);  // may signal this very timeline
  return {};
}

void ExternalState::abandon() noexcept {
  if (in_forked_child()) return;
  // relaxed: pairs with the count in next(); this is the last handle.
  const std::uint64_t last = tickets.load(std::memory_order_relaxed);
  {
    const std::lock_guard lock(signalling);
    if (reached(last)) return;
    note(
        completed() + 1, last, End::failed,
        Status(ErrorCode::unavailable,
               fmt::format("timeline '{}' was destroyed before this ticket was signalled", name())),
        true);
    advance(last);
  }
  call_back(last);
}

}  // namespace heddle::sched
