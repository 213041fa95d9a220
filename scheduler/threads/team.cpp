// Teams and crews: combines the protocols of fork_join.hpp, doorbells.hpp and assignment.hpp.
#include "scheduler/threads/team.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "heddle/status.hpp"
#include "scheduler/barrier.hpp"
#include "scheduler/threads/spin.hpp"
#include "scheduler/threads/threads.hpp"

namespace heddle::sched {
namespace {

/// Called before doorbells are made, and before forks must be noticed.
std::uint32_t prepared_generation() noexcept {
  prepare_barriers();
  watch_forks();
  return fork_generation();
}

bool is_asked(const std::stop_token* stop) noexcept {
  return stop != nullptr && stop->stop_requested();
}

}  // namespace

// --- Team ---

Team::Team(std::chrono::nanoseconds spin) noexcept : made_(prepared_generation()), spin_(spin) {
  static_assert(offsetof(Team, made_) % tuning::line_bytes == 0);
}

Team::~Team() {
  if (fork_generation() != made_) return;
  // relaxed: pairs with the store in be_visited(), which comes before by contract.
  const std::uint32_t stays = visitors_.load(std::memory_order_relaxed) != nullptr ? 1 : 0;
  // acquire: pairs with the release in detach(): the helpers' work comes before the end.
  const auto gone = [&] { return attached_.load(std::memory_order_acquire) == stays; };
  while (!spin_until(gone, tuning::spin_default)) {
  }
}

std::uint32_t Team::run_alone(const Job& job) noexcept {
  if (job.stop == nullptr) {
    for (std::uint32_t part = 0; part < job.parts; ++part) job.function(job.context, part, 0);
    return 0;
  }
  std::uint32_t part = 0;
  for (; part < job.parts && !job.stop->stop_requested(); ++part)
    job.function(job.context, part, 0);
  return job.parts - part;
}

std::uint32_t Team::run_together(const Job& job) noexcept {
  // parts not run by the owner, which begins with part 0
  std::uint32_t outstanding = job.parts - 1;
  std::uint32_t dropped = 0;
  fork_join_.publish(job, outstanding);
  wake_helpers(outstanding);
  // acquire: pairs with the release in be_visited().
  if (Visitors* const visitors = visitors_.load(std::memory_order_acquire); visitors != nullptr)
    visitors->come(outstanding);
  for (std::uint32_t left = job.parts; left != 0;) {
    if (is_asked(job.stop)) {
      const std::uint32_t rest = fork_join_.claim_rest();
      outstanding -= rest;
      dropped = rest + 1;
      break;
    }
    job.function(job.context, job.parts - left, 0);
    // When every part is claimed and ended, the helpers keep the cache line of the claims.
    if (left == 1 || fork_join_.ended() == outstanding) break;
    left = fork_join_.claim();
    if (left != 0) --outstanding;
  }
  dropped += join(outstanding);
  fork_join_.finish();
  return dropped;
}

/// Waits for the helpers' parts; returns how many were dropped.
std::uint32_t Team::join(std::uint32_t outstanding) noexcept {
  const auto all = [&] { return fork_join_.ended() == outstanding; };
  if (!all()) {
    // A child forked within a part: its helpers exist only in the parent.
    if (fork_generation() != made_) return outstanding - fork_join_.ended();
    if (!spin_until(all, spin_)) {
      while (fork_join_.sleep() != outstanding) owner_parker_.park();
      fork_join_.wake();
    }
  }
  return fork_join_.take_dropped();
}

/// Wakes as many sleepers as there are parts without an awake helper.
void Team::wake_helpers(std::uint32_t parts) noexcept {
  if (doorbells_.quiet()) return;
  const std::uint64_t sleepers = doorbells_.sleepers();
  // relaxed: pairs with the count in serve(); an estimate, since a helper that arrives meanwhile
  // looks by itself.
  const std::uint32_t present = present_.load(std::memory_order_relaxed);
  const std::uint32_t awake =
      present - std::min(present, static_cast<std::uint32_t>(std::popcount(sleepers)));
  if (awake >= parts) return;
  for (std::uint64_t taken = doorbells_.take(sleepers, parts - awake); taken != 0;
       taken &= taken - 1)
    parkers_[std::countr_zero(taken)].unpark();
}

/// Runs parts while there are any. Counts their ends together, because the owner waits for all of
/// them anyway.
template <class Stays>
bool Team::help(std::uint32_t member, const Stays& stays) noexcept {
  std::uint32_t left = fork_join_.is_open() ? fork_join_.claim() : 0;
  if (left == 0) return false;
  const Job job = fork_join_.job();
  std::uint32_t parts = 0, dropped = 0;
  do {
    ++parts;
    if (is_asked(job.stop)) {
      const std::uint32_t rest = fork_join_.claim_rest();
      parts += rest;
      dropped = rest + 1;
      break;
    }
    job.function(job.context, job.parts - left, member);
    left = left == 1 || !stays() ? 0 : fork_join_.claim();
  } while (left != 0);
  if (fork_join_.end(parts, dropped)) owner_parker_.unpark();
  return true;
}

void Team::be_visited(Visitors& visitors) noexcept {
  attach();
  // release: pairs with the acquire in run_together().
  visitors_.store(&visitors, std::memory_order_release);
}

bool Team::visit(std::uint32_t member, bool (*stays)(const void* host) noexcept,
                 const void* host) noexcept {
  return help(member, [=] { return stays(host); });
}

void Team::attach() noexcept {
  // relaxed: pairs with the loads of attached_; a release tells the helper, and ~Team() comes after
  // by contract.
  attached_.fetch_add(1, std::memory_order_relaxed);
}

void Team::detach() noexcept {
  // release: pairs with the acquire in ~Team(), and in is_left_to_visitors().
  attached_.fetch_sub(1, std::memory_order_release);
}

void Team::serve(std::uint32_t helper, const Assignment<Team>& assignment,
                 std::chrono::nanoseconds spin) noexcept {
  // relaxed: pairs with the load in wake_helpers(), an estimate.
  present_.fetch_add(1, std::memory_order_relaxed);
  while (assignment.stays()) {
    if (!help(helper + 1, [&] { return assignment.stays(); })) idle(helper, assignment, spin);
  }
  // relaxed: pairs with the load in wake_helpers()
  present_.fetch_sub(1, std::memory_order_relaxed);
  detach();
}

/// Looks for parts for a while, then sleeps until there are some or the helper is needed elsewhere.
void Team::idle(std::uint32_t helper, const Assignment<Team>& assignment,
                std::chrono::nanoseconds spin) noexcept {
  const auto called = [&] { return fork_join_.is_open() || !assignment.stays(); };
  if (spin_until(called, spin)) return;
  doorbells_.park(helper);
  if (!called()) parkers_[helper].park();
  doorbells_.unpark(helper);
}

// --- Crew ---

struct alignas(tuning::line_bytes) Crew::Helper {
  Assignment<Team> assignment;
  Parker parker;         // while it serves no team
  Team* team = nullptr;  // its latest assignment; guarded by mutex_
  std::thread thread;
};

Crew::Crew(const std::string& name, std::uint32_t helpers, const std::vector<unsigned>& processors,
           std::chrono::nanoseconds spin)
    : size_(helpers), spin_(spin), made_(prepared_generation()) {
  if (helpers > helpers_max)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("crew '{}': {} helpers (expected at most {})", name, helpers, helpers_max));
  for (std::uint32_t k = 0; k < helpers && k < processors.size(); ++k)
    require_allowed(name, processors[k]);
  helpers_ = std::make_unique<Helper[]>(helpers);
  try {
    for (std::uint32_t k = 0; k < helpers; ++k) {
      std::optional<unsigned> processor;
      if (k < processors.size()) processor = processors[k];
      helpers_[k].thread =
          start_thread(fmt::format("{}/{}", name, k), processor, [this, k] { work(k); });
    }
  } catch (...) {
    stop();
    throw;
  }
}

Crew::~Crew() {
  if (fork_generation() != made_) {
    // The threads do not exist here: neither joined nor destroyed.
    static_cast<void>(helpers_.release());
    return;
  }
  stop();
}

void Crew::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t k = 0; k < size_; ++k) tell(helpers_[k], k, nullptr);
    // release: pairs with the acquire in work(); the assignments come before.
    stop_.store(true, std::memory_order_release);
  }
  for (std::uint32_t k = 0; k < size_; ++k) {
    helpers_[k].parker.unpark();
    if (helpers_[k].thread.joinable()) helpers_[k].thread.join();
  }
}

void Crew::assign(std::uint32_t helper, Team* team) noexcept {
  if (fork_generation() != made_) return;
  const std::lock_guard lock(mutex_);
  // relaxed: pairs with the store in stop(), under the same lock.
  if (!stop_.load(std::memory_order_relaxed)) tell(helpers_[helper], helper, team);
}

/// Called with the lock held.
void Crew::tell(Helper& helper, std::uint32_t index, Team* team) noexcept {
  Team* const before = std::exchange(helper.team, team);
  if (before == team) return;
  if (team != nullptr) team->attach();
  // The helper may leave at once, and the team be destroyed, before the wake: takes one more hold.
  if (before != nullptr) before->attach();
  const bool untaken = helper.assignment.assign(team);
  if (before == nullptr) {
    helper.parker.unpark();
    return;
  }
  if (untaken) before->detach();
  before->parkers_[index].unpark();
  before->detach();
}

void Crew::work(std::uint32_t helper) noexcept {
  Helper& self = helpers_[helper];
  while (true) {
    if (Team* const team = self.assignment.take()) {
      team->serve(helper, self.assignment, spin_);
      continue;
    }
    // acquire: pairs with the release in stop(): no assignments follow.
    if (stop_.load(std::memory_order_acquire)) return;
    self.parker.park();
  }
}

}  // namespace heddle::sched
