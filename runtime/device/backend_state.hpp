// What is behind Backend: one open instance.
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
  /// Throws Error(invalid_argument) for options that no scheduler takes.
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
  /// All its tasks have ended: what was open till then is told.
  ~BackendState() {
    if (sched::Clocks::on()) sched::Clocks::tell_due();
  }

  /// A device that was opened.
  struct Opened {
    std::weak_ptr<Execution> execution;
    std::weak_ptr<sched::DeviceCore> timeline;
  };

  /// Of the device's memory space. Under the lock. Throws std::bad_alloc.
  [[nodiscard]] std::shared_ptr<dev::MemoryPool> pool_of(const dev::PhysicalDevice& device) {
    std::weak_ptr<dev::MemoryPool>& known = pools[device.properties().memory_space];
    auto pool = known.lock();
    if (!pool) known = pool = std::make_shared<dev::MemoryPool>();
    return pool;
  }

  BackendSpec spec;
  BackendOptions options;
  std::shared_ptr<const jit::Compiler> compiler;
  std::shared_ptr<jit::Codes> codes = std::make_shared<jit::Codes>();  ///< the compiler's
  std::shared_ptr<Tuned> tuned;  ///< choices for this compiler and machine
  std::vector<std::shared_ptr<dev::PhysicalDevice>> physical;
  int width = 1;  ///< Backend::width(); 1: kernels run whole
  /// With parts of kernels, of `physical` each; empty: those of the scheduler.
  std::vector<std::shared_ptr<sched::Helpers>> helpers;
  std::shared_ptr<Teams> teams;  ///< these are theirs; null: nobody's
  Modules modules;               ///< loaded by `physical`
  Scheduler scheduler;           ///< has its devices; the host's own one may have others
  Scheduler compiles;  ///< a device for each compile that goes on meanwhile, on few threads
  const std::shared_ptr<OrderWatch> order;
  /// A child that was forked since has none of its threads, and may find its locks taken for ever.
  [[nodiscard]] bool in_forked_child() const noexcept {
    return fork_generation != sched::fork_generation();
  }
  /// ok, or unavailable.
  [[nodiscard]] Status fork_status() const noexcept;

  const std::uint32_t fork_generation = sched::fork_generation();
  std::mutex mutex;
  std::vector<int> opened;      // virtual devices per physical one, ever; guarded by mutex
  std::vector<Opened> devices;  // those that have not gone; guarded by mutex
  /// Memory that is kept, by memory space, while a device of it is open; guarded by mutex.
  std::map<std::uint64_t, std::weak_ptr<dev::MemoryPool>> pools;
  std::atomic<bool> finalized{false};
};

}  // namespace heddle::rt
