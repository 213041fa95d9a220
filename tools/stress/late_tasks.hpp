// Tasks of a simulated graph that end later than they return: how they end, at which time and in
// which order, is drawn; and what must hold of them (S23). One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "heddle/scheduler.hpp"
#include "heddle/simulation.hpp"
#include "tools/stress/simulated_graph.hpp"

namespace heddle::stress {

/// Of a device: its tasks that have begun, and whose ends nobody has reported.
struct InFlight {
  std::uint32_t max = 0;  ///< DeviceOptions::in_flight
  std::uint32_t unreported = 0;
  std::uint64_t last_gone = 0;  ///< the ticket whose callable went last
};

/// Of a task: how its end was reported.
struct LateEnd {
  int reports = 0;
  bool bad = false;
};

class LateTasks {
 public:
  class Kept;
  class Unreported;
  /// The simulation may be made later, and has to end before this.
  explicit LateTasks(Simulation& simulation);
  LateTasks(const LateTasks&) = delete;
  LateTasks& operator=(const LateTasks&) = delete;

  /// For the callable of a task to keep: complains where that goes too early, or out of turn.
  [[nodiscard]] std::shared_ptr<Kept> keep(InFlight& device, std::shared_ptr<LateEnd> task);
  /// That task is issued.
  [[nodiscard]] std::shared_ptr<Unreported> begin(Kept& kept, sched::Completion completion);
  /// Somebody ends it, or another one in its place, at some time.
  void end_later(std::shared_ptr<Unreported> task);
  /// Ends one of those that are left to end_later(), if any.
  void end_one();
  /// Of a device that ends tasks as they return.
  void check_alone(const InFlight& device);
  /// Nothing is wrong from here on: the simulation ends.
  void end() noexcept { over_ = true; }
  [[nodiscard]] std::vector<Seen> seen() const;

 private:
  void end_it(Unreported& task);

  Simulation& simulation_;
  bool over_ = false;
  std::uint64_t begun_ = 0, beside_others_ = 0, dropped_ = 0, failed_ = 0;
  std::vector<std::shared_ptr<Unreported>> left_;
};

}  // namespace heddle::stress
