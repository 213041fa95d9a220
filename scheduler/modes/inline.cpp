// Devices whose tasks run on the submitting threads: the submitter gives the device its turn on a
// fiber. A waiting task leaves the fiber, and the submitter continues; the thread that ends the
// wait resumes the fiber.
#include "scheduler/device/device_core.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::sched {
namespace {

/// Postponed work of this thread, first to last, and whether the thread is already doing it.
/// Functions that touch the variable are not inlined: their callers may suspend, and continue on
/// another thread with the address of the first thread's variable.
struct PutOff {
  std::shared_ptr<DeviceCore> device;
  DeviceCore* last_device = nullptr;
  std::shared_ptr<Fiber> fiber;
  Fiber* last_fiber = nullptr;
  bool going_on = false;
  unsigned depth = 0;     // nested turns
  bool too_deep = false;  // a device was postponed only because of `depth`
};
[[gnu::tls_model("initial-exec")]] thread_local PutOff put_off;

struct Turn {
  DeviceCore* device;
  Fiber* fiber;
};

void take_turns(void* argument) noexcept {
  // the memory is gone when the fiber continues elsewhere
  const Turn turn = *static_cast<Turn*>(argument);
  const auto self = turn.device->shared_from_this();  // a task may drop the last handle
  while (self->take_turn(turn.fiber, tuning::turn_tasks_max)) {
  }
}

class InlineRunner final : public Runner {
 public:
  void run(DeviceCore& device) noexcept override {
    if (device.take_short_turn()) return;
    if (!enter()) {
      look_later(device);
      return device.summons().give_turn_back();
    }
    auto fiber = Fiber::take();
    Turn turn{&device, fiber.get()};
    if (fiber) {
      const bool ended = fiber->start(&take_turns, &turn);
      leave_fiber(std::move(fiber), ended);
    } else {
      take_turns(&turn);
    }
    leave();
  }

  /// An immediate turn would nest as deep as devices wait for each other, and would delay the
  /// remaining waiters of the event. The turn is therefore postponed until all of them are called.
  [[gnu::noinline]] void look_later(DeviceCore& device) noexcept override {
    if (!device.summons().put_off()) return;
    (put_off.last_device == nullptr ? put_off.device
                                    : put_off.last_device->summons().next_ready()) =
        device.shared_from_this();
    put_off.last_device = &device;
  }

  [[gnu::noinline]] void resume(std::shared_ptr<Fiber> fiber) noexcept override {
    Fiber* const last = fiber.get();
    (put_off.last_fiber == nullptr ? put_off.fiber : put_off.last_fiber->next) = std::move(fiber);
    put_off.last_fiber = last;
  }

  std::uint64_t call_at(Clock::time_point /*when*/, std::function<void()> /*call*/) override {
    return 0;
  }
  void uncall(Clock::time_point /*when*/, std::uint64_t /*call*/) noexcept override {}
  std::optional<bool> run_until(const Event& /*event*/, Deadline /*deadline*/) noexcept override {
    return std::nullopt;
  }

 private:
  /// A turn begins inside the current turns of this thread. false: too many are nested, since each
  /// task may submit the next.
  [[gnu::noinline]] static bool enter() noexcept {
    if (put_off.depth < tuning::nesting_max) return ++put_off.depth, true;
    put_off.too_deep = true;
    return false;
  }
  [[gnu::noinline]] static void leave() noexcept {
    --put_off.depth;
    if (put_off.too_deep) settle_put_off();
  }
};

}  // namespace

[[gnu::noinline]] void go_on_with_put_off() noexcept {
  const unsigned depth = std::exchange(put_off.depth, 0);
  put_off.too_deep = false;
  while (put_off.fiber || put_off.device) {
    if (put_off.fiber) {
      auto fiber = std::move(put_off.fiber);
      put_off.fiber = std::move(fiber->next);
      if (!put_off.fiber) put_off.last_fiber = nullptr;
      const bool ended = fiber->resume();
      leave_fiber(std::move(fiber), ended);
      continue;
    }
    const auto core = std::move(put_off.device);
    put_off.device = std::move(core->summons().next_ready());
    if (!put_off.device) put_off.last_device = nullptr;
    core->summons().put_on();
    core->look();
  }
  put_off.depth = depth;
}

std::shared_ptr<Runner> inline_runner() noexcept {
  // Never destroyed: devices may be used during exit.
  alignas(InlineRunner) static std::byte place[sizeof(InlineRunner)];
  static auto* const runner = ::new (static_cast<void*>(place)) InlineRunner;
  return {std::shared_ptr<Runner>(), runner};
}

void leave_fiber(std::shared_ptr<Fiber> fiber, bool ended) noexcept {
  while (!ended) {
    if (fiber->park()) return;
    ended = fiber->resume();
  }
  Fiber::give_back(std::move(fiber));
}

[[gnu::noinline]] void settle_put_off() noexcept {
  if (put_off.going_on || (!put_off.fiber && !put_off.device)) return;
  put_off.going_on = true;
  go_on_with_put_off();
  put_off.going_on = false;
}

}  // namespace heddle::sched
