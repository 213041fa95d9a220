// Teams: assigns the processors of a backend with one thread per device. A processor without an
// open virtual device helps other devices with parts of kernels. Any thread.
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
  std::string name{};         ///< name of the threads
  std::uint32_t devices = 1;  ///< number of physical devices
  bool pinned = false;        ///< bind threads to processors
  std::chrono::nanoseconds spin{};
};

class Teams {
 public:
  explicit Teams(TeamsOptions options);
  Teams(const Teams&) = delete;
  Teams& operator=(const Teams&) = delete;
  ~Teams();

  /// The helpers of a physical device, already prepared. The pointer also holds the teams.
  [[nodiscard]] static std::shared_ptr<sched::Helpers> helpers_of(
      const std::shared_ptr<Teams>& teams, std::uint32_t ordinal) noexcept {
    return {teams, teams->helpers_[ordinal].get()};
  }

  /// An open virtual device, which reserves its processor.
  class Seat {
   public:
    Seat(std::shared_ptr<Teams> teams, std::uint32_t ordinal);
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    ~Seat() { leave(); }
    /// The device has closed. Idempotent.
    void leave() noexcept;

   private:
    std::shared_ptr<Teams> teams_;
    std::uint32_t ordinal_;
    bool left_ = false;  // guarded by teams_->mutex_
  };

 private:
  /// Starts the threads, once, with the first work for them. If no thread can be started, logs a
  /// warning, and kernels run without helpers.
  void start() noexcept;
  void assign() noexcept;

  const TeamsOptions options_;
  std::vector<std::unique_ptr<sched::Helpers>> helpers_;
  sched::ObjectMutex mutex_;         // guards the members below
  std::vector<std::uint32_t> open_;  // number of open virtual devices, per physical device
  bool started_ = false;
  std::optional<sched::Crew> crew_;
};

}  // namespace heddle::rt
