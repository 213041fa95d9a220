// The processors of a backend whose devices have a thread each: which helps which device with parts
// of its kernels. Those on which no virtual device is open are lent to the others. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/device/helpers.hpp"
#include "scheduler/threads/object_mutex.hpp"
#include "scheduler/threads/team.hpp"

namespace heddle::rt {

struct TeamsOptions {
  std::string name{};         ///< of the threads
  std::uint32_t devices = 1;  ///< physical ones
  bool pinned = false;        ///< threads are bound to processors
  std::chrono::nanoseconds spin{};
};

class Teams {
 public:
  explicit Teams(TeamsOptions options);
  Teams(const Teams&) = delete;
  Teams& operator=(const Teams&) = delete;
  ~Teams();

  /// What helps a physical device; holds the teams. Prepared.
  [[nodiscard]] static std::shared_ptr<sched::Helpers> helpers_of(
      const std::shared_ptr<Teams>& teams, std::uint32_t ordinal) noexcept {
    return {teams, teams->helpers_[ordinal].get()};
  }

  /// A virtual device that is open: its processor is its own.
  class Seat {
   public:
    Seat(std::shared_ptr<Teams> teams, std::uint32_t ordinal);
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    ~Seat() { leave(); }
    /// It is open no more. Idempotent.
    void leave() noexcept;

   private:
    std::shared_ptr<Teams> teams_;
    std::uint32_t ordinal_;
    bool left_ = false;  // guarded by the mutex of the teams
  };

 private:
  /// Starts the threads, once: there is something for them to do. Where none can be started, all
  /// goes on without; the log says so.
  void start() noexcept;
  void assign() noexcept;

  const TeamsOptions options_;
  std::vector<std::unique_ptr<sched::Helpers>> helpers_;
  sched::ObjectMutex mutex_;         // guards what follows
  std::vector<std::uint32_t> open_;  // virtual devices, by physical one
  bool started_ = false;
  std::optional<sched::Crew> crew_;
};

}  // namespace heddle::rt
