// See runtime/device/teams.hpp.
#include "runtime/device/teams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "scheduler/observe/log.hpp"
#include "scheduler/threads/processors.hpp"

namespace heddle::rt {

Teams::Teams(TeamsOptions options) : options_(std::move(options)), open_(options_.devices) {
  sched::HelpersOptions each{.name = options_.name, .spin = options_.spin};
  // One thread per processor, and the device's own thread.
  each.width = std::min(options_.devices, sched::helpers_max) + 1;
  each.lend = [this] { start(); };
  for (std::uint32_t k = 0; k < options_.devices; ++k) {
    helpers_.push_back(std::make_unique<sched::Helpers>(each));
    helpers_.back()->prepare();
  }
}

/// Ends the threads before the other members go.
Teams::~Teams() { crew_.reset(); }

void Teams::start() noexcept try {
  const auto lock = mutex_.lock_or_fork();
  if (!lock.owns_lock() || started_) return;
  started_ = true;
  const std::uint32_t all = std::min(options_.devices, sched::helpers_max);
  std::vector<unsigned> processors;
  if (const auto allowed = sched::allowed_processors(); options_.pinned && !allowed.empty()) {
    for (std::uint32_t k = 0; k < all; ++k) processors.push_back(allowed[k % allowed.size()]);
  }
  crew_.emplace(options_.name, all, processors, options_.spin);
  assign();
} catch (const std::exception& error) {
  sched::log_made(LogLevel::warn, [&] {
    return fmt::format("backend '{}' runs kernels on one processor each: {}", options_.name,
                       error.what());
  });
}

/// Under the lock. Assigns the thread of every processor without an open device to a team.
void Teams::assign() noexcept {
  if (!crew_) return;
  std::uint32_t next = 0;  // next physical device to get a free processor
  const auto all = static_cast<std::uint32_t>(open_.size());
  const bool all_closed = std::ranges::count(open_, 0U) == static_cast<std::ptrdiff_t>(all);
  for (std::uint32_t k = 0; k < crew_->size(); ++k) {
    if (open_[k] != 0 || all_closed) {
      crew_->assign(k, nullptr);
      continue;
    }
    while (open_[next % all] == 0) ++next;
    crew_->assign(k, &helpers_[next++ % all]->team());
  }
}

Teams::Seat::Seat(std::shared_ptr<Teams> teams, std::uint32_t ordinal)
    : teams_(std::move(teams)), ordinal_(ordinal) {
  const auto lock = teams_->mutex_.lock_or_fork();
  left_ = !lock.owns_lock();
  if (!left_ && teams_->open_[ordinal_]++ == 0) teams_->assign();
}

void Teams::Seat::leave() noexcept {
  const auto lock = teams_->mutex_.lock_or_fork();
  if (!lock.owns_lock() || std::exchange(left_, true)) return;
  if (--teams_->open_[ordinal_] == 0) teams_->assign();
}

}  // namespace heddle::rt
