// Helpers: the threads that help some devices, those of a scheduler or of one piece of hardware,
// with the parts of their tasks. There is one team, which serves one task at a time. Who helps:
// workers of the scheduler's pool, as visitors, where it has one; threads that somebody lends; else
// a crew of its own, which starts with the first such task.
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
  std::uint32_t first_processor = 1;  ///< from this one of those allowed on
  /// Set: threads of others serve the team, each as a member below the width. Called once, when
  /// there is something to do for them; may not throw.
  std::function<void()> lend{};
};

/// A place of a team that threads of others take for a while, one at a time.
class HelperPlace {
 public:
  using Stays = bool (*)(const void* host) noexcept;

  /// Runs parts while there are any. false: it left because `stays(host)` did not hold, or threads
  /// of a crew have not left the team yet, and the caller has the place visited again. The thread
  /// that it was sent to.
  [[nodiscard]] bool visit(Stays stays, const void* host) noexcept;
  /// How it waits for its visitor.
  [[nodiscard]] ReadyLink& ready_link() noexcept { return link_; }

 private:
  friend class Helpers;
  Team* team_ = nullptr;
  std::uint32_t member_ = 0;
  Turns<> turns_;  // one visit at a time, after each call
  ReadyLink link_;
};

/// Has threads that visit.
class VisitorSource {
 public:
  /// Some thread visits `place` when it has time.
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

  /// Makes what follows; once. Throws std::bad_alloc.
  void prepare();
  /// The same, and starts a crew, or has threads lent, where nobody else helps; where none can be
  /// started, the log says so, and all goes on without.
  void start();
  /// From here on `threads` threads of `source` help, and the crew, if there is one, no more.
  void be_visited(std::shared_ptr<VisitorSource> source, std::size_t threads);

  // Once prepared.

  /// Threads of one task, that of its device among them.
  [[nodiscard]] std::uint32_t width() const noexcept { return at_work().width; }
  [[nodiscard]] Team& team() noexcept { return at_work().team; }

  // What helpers are at, for people.

  /// Helper `member` begins part `part` of a task of the device of timeline `timeline`, or rests.
  void note(std::uint32_t member, std::uint64_t timeline, std::size_t part) noexcept;
  void note_rest(std::uint32_t member) noexcept;
  /// The earliest part of a task of that device which a helper runs.
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
    std::optional<Crew> crew{};  // last: its threads end before what they serve
  };

  [[nodiscard]] Work& at_work() const noexcept {
    // acquire: pairs with the release in prepare_locked().
    return *ready_.load(std::memory_order_acquire);
  }
  /// Under the lock. Throws std::bad_alloc.
  Work& prepare_locked();
  void start_crew(Work& work) noexcept;
  void come(std::uint32_t parts) noexcept override;

  const HelpersOptions options_;
  std::atomic<Work*> ready_{nullptr};
  std::atomic<bool> started_{false};
  ObjectMutex mutex_;  // guards what follows
  std::unique_ptr<Work> work_;
  // Constant once the team is visited.
  std::shared_ptr<VisitorSource> source_;
  std::size_t visitors_ = 0;
};

}  // namespace heddle::sched
