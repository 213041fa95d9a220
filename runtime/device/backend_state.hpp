// The state behind Backend: one open backend. Any thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "devices/memory_pool.hpp"
#include "heddle/backend.hpp"
#include "jit/code/code.hpp"
#include "runtime/device/compiling.hpp"
#include "runtime/device/modules.hpp"
#include "runtime/device/teams.hpp"
#include "runtime/memory/order_watch.hpp"
#include "scheduler/device/device_core.hpp"
#include "scheduler/threads/fork.hpp"

namespace heddle::rt {

struct Execution;
class Tuned;

struct BackendState {
  /// Throws Error(invalid_argument) for options that the scheduler refuses.
  BackendState(BackendSpec row, BackendOptions wanted)
      : spec(std::move(row)),
        options(std::move(wanted)),
        scheduler(options.scheduler ? *options.scheduler : Scheduler(options.scheduling)),
        compiles(compile_scheduling(scheduler)),
        order(std::make_shared<OrderWatch>(options.on_missing_order)) {
    if (options.sync == Sync::check) order->begin();
  }
  BackendState(const BackendState&) = delete;
  BackendState& operator=(const BackendState&) = delete;
  /// Every task has ended: reports the missing orders that were open until now.
  ~BackendState() {
    if (sched::Clocks::on()) sched::Clocks::tell_due();
  }

  /// An opened device.
  struct Opened {
    std::weak_ptr<Execution> execution;
    std::weak_ptr<sched::DeviceCore> timeline;
  };

  /// The pool of the device's memory space. Under the lock. Throws std::bad_alloc.
  [[nodiscard]] std::shared_ptr<dev::MemoryPool> pool_of(const dev::PhysicalDevice& device) {
    std::weak_ptr<dev::MemoryPool>& known = pools[device.properties().memory_space];
    auto pool = known.lock();
    if (!pool) known = pool = std::make_shared<dev::MemoryPool>();
    return pool;
  }

  BackendSpec spec;
  BackendOptions options;
  std::shared_ptr<const jit::Compiler> compiler;
  /// compiled codes of `compiler`
  std::shared_ptr<jit::Codes> codes = std::make_shared<jit::Codes>();
  std::shared_ptr<Tuned> tuned;  ///< tuned choices for this compiler and machine
  std::vector<std::shared_ptr<dev::PhysicalDevice>> physical;
  int width = 1;  ///< Backend::width(); 1: kernels run whole
  /// Helpers for parts of kernels, per device of `physical`; empty: the scheduler's helpers.
  std::vector<std::shared_ptr<sched::Helpers>> helpers;
  std::shared_ptr<Teams> teams;  ///< owner of `helpers`; null: no teams
  Modules modules;               ///< modules loaded by `physical`
  /// scheduler of the devices; a scheduler of the host may have further devices
  Scheduler scheduler;
  Scheduler compiles;  ///< scheduler of compiles: a device per asynchronous compile, on few threads
  const std::shared_ptr<OrderWatch> order;
  /// True in a child forked after the opening: the child lacks the backend's threads, and locks may
  /// be held for ever.
  [[nodiscard]] bool in_forked_child() const noexcept {
    return fork_generation != sched::fork_generation();
  }
  /// ok, or unavailable in a forked child.
  [[nodiscard]] Status fork_status() const noexcept;

  const std::uint32_t fork_generation = sched::fork_generation();
  std::mutex mutex;
  // number of virtual devices opened so far, per physical device; guarded by mutex
  std::vector<int> opened;
  std::vector<Opened> devices;  // devices still alive; guarded by mutex
  /// Pools by memory space, alive while a device of the space is open; guarded by mutex.
  std::map<std::uint64_t, std::weak_ptr<dev::MemoryPool>> pools;
  std::atomic<bool> finalized{false};
};

}  // namespace heddle::rt
