// See simulated_runtime.hpp.
#include "tools/stress/simulated_runtime.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "tools/stress/runtime_hosts.hpp"

namespace heddle::stress {
namespace {

/// Two of the kernel's steps, and the host's between them.
Status step_between(World& world) {
  if (world.hardware().fails()) return Status(ErrorCode::device_failed, "planted by the host");
  if (world.draw(4) == 0) world.simulation().yield();
  return {};
}

void run_hosts(Simulation& simulation, World& world, RuntimeHosts& hosts) {
  hosts.begin();
  const std::uint64_t count = 1 + simulation.random(3);
  for (std::uint64_t k = 0; k < count; ++k) {
    const std::uint64_t actions = 5 + simulation.random(simulation.random(4) == 0 ? 60 : 20);
    simulation.host(fmt::format("host{}", k), [&hosts, actions] {
      for (int links = 0; links < 3; ++links) hosts.link();
      for (std::uint64_t left = actions; left > 0; --left) hosts.act();
    });
  }
  if (!simulation.run().status.ok()) return;
  world.hardware().calm();
  simulation.host("reader", [&hosts] { hosts.read_all(); });
  if (!simulation.run().status.ok()) return;
  if (const std::string broken = world.model().check(); !broken.empty())
    return simulation.fail(broken);
  hosts.end();
  world.close();
  if (world.hardware().blocks() != 0) simulation.fail("memory was not given back");
}

}  // namespace

SimulationOptions runtime_options(std::uint64_t seed) {
  SimulationOptions options = graph_options(seed);
  options.faults[static_cast<std::size_t>(SimulationFault::task_throws)] = false;
  return options;
}

GraphReport simulate_runtime(SimulationOptions options) {
  static_cast<void>(runtime_programs());
  const auto tell = options.on_step;
  std::optional<Simulation> simulation(std::move(options));
  World world(*simulation, tell);
  set_host_step([&world] { return step_between(world); });
  RuntimeHosts hosts(world);
  run_hosts(*simulation, world, hosts);
  GraphReport report{simulation->run(), {}};
  report.seen = {{"works accepted", world.accepted},
                 {"refused", world.refused},
                 {"operations of devices", world.hardware().operations()},
                 {"failures of devices", world.hardware().failures()},
                 {"waits of queues", world.hardware().waits()},
                 {"waits across devices", world.hardware().waits_across()},
                 {"values compared", world.model().compared()},
                 {"donations", hosts.donated},
                 {"merges", hosts.merged},
                 {"replays", hosts.replayed},
                 {"things finalised", hosts.finalized}};
  world.hardware().end();
  simulation.reset();  // hosts that hang go on once more: what they use goes after
  set_host_step({});
  return report;
}

}  // namespace heddle::stress
