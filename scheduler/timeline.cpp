// Timeline: ends of tickets, waiting and calling back.
#include "scheduler/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "heddle/observe.hpp"
#include "scheduler/fork.hpp"

namespace heddle::sched {
namespace {

std::uint64_t next_timeline_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  // relaxed: pairs with no other access; ids only have to differ.
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void run_callback(const Timeline::Callback& callback) noexcept {
  try {
    callback();
  } catch (const std::exception& e) {
    log(LogLevel::error, std::string("an event callback threw: ") + e.what());
  } catch (...) {
    log(LogLevel::error, "an event callback threw something that is no std::exception");
  }
}

}  // namespace

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
  // seq_cst: re-check of a waiter after it has added itself; pairs with the store in complete().
  return completed_.load(std::memory_order_seq_cst) >= ticket;
}

Timeline::Outcome Timeline::outcome(std::uint64_t ticket) const noexcept {
  // acquire: pairs with the release in note(); a ticket seen as ended has its end noted already.
  if (!reached(ticket) || !has_bad_ends_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::upper_bound(bad_ends_, ticket, {}, &Run::from);
  if (at == bad_ends_.begin()) return {};
  const Run& run = *std::prev(at);
  if (ticket > run.to) return {};
  // relaxed: a note for the log, read when the device closes.
  observed_.store(true, std::memory_order_relaxed);
  return {run.status, run.contained};
}

void Timeline::note(std::uint64_t ticket, End end, const Status& status, bool contained) noexcept {
  const std::lock_guard lock(mutex_);
  if (!bad_ends_.empty() && end != End::failed) {
    Run& last = bad_ends_.back();
    if (last.to + 1 == ticket && last.end == end && last.contained == contained &&
        last.status == status) {
      last.to = ticket;
      return;
    }
  }
  try {
    bad_ends_.push_back({ticket, ticket, end, contained, status});
  } catch (...) {
    // Without memory for one more entry the last one is stretched: a bad end is never taken for a
    // good one.
    if (!bad_ends_.empty()) bad_ends_.back().to = ticket;
  }
  if (bad_ends_.size() > tuning::failure_texts_max) {
    Run& old = bad_ends_[bad_ends_.size() - 1 - tuning::failure_texts_max];
    if (!old.status.cause().ok() || old.status.exception()) {
      old.status = Status(old.status.code(), std::string(old.status.message()));
    }
  }
  // release: pairs with the acquire in outcome().
  has_bad_ends_.store(true, std::memory_order_release);
}

void Timeline::complete(std::uint64_t ticket) noexcept {
  // seq_cst: release pairs with the acquire in completed(); the total order pairs with call(): see
  // the protocol above.
  completed_.store(ticket, std::memory_order_seq_cst);
  // seq_cst: pairs with the increment in call().
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  while (true) {
    Callback callback;
    {
      const std::lock_guard lock(mutex_);
      if (calls_.empty() || calls_.begin()->first > ticket) return;
      callback = std::move(calls_.begin()->second.second);
      calls_.erase(calls_.begin());
      // relaxed: the completer is the only reader that acts on it, and it runs here.
      waiters_.fetch_sub(1, std::memory_order_relaxed);
    }
    run_callback(callback);
  }
}

std::uint64_t Timeline::call(std::uint64_t ticket, Callback callback) {
  if (!reached(ticket)) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t id = ++last_call_;
    const auto entry = calls_.emplace(ticket, std::pair(id, std::move(callback)));
    // seq_cst: pairs with the load in complete().
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    if (!reached_seq_cst(ticket)) return id;
    // The completer may have missed this entry; it cannot take it while we hold the lock.
    callback = std::move(entry->second.second);
    calls_.erase(entry);
    // relaxed: as in complete().
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
  run_callback(callback);
  return 0;
}

void Timeline::uncall(std::uint64_t id) noexcept {
  if (id == 0) return;
  const std::lock_guard lock(mutex_);
  const auto at =
      std::ranges::find_if(calls_, [&](const auto& entry) { return entry.second.first == id; });
  if (at == calls_.end()) return;
  calls_.erase(at);
  // relaxed: as in complete().
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

bool Timeline::wait(std::uint64_t ticket, std::optional<Clock::time_point> deadline,
                    std::chrono::nanoseconds spin) noexcept {
  if (deadline) spin = std::min(spin, std::max(*deadline - Clock::now(), Clock::duration(0)));
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

}  // namespace heddle::sched
