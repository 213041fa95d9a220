// The hooks of the calling thread.
#include "scheduler/device/hooks.hpp"

namespace heddle::sched {
namespace {
[[gnu::tls_model("initial-exec")]] thread_local constinit Hooks* current = nullptr;
}  // namespace

// Not inlined: see current_task().
[[gnu::noinline]] Hooks* hooks() noexcept { return current; }
[[gnu::noinline]] void set_hooks(Hooks* hooks) noexcept { current = hooks; }

Event::Clock::time_point now() noexcept {
  const Hooks* const simulation = hooks();
  return simulation != nullptr ? simulation->now() : Event::Clock::now();
}

void simulated_point() noexcept {
  if (Hooks* const simulation = hooks(); simulation != nullptr) simulation->point();
}

void before_allocation() {
  if (Hooks* const simulation = hooks(); simulation != nullptr) simulation->before_allocation();
}

}  // namespace heddle::sched
