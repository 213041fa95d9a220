// A user's task graph in a simulation: one seed decides the interleaving and the faults. Two hosts
// withdraw from one account, each by its own device, and check the balance before the withdrawal.
#include <heddle/simulation.hpp>

#include <cstdio>

/// The balance after two withdrawals of 60 from 100; one withdrawal should be refused.
heddle::SimulationReport withdraw_twice(std::uint64_t seed, bool in_order) {
  heddle::Simulation simulation({.seed = seed, .faults = {}});  // interleavings alone
  heddle::Scheduler& scheduler = simulation.scheduler();
  int balance = 100;
  const auto teller = scheduler.new_device("teller"), machine = scheduler.new_device("machine");
  for (const auto& device : {teller, in_order ? teller : machine}) {
    simulation.host("customer at " + device.name(), [&simulation, &balance, device] {
      device.submit("withdraw", [&simulation, &balance] {
        const int seen = balance;
        simulation.yield();  // the other host may run here
        if (seen >= 60) balance -= 60;
      });
    });
  }
  static_cast<void>(simulation.run());  // until all tasks have ended
  if (balance < 0) simulation.fail("the account is overdrawn");
  return simulation.run();
}

int main() {
  std::uint64_t seed = 1;
  while (seed < 1000 && withdraw_twice(seed, false).status.ok()) ++seed;
  const heddle::SimulationReport found = withdraw_twice(seed, false);
  std::printf("two devices: %s\n", found.status.ok() ? "fine" : "overdrawn");
  std::printf("again from its seed, all the same: %s\n",
              withdraw_twice(seed, false).hash == found.hash ? "yes" : "no");

  int overdrawn = 0;
  for (seed = 1; seed <= 1000; ++seed) overdrawn += withdraw_twice(seed, true).status.ok() ? 0 : 1;
  std::printf("one device, in order: overdrawn in %d of 1000 seeds\n", overdrawn);
}
