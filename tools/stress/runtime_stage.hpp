// Where hosts of random work for the tensor runtime act: in a simulation, one at a time, or on
// threads of their own.
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

  /// The name of the backend that its devices are of.
  [[nodiscard]] virtual const std::string& backend() const noexcept = 0;
  /// Has all devices.
  [[nodiscard]] virtual Scheduler& scheduler() noexcept = 0;
  [[nodiscard]] virtual const RuntimePrograms& programs() const noexcept = 0;
  /// A number below `bound`, drawn from the seed.
  [[nodiscard]] virtual std::uint64_t draw(std::uint64_t bound) = 0;
  virtual void sleep_for(std::chrono::nanoseconds time) = 0;
  /// Something is wrong.
  virtual void fail(std::string why) = 0;
  /// Whether others come in at any moment, rather than where one waits.
  [[nodiscard]] virtual bool has_threads() const noexcept = 0;

  // A host holds the stage while it looks at what it shares with others, and while the runtime
  // works for it lets go.
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

/// What `call` returns: the stage is not held meanwhile.
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
