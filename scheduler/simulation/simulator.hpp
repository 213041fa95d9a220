// Simulator: a runner on a single thread with turns in an order drawn from a seed, and the hooks
// that decide time, failing allocations and other faults. Devices and hosts are its actors. Turns,
// suspended tasks and hosts run on fibers, which may be left at every simulated point of the
// shipped code. Called on the simulation's thread, except run() and resume(): any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "heddle/simulation.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/runner.hpp"
#include "scheduler/modes/timers.hpp"
#include "scheduler/simulation/simulated_choice.hpp"
#include "scheduler/threads/fiber.hpp"

namespace heddle::sched {

class Simulator final : public Runner, public Hooks {
 public:
  using Clock = Event::Clock;

  explicit Simulator(SimulationOptions options);
  ~Simulator() override;

  void add_host(std::string name, std::function<void()> body);
  void signal_later(const ExternalTimeline& timeline, const Event& event);
  SimulationReport run();
  /// Pending waits return, and later waits end at once.
  void end() noexcept;
  void end_faults() noexcept { choice_.end_faults(); }
  void sleep_until(Clock::time_point time);
  void yield() noexcept;
  void fail(const std::string& why);

  // Runner.
  void run(DeviceCore& device) noexcept override;
  void look_later(DeviceCore& device) noexcept override;
  void resume(std::shared_ptr<Fiber> fiber) noexcept override;
  std::uint64_t call_at(Clock::time_point when, std::function<void()> callback) override;
  void uncall(Clock::time_point when, std::uint64_t call) noexcept override;
  std::optional<bool> run_until(const Event& event, Deadline deadline) noexcept override;

  // Hooks.
  [[nodiscard]] Clock::time_point now() const noexcept override { return now_; }
  [[nodiscard]] std::uint64_t producer() noexcept override;
  void point() noexcept override;
  void point_in_submit() noexcept override;
  [[nodiscard]] bool pass() noexcept override;
  void before_allocation() override;
  [[nodiscard]] bool queue_full() noexcept override;
  void before_open(const std::string& name) override;
  [[nodiscard]] Status begin_task(DeviceCore& device, std::uint64_t ticket,
                                  bool may_fail) noexcept override;
  void end_task(DeviceCore& device, std::uint64_t ticket) noexcept override;
  [[nodiscard]] std::uint64_t draw(std::uint64_t bound) noexcept override {
    return choice_.draw(bound);
  }
  [[nodiscard]] Waited wait(const Event& event, Deadline deadline) noexcept override;

 private:
  /// A device or a host.
  struct Actor {
    std::string name;
    std::uint64_t producer = 0;
    std::weak_ptr<DeviceCore> device{};
    std::uint64_t last_ticket = 0;  // the latest begun
    bool in_task = false;
    std::function<void()> body{};  // of a host, until the host has ended
    std::string waits_for{};       // of a host
  };
  static constexpr std::size_t nobody = ~std::size_t{0};
  /// A ready entry: a device in need of a turn, a fiber that was left, or a host to begin.
  struct Ready {
    std::shared_ptr<DeviceCore> device{};
    std::shared_ptr<Fiber> fiber{};
    std::size_t host = nobody;
  };
  struct Turn;
  struct Running {
    std::size_t actor = nobody;
    Fiber* fiber = nullptr;
    bool may_go_on = false;  // the actor left voluntarily, and is ready again
  };

  std::size_t add_actor(std::string name);
  [[nodiscard]] std::size_t actor_of(DeviceCore& device);
  [[nodiscard]] std::size_t actor_of(const Ready& ready);
  void push(Ready ready) noexcept;
  void push_now(Ready ready) noexcept;
  [[nodiscard]] bool take(Ready& ready);

  [[nodiscard]] bool over() const noexcept {
    // relaxed: pairs with the store in end(); other threads may call the function.
    return over_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool step();
  void go_on(Ready ready);
  static void turn_on_fiber(void* turn) noexcept;
  static void host_on_fiber(void* host) noexcept;

  [[nodiscard]] bool on_own_fiber() const noexcept;
  void leave(bool may_go_on) noexcept;
  [[nodiscard]] std::function<void()> waker();
  template <class Done>
  [[nodiscard]] Waited wait_for(const Done& done, Deadline deadline);
  [[nodiscard]] std::chrono::nanoseconds some_time() noexcept;
  [[nodiscard]] bool fault(SimulationFault kind) noexcept;
  void check_ends();
  void note(std::string_view what, std::size_t actor, std::uint64_t number) noexcept;

  const SimulationOptions options_;
  SimulatedChoice choice_;
  Clock::time_point now_;
  Timers timers_;
  std::vector<std::unique_ptr<Actor>> actors_;
  std::unordered_map<std::uint64_t, std::size_t> device_actors_;  // by timeline
  /// Every entered fiber that has not ended.
  std::unordered_map<const Fiber*, std::pair<std::size_t, std::shared_ptr<Fiber>>> fibers_;
  std::mutex mutex_;  // guards ready_
  std::vector<Ready> ready_;
  Running running_;

  std::vector<std::shared_ptr<DeviceCore>> lost_;  // turns, see SimulationOptions

  std::uint64_t steps_ = 0;
  std::uint64_t steps_max_;
  std::uint64_t hash_ = 0;
  std::atomic<bool> over_{false};
  Status failure_;
};

}  // namespace heddle::sched
