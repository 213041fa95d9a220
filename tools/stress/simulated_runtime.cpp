// See simulated_runtime.hpp.
#include "tools/stress/simulated_runtime.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/stress/played_device.hpp"
#include "tools/stress/runtime_hosts.hpp"

namespace heddle::stress {
namespace {

/// Hosts of a simulation switch at waits. The devices are played.
class SimulatedStage final : public Stage {
 public:
  explicit SimulatedStage(Simulation& simulation) : simulation_(simulation), hardware_(simulation) {
    [[maybe_unused]] static const bool registered = [] {
      register_backend(
          {"played", "null", sched::Mode::threaded, [] { return current()->make_devices(); }});
      return true;
    }();
    current() = this;
  }

  [[nodiscard]] PlayedHardware& hardware() noexcept { return hardware_; }
  [[nodiscard]] const std::string& backend() const noexcept override { return backend_; }
  [[nodiscard]] Scheduler& scheduler() noexcept override { return simulation_.scheduler(); }
  [[nodiscard]] const RuntimePrograms& programs() const noexcept override {
    return runtime_programs();
  }
  [[nodiscard]] std::uint64_t draw(std::uint64_t bound) override {
    return simulation_.random(bound);
  }
  void sleep_for(std::chrono::nanoseconds time) override { simulation_.sleep_for(time); }
  void fail(std::string why) override { simulation_.fail(std::move(why)); }
  [[nodiscard]] bool has_threads() const noexcept override { return false; }
  void hold() override {}
  void let_go() noexcept override {}

  /// Two kernel steps, and the host's step between them.
  Status step_between() {
    if (hardware_.fails()) return Status(ErrorCode::device_failed, "planted by the host");
    if (draw(4) == 0) simulation_.yield();
    return {};
  }

 private:
  /// Draws the devices of each opened backend.
  static SimulatedStage*& current() {
    static thread_local SimulatedStage* stage = nullptr;
    return stage;
  }
  /// Used by the backend being opened.
  [[nodiscard]] std::vector<std::shared_ptr<dev::PhysicalDevice>> make_devices() {
    const bool peers = draw(2) == 0;
    const bool all_run_ahead = draw(3) == 0, in_parts = draw(3) == 0;
    std::vector<PlayedKind> kinds(1 + draw(2));
    for (PlayedKind& kind : kinds) {
      kind.own_memory = draw(2) == 0;
      kind.in_parts = in_parts;
      kind.runs_ahead = !in_parts && (all_run_ahead || draw(2) == 0);
      kind.is_peer = peers;
    }
    return hardware_.make(kinds);
  }

  Simulation& simulation_;
  PlayedHardware hardware_;
  const std::string backend_ = "played";
};

void run_hosts(Simulation& simulation, SimulatedStage& stage, World& world, RuntimeHosts& hosts) {
  hosts.begin(2 + simulation.random(3));
  const std::uint64_t count = 1 + simulation.random(3);
  for (std::uint64_t k = 0; k < count; ++k) {
    const std::uint64_t actions = 5 + simulation.random(simulation.random(4) == 0 ? 60 : 20);
    simulation.host(fmt::format("host{}", k), [&hosts, actions] {
      for (int links = 0; links < 3; ++links) hosts.link();
      for (std::uint64_t left = actions; left > 0; --left) hosts.act();
    });
  }
  if (!simulation.run().status.ok()) return;
  stage.hardware().calm();
  simulation.host("reader", [&hosts] { hosts.read_all(); });
  if (!simulation.run().status.ok()) return;
  if (const std::string broken = world.check(); !broken.empty()) return simulation.fail(broken);
  hosts.end();
  world.close();
  if (stage.hardware().blocks() != 0) simulation.fail("memory was not given back");
}

}  // namespace

SimulationOptions runtime_options(std::uint64_t seed) {
  SimulationOptions options = graph_options(seed);
  options.width = static_cast<unsigned>(1 + seed % 5);
  options.faults[static_cast<std::size_t>(SimulationFault::task_throws)] = false;
  return options;
}

GraphReport simulate_runtime(SimulationOptions options, Planted planted) {
  static_cast<void>(runtime_programs());
  const auto tell = options.on_step;
  std::optional<Simulation> simulation(std::move(options));
  SimulatedStage stage(*simulation);
  World world(stage, tell, planted);
  set_host_step([&stage] { return stage.step_between(); });
  RuntimeHosts hosts(world);
  run_hosts(*simulation, stage, world, hosts);
  const PlayedHardware& hardware = stage.hardware();
  GraphReport report{simulation->run(), {}};
  report.seen = {{"works accepted", world.accepted},
                 {"refused", world.refused},
                 {"operations of devices", hardware.operations()},
                 {"parts of kernels", hardware.parts()},
                 {"failures of devices", hardware.failures()},
                 {"waits of queues", hardware.waits()},
                 {"waits across devices", hardware.waits_across()},
                 {"values compared", world.model().compared()},
                 {"runs whose order is checked", world.checked() ? 1U : 0U},
                 {"donations", hosts.donated},
                 {"merges", hosts.merged},
                 {"replays", hosts.replayed},
                 {"tensors shared", hosts.shared},
                 {"things finalised", hosts.finalized}};
  stage.hardware().end();
  simulation.reset();  // hanging hosts run once more: destroy before the state that they use
  set_host_step({});
  return report;
}

}  // namespace heddle::stress
