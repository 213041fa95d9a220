// See helpers.hpp.
#include "scheduler/device/helpers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "heddle/scheduler.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/threads/processors.hpp"

namespace heddle::sched {

static_assert(width_max == helpers_max + 1);

bool HelperPlace::visit(Stays stays, const void* host) noexcept {
  // A crew thread that has not left yet is still the member whose place the visitor takes; the
  // member leaves when its part ends.
  if (!team_->is_left_to_visitors()) {
    std::this_thread::yield();
    return false;
  }
  std::uint64_t known = 1;
  do {
    while (team_->visit(member_, stays, host)) {
      if (!stays(host)) return false;
    }
  } while (!turns_.end(known));
  return true;
}

Helpers::Work& Helpers::prepare_locked() {
  if (!work_) {
    const unsigned width =
        options_.width ? *options_.width : std::min(available_processors(), width_max);
    work_ = std::make_unique<Work>(width, options_.spin);
    for (std::uint32_t k = 0; k + 1 < width; ++k) {
      work_->places[k].team_ = &work_->team;
      work_->places[k].member_ = k + 1;
    }
    // release: pairs with the acquire in at_work().
    ready_.store(work_.get(), std::memory_order_release);
  }
  return *work_;
}

void Helpers::prepare() {
  // relaxed: pairs with the release in prepare_locked(); users of the work load it again with
  // acquire.
  if (ready_.load(std::memory_order_relaxed) != nullptr) return;
  const auto lock = mutex_.lock_or_fork();
  if (!lock.owns_lock()) throw std::bad_alloc();  // NOLINT: a forked child, which is refused first
  prepare_locked();
}

void Helpers::start() {
  // acquire: pairs with the release below.
  if (started_.load(std::memory_order_acquire)) return;
  const auto lock = mutex_.lock_or_fork();
  if (!lock.owns_lock()) return;
  Work& work = prepare_locked();
  // release: pairs with the acquire above: a thread that reads true sees the work.
  if (started_.exchange(true, std::memory_order_release)) return;
  if (work.width == 1) return;
  if (source_ != nullptr) {
    work.team.be_visited(*this);
  } else if (options_.lend) {
    options_.lend();
  } else {
    start_crew(work);
  }
}

void Helpers::start_crew(Work& work) noexcept try {
  std::vector<unsigned> processors;
  if (const auto allowed = allowed_processors(); options_.pinned && !allowed.empty()) {
    for (std::uint32_t k = 0; k + 1 < work.width; ++k)
      processors.push_back(allowed[(options_.first_processor + k) % allowed.size()]);
  }
  work.crew.emplace(options_.name + "/team", work.width - 1, processors, options_.spin);
  for (std::uint32_t k = 0; k < work.crew->size(); ++k) work.crew->assign(k, &work.team);
} catch (const std::exception& error) {
  log_made(LogLevel::warn, [&] {
    return fmt::format("scheduler '{}' runs the parts of a task one after the other: {}",
                       options_.name, error.what());
  });
}

void Helpers::be_visited(std::shared_ptr<VisitorSource> source, std::size_t threads) {
  const auto lock = mutex_.lock_or_fork();
  if (!lock.owns_lock() || source_ != nullptr) return;
  source_ = std::move(source);
  visitors_ = threads;
  // relaxed: pairs with the exchange in start(), under the same lock.
  if (!started_.load(std::memory_order_relaxed) || work_->width == 1) return;
  // Two sets of threads would exceed the number of processors.
  if (work_->crew) {
    for (std::uint32_t k = 0; k < work_->crew->size(); ++k) work_->crew->assign(k, nullptr);
  }
  work_->team.be_visited(*this);
}

void Helpers::come(std::uint32_t parts) noexcept {
  Work& work = at_work();
  const std::size_t most = std::min({std::size_t{parts}, work.places.size(), visitors_});
  for (std::size_t k = 0; k < most; ++k) {
    if (work.places[k].turns_.ask()) source_->send_to({shared_from_this(), &work.places[k]});
  }
}

void Helpers::note(std::uint32_t member, std::uint64_t timeline, std::size_t part) noexcept {
  Noted& noted = at_work().noted[member - 1];
  // relaxed: published by the release in the next line; pairs with the load in earliest().
  noted.timeline.store(timeline, std::memory_order_relaxed);
  // release: pairs with the acquire in earliest().
  noted.next.store(part + 1, std::memory_order_release);
}

void Helpers::note_rest(std::uint32_t member) noexcept {
  // relaxed: a number for snapshots; pairs with the load in earliest().
  at_work().noted[member - 1].next.store(0, std::memory_order_relaxed);
}

std::optional<std::size_t> Helpers::earliest(std::uint64_t timeline) const noexcept {
  // acquire: pairs with the release in prepare_locked().
  const Work* const work = ready_.load(std::memory_order_acquire);
  std::optional<std::size_t> first;
  if (work == nullptr) return first;
  for (const Noted& noted : work->noted) {
    // acquire: pairs with the release in note().
    const std::uint64_t next = noted.next.load(std::memory_order_acquire);
    // relaxed: pairs with the store in note(); a number for snapshots, possibly of the next task by
    // now.
    if (next == 0 || noted.timeline.load(std::memory_order_relaxed) != timeline) continue;
    first = std::min(first.value_or(next - 1), static_cast<std::size_t>(next - 1));
  }
  return first;
}

}  // namespace heddle::sched
