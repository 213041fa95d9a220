// The environment in which hosts of a random run of the tensor runtime act: a simulation with one
// active host at a time, or threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "heddle/scheduler.hpp"
#include "tools/stress/runtime_programs.hpp"

namespace heddle::stress {

class Stage {
 public:
  Stage() = default;
  virtual ~Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// The name of the backend of the run's devices.
  [[nodiscard]] virtual const std::string& backend() const noexcept = 0;
  /// The scheduler of all devices.
  [[nodiscard]] virtual Scheduler& scheduler() noexcept = 0;
  [[nodiscard]] virtual const RuntimePrograms& programs() const noexcept = 0;
  /// A number below `bound`, drawn from the seed.
  [[nodiscard]] virtual std::uint64_t draw(std::uint64_t bound) = 0;
  virtual void sleep_for(std::chrono::nanoseconds time) = 0;
  /// Reports an error.
  virtual void fail(std::string why) = 0;
  /// Whether hosts may interleave at any moment, instead of at waits only.
  [[nodiscard]] virtual bool has_threads() const noexcept = 0;

  // A host holds the stage while it accesses shared state, and releases the stage while the runtime
  // works for the host.
  virtual void hold() = 0;
  virtual void let_go() noexcept = 0;
};

class Held {
 public:
  explicit Held(Stage& stage) : stage_(stage) { stage_.hold(); }
  ~Held() { stage_.let_go(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  Stage& stage_;
};

/// Returns the result of `call`; the stage is released during the call.
template <class Call>
decltype(auto) meanwhile(Stage& stage, const Call& call) {
  struct Again {
    explicit Again(Stage& given) : stage(given) { stage.let_go(); }
    ~Again() { stage.hold(); }
    Again(const Again&) = delete;
    Again& operator=(const Again&) = delete;
    Stage& stage;
  } again(stage);
  return call();
}

}  // namespace heddle::stress
