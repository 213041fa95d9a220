// A team: threads that help another thread with the numbered parts of a job. Team hands out the
// parts; Crew owns the helping threads, and says which team each of them serves.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "scheduler/protocol/assignment.hpp"
#include "scheduler/protocol/doorbells.hpp"
#include "scheduler/protocol/fork_join.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/parker.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// Runs one part. `member`: 0 for the thread that called run(), 1 + its index for a helper; no two
/// threads have the same number within one run(). Must not throw.
using PartFunction = void (*)(void* context, std::uint32_t part, std::uint32_t member) noexcept;

/// The maximum number of helpers of a crew: each has a bit in a word.
inline constexpr std::uint32_t helpers_max = Doorbells<>::places;

/// Threads from outside the team that come and help.
class Visitors {
 public:
  /// Up to `parts` parts can be claimed: some threads visit soon.
  virtual void come(std::uint32_t parts) noexcept = 0;

 protected:
  ~Visitors() = default;
};

class Team {
 public:
  /// `spin`: how long run() polls for the end of its helpers' parts before it sleeps.
  explicit Team(std::chrono::nanoseconds spin = tuning::spin_default) noexcept;
  /// Waits until all helpers have left, which is soon, because no part is running. Before the call,
  /// the helpers must be assigned elsewhere, or their crew destroyed, and no run() may be active.
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Calls `function(context, part, member)` for each part in [0, parts), on this thread and the
  /// current helpers of this team, and returns when every begun part has ended. Parts begin in
  /// ascending order. Once `stop` is requested no more parts begin, claimed or not: a part left out
  /// may precede a part that began; returns how many were not run (0: all were). The parts' effects
  /// happen before the return.
  ///
  /// Any thread, also from within a part; no allocation, no lock, no error. If the team has no
  /// helper or works for another thread, the caller runs all parts, in order, as member 0. In a
  /// child that was forked within a part, the helpers' parts count as not run.
  std::uint32_t run(std::uint32_t parts, PartFunction function, void* context,
                    const std::stop_token& stop = {}) noexcept {
    const std::stop_token* const asked = stop.stop_possible() ? &stop : nullptr;
    if (parts > 1 && has_helpers() && fork_join_.try_begin())
      return run_together({function, context, asked, parts});
    return run_alone({function, context, asked, parts});
  }

  /// From this call on `visitors` are called for the parts of each run(). They must outlive the
  /// team. Called once.
  void be_visited(Visitors& visitors) noexcept;
  /// A visitor runs parts while there are any and `stays(host)` holds, asked after each part.
  /// Returns whether there was a part. `member`: as for PartFunction; no other thread has the
  /// number meanwhile.
  bool visit(std::uint32_t member, bool (*stays)(const void* host) noexcept,
             const void* host) noexcept;

  /// True if every helper assigned by a crew has left for good: they run no parts any more, and
  /// visitors may be members in their place. Any thread.
  [[nodiscard]] bool is_left_to_visitors() const noexcept {
    // acquire: pairs with the release in detach(): the helpers' work comes before.
    return attached_.load(std::memory_order_acquire) == 1;
  }

  /// True if run() would share its parts now, unless another thread uses the team. Any thread.
  [[nodiscard]] bool has_helpers() const noexcept {
    // relaxed: pairs with attach() and detach(); a helper that comes or goes meanwhile costs a look
    // at most.
    return attached_.load(std::memory_order_relaxed) != 0 && fork_generation() == made_;
  }

 private:
  friend class Crew;
  struct Job {
    PartFunction function;
    void* context;
    const std::stop_token* stop;  // null: no stop can be requested
    std::uint32_t parts;
  };

  static std::uint32_t run_alone(const Job& job) noexcept;
  std::uint32_t run_together(const Job& job) noexcept;
  std::uint32_t join(std::uint32_t outstanding) noexcept;
  void wake_helpers(std::uint32_t parts) noexcept;

  // For Crew: a hold from before a helper is assigned to this team until the helper has left.
  void attach() noexcept;
  void detach() noexcept;
  /// For helpers: serves until the helper is assigned elsewhere.
  void serve(std::uint32_t helper, const Assignment<Team>& assignment,
             std::chrono::nanoseconds spin) noexcept;
  template <class Stays>
  bool help(std::uint32_t member, const Stays& stays) noexcept;
  void idle(std::uint32_t helper, const Assignment<Team>& assignment,
            std::chrono::nanoseconds spin) noexcept;

  ForkJoin<Job> fork_join_;
  // Written when helpers come and go.
  alignas(tuning::line_bytes) const std::uint32_t made_;  // the fork generation
  std::atomic<std::uint32_t> attached_{0};                // holds, plus 1 for visitors
  std::atomic<std::uint32_t> present_{0};                 // helpers in the team, asleep or not
  std::atomic<Visitors*> visitors_{nullptr};
  const std::chrono::nanoseconds spin_;
  Doorbells<> doorbells_;
  // Parkers of sleeping threads: members of the team: a wake must not touch memory that a crew may
  // free.
  Parker owner_parker_;
  Parker parkers_[helpers_max];
};

/// The threads that help. The helpers of a team belong to a single crew.
class Crew {
 public:
  /// Starts `helpers` threads, at most helpers_max, which sleep until they are assigned. Starting
  /// here, not at the first use, reports failures where the caller handles them, and no task waits
  /// for the start of a thread. Helper k is bound to processors[k], if given. `spin`: how long a
  /// helper polls for parts before it sleeps. Throws Error(invalid_argument, unavailable) and
  /// std::bad_alloc; then no thread remains.
  Crew(const std::string& name, std::uint32_t helpers, const std::vector<unsigned>& processors = {},
       std::chrono::nanoseconds spin = tuning::spin_default);
  /// Removes all helpers from their teams, lets them end their current parts, and joins them. Not
  /// from within a part. In a forked child: no effect.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

  /// From its next part on `helper` (below size()) serves `team`; null: no team, and the helper
  /// sleeps. Does not wait for parts. The previous team may be destroyed once this call has
  /// returned: its destructor waits until the helper has left. In a forked child: no effect. Any
  /// thread, also from within a part.
  void assign(std::uint32_t helper, Team* team) noexcept;

 private:
  struct Helper;
  void work(std::uint32_t helper) noexcept;
  void stop() noexcept;
  void tell(Helper& helper, std::uint32_t index, Team* team) noexcept;

  const std::uint32_t size_;
  const std::chrono::nanoseconds spin_;
  const std::uint32_t made_;  // the fork generation
  std::mutex mutex_;          // for assign()
  std::atomic<bool> stop_{false};
  std::unique_ptr<Helper[]> helpers_;
};

}  // namespace heddle::sched
