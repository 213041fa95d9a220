// Helpers: the threads that help a group of devices (the devices of a scheduler or of a piece of
// hardware) with parts of tasks. The group has a single team, which serves a single task at a time.
// Helpers are workers of the scheduler's pool, as visitors, where there is a pool; threads that an
// owner lends; otherwise a separate crew, started by the first task in parts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/protocol/turns.hpp"
#include "scheduler/threads/object_mutex.hpp"
#include "scheduler/threads/ready.hpp"
#include "scheduler/threads/team.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

struct HelpersOptions {
  std::string name{};               ///< of the threads
  std::optional<unsigned> width{};  ///< threads of one task; unset: available_processors()
  std::chrono::nanoseconds spin{};
  bool pinned = false;                ///< threads are bound to processors,
  std::uint32_t first_processor = 1;  ///< beginning at this allowed processor
  /// Set: borrowed threads serve the team, each as a member below the width. Called once, when the
  /// first parts are ready; must not throw.
  std::function<void()> lend{};
};

/// A place in a team that borrowed threads take for a while, one thread at a time.
class HelperPlace {
 public:
  using Stays = bool (*)(const void* host) noexcept;

  /// Runs parts while there are any. false: the visit ended because `stays(host)` did not hold, or
  /// because threads of a crew have not left the team yet; the caller then arranges another visit.
  /// Called by the thread that received the place.
  [[nodiscard]] bool visit(Stays stays, const void* host) noexcept;
  /// The link for the wait for a visitor.
  [[nodiscard]] ReadyLink& ready_link() noexcept { return link_; }

 private:
  friend class Helpers;
  Team* team_ = nullptr;
  std::uint32_t member_ = 0;
  Turns<> turns_;  // a single visit at a time, after each call
  ReadyLink link_;
};

/// A source of visiting threads.
class VisitorSource {
 public:
  /// A thread of the source visits `place` when it has time.
  virtual void send_to(std::shared_ptr<HelperPlace> place) noexcept = 0;

 protected:
  ~VisitorSource() = default;
};

/// Any thread.
class Helpers final : public std::enable_shared_from_this<Helpers>, private Visitors {
 public:
  explicit Helpers(HelpersOptions options) : options_(std::move(options)) {}
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  /// Makes the members below; once. Throws std::bad_alloc.
  void prepare();
  /// prepare(), and starts a crew, or borrows threads, if there are no other helpers. If no thread
  /// can be started, the log says so, and tasks run without helpers.
  void start();
  /// From this call on `threads` threads of `source` help, and a crew, if there is one, stops
  /// helping.
  void be_visited(std::shared_ptr<VisitorSource> source, std::size_t threads);

  // Only once prepared.

  /// Threads per task, including the device's thread.
  [[nodiscard]] std::uint32_t width() const noexcept { return at_work().width; }
  [[nodiscard]] Team& team() noexcept { return at_work().team; }

  // The current work of helpers, for snapshots.

  /// Helper `member` begins part `part` of a task of the device of timeline `timeline`, or rests.
  void note(std::uint32_t member, std::uint64_t timeline, std::size_t part) noexcept;
  void note_rest(std::uint32_t member) noexcept;
  /// The earliest part of a task of that device that a helper runs.
  [[nodiscard]] std::optional<std::size_t> earliest(std::uint64_t timeline) const noexcept;

 private:
  struct alignas(tuning::line_bytes) Noted {
    std::atomic<std::uint64_t> timeline{0};
    std::atomic<std::uint64_t> next{0};  // 1 + part; 0: none
  };
  struct Work {
    Work(std::uint32_t threads, std::chrono::nanoseconds spin)
        : width(threads), team(spin), places(threads - 1), noted(threads - 1) {}
    const std::uint32_t width;
    Team team;
    std::vector<HelperPlace> places;
    std::vector<Noted> noted;
    std::optional<Crew> crew{};  // last member: its threads end before the members they use
  };

  [[nodiscard]] Work& at_work() const noexcept {
    // acquire: pairs with the release in prepare_locked().
    return *ready_.load(std::memory_order_acquire);
  }
  /// Called with the lock held. Throws std::bad_alloc.
  Work& prepare_locked();
  void start_crew(Work& work) noexcept;
  void come(std::uint32_t parts) noexcept override;

  const HelpersOptions options_;
  std::atomic<Work*> ready_{nullptr};
  std::atomic<bool> started_{false};
  ObjectMutex mutex_;  // guards the members below
  std::unique_ptr<Work> work_;
  // Constant once the team is visited.
  std::shared_ptr<VisitorSource> source_;
  std::size_t visitors_ = 0;
};

}  // namespace heddle::sched
