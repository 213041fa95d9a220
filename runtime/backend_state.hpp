// What is behind Backend: one open instance.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "heddle/backend.hpp"
#include "jit/code/code.hpp"
#include "runtime/device_state.hpp"
#include "runtime/modules.hpp"

namespace heddle::rt {

struct BackendState {
  /// Throws Error(invalid_argument) for options that no scheduler takes.
  explicit BackendState(SchedulerOptions scheduling) : scheduler(std::move(scheduling)) {}

  BackendSpec spec;
  BackendOptions options;
  std::shared_ptr<const jit::Compiler> compiler;
  std::shared_ptr<jit::Codes> codes = std::make_shared<jit::Codes>();  ///< of the compiler
  std::vector<std::shared_ptr<dev::PhysicalDevice>> physical;
  Modules modules;  ///< of `physical`
  Scheduler scheduler;
  Scheduler compiles;  ///< a device for each compile that goes on meanwhile, on few threads
  std::mutex mutex;
  std::vector<int> opened;  // virtual devices per physical one, ever; guarded by mutex
  std::vector<std::weak_ptr<Execution>> executions;  // of its devices; guarded by mutex
  std::atomic<bool> finalized{false};
};

}  // namespace heddle::rt
