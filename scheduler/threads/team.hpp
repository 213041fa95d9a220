// A team: threads that help another thread with the numbered parts of one piece of work. Team is
// where the work is handed out; Crew owns the threads that help, and says which team each serves.
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
/// threads have the same one within one run(). May not throw.
using PartFunction = void (*)(void* context, std::uint32_t part, std::uint32_t member) noexcept;

/// Helpers of a crew, at most: each has a bit in a word.
inline constexpr std::uint32_t helpers_max = Doorbells<>::places;

/// Threads of others that come and help.
class Visitors {
 public:
  /// Up to `parts` parts can be claimed: some visit soon.
  virtual void come(std::uint32_t parts) noexcept = 0;

 protected:
  ~Visitors() = default;
};

class Team {
 public:
  /// `spin`: how long run() looks for the end of its helpers' parts before it sleeps.
  explicit Team(std::chrono::nanoseconds spin = tuning::spin_default) noexcept;
  /// Waits until all helpers have left; they do so soon, as no part is running. Before it, they
  /// have been assigned to something else, or their crew is gone; and no run() is under way.
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Calls `function(context, part, member)` for each part in [0, parts), on this thread and the
  /// helpers that serve this team now, and returns when all have ended. Parts begin in ascending
  /// order. Once `stop` is requested no more begin, claimed or not, so that one that did not may be
  /// before one that did; returns how many were not run (0: all were).
  /// What ran happens before the return.
  ///
  /// Any thread, also from within a part; no allocation, no lock, no error. Where the team has no
  /// helper or is at another thread's work, the caller runs all parts, in order, as member 0. In a
  /// child that was forked from within a part, parts that helpers had count as not run.
  std::uint32_t run(std::uint32_t parts, PartFunction function, void* context,
                    const std::stop_token& stop = {}) noexcept {
    const std::stop_token* const asked = stop.stop_possible() ? &stop : nullptr;
    if (parts > 1 && has_helpers() && fork_join_.try_begin())
      return run_together({function, context, asked, parts});
    return run_alone({function, context, asked, parts});
  }

  /// From here on `visitors` are called for the parts of each run(). They outlive it. Once.
  void be_visited(Visitors& visitors) noexcept;
  /// A visitor runs parts while there are any and `stays(host)`, asked after each. Whether there
  /// was one. `member`: as for PartFunction; nobody else's while this runs.
  bool visit(std::uint32_t member, bool (*stays)(const void* host) noexcept,
             const void* host) noexcept;

  /// Whether all helpers that a crew had assigned have left for good: none runs a part any more,
  /// and visitors may be members in their place. Any thread.
  [[nodiscard]] bool is_left_to_visitors() const noexcept {
    // acquire: pairs with the release in detach(): what helpers did here comes before.
    return attached_.load(std::memory_order_acquire) == 1;
  }

  /// Whether run() would share its parts now, if nobody else is at it. Any thread.
  [[nodiscard]] bool has_helpers() const noexcept {
    // relaxed: a helper that comes or goes meanwhile costs a look at most.
    return attached_.load(std::memory_order_relaxed) != 0 && fork_generation() == made_;
  }

 private:
  friend class Crew;
  struct Job {
    PartFunction function;
    void* context;
    const std::stop_token* stop;  // null: nobody can ask
    std::uint32_t parts;
  };

  static std::uint32_t run_alone(const Job& job) noexcept;
  std::uint32_t run_together(const Job& job) noexcept;
  std::uint32_t join(std::uint32_t outstanding) noexcept;
  void wake_helpers(std::uint32_t parts) noexcept;

  // Of Crew: a hold from before a helper is told of this team until it has left.
  void attach() noexcept;
  void detach() noexcept;
  /// The helper's: serves until it is assigned to something else.
  void serve(std::uint32_t helper, const Assignment<Team>& assignment,
             std::chrono::nanoseconds spin) noexcept;
  template <class Stays>
  bool help(std::uint32_t member, const Stays& stays) noexcept;
  void idle(std::uint32_t helper, const Assignment<Team>& assignment,
            std::chrono::nanoseconds spin) noexcept;

  ForkJoin<Job> fork_join_;
  // Written when helpers come and go.
  alignas(tuning::line_bytes) const std::uint32_t made_;  // the fork generation
  std::atomic<std::uint32_t> attached_{0};                // holds, and one for visitors
  std::atomic<std::uint32_t> present_{0};                 // helpers that are here, asleep or not
  std::atomic<Visitors*> visitors_{nullptr};
  const std::chrono::nanoseconds spin_;
  Doorbells<> doorbells_;
  // Where who sleeps is woken: here, so that waking touches nothing that a crew may take along.
  Parker owner_parker_;
  Parker parkers_[helpers_max];
};

/// The threads that help. All helpers of a team are of one crew.
class Crew {
 public:
  /// Starts `helpers` threads, at most helpers_max, which sleep until they are assigned; here, and
  /// not with the first use, so that what can fail fails where it is reported, and no task waits
  /// for the start of a thread. Helper k is bound to processors[k], if there is one. `spin`: how
  /// long a helper looks for parts before it sleeps. Throws Error(invalid_argument, unavailable)
  /// and std::bad_alloc; then no thread stays.
  Crew(const std::string& name, std::uint32_t helpers, const std::vector<unsigned>& processors = {},
       std::chrono::nanoseconds spin = tuning::spin_default);
  /// Takes all helpers away from their teams, lets them end the parts that they have, and joins
  /// them. Not from within a part. In a forked child: nothing.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

  /// From its next part on `helper` (below size()) serves `team`; null: none, it sleeps. Waits for
  /// no part. The team that it served may be destroyed once this has returned: its destructor waits
  /// until the helper has left. In a forked child: nothing. Any thread, also from within a part.
  void assign(std::uint32_t helper, Team* team) noexcept;

 private:
  struct Helper;
  void work(std::uint32_t helper) noexcept;
  void stop() noexcept;
  void tell(Helper& helper, std::uint32_t index, Team* team) noexcept;

  const std::uint32_t size_;
  const std::chrono::nanoseconds spin_;
  const std::uint32_t made_;  // the fork generation
  std::mutex mutex_;          // assign()
  std::atomic<bool> stop_{false};
  std::unique_ptr<Helper[]> helpers_;
};

}  // namespace heddle::sched
