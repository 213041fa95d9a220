// Ready: an entry that a pool can run, and the link by which the entry waits for a worker.
#pragma once

#include <memory>

namespace heddle::sched {

class DeviceCore;
class Fiber;
class HelperPlace;

/// Exactly one member is set: a device in need of a turn, a fiber whose task may continue, or a
/// place of a team in need of a visitor.
struct Ready {
  std::shared_ptr<DeviceCore> device{};
  std::shared_ptr<Fiber> fiber{};
  std::shared_ptr<HelperPlace> place{};
};

/// A member of each device, fiber and place. Each is ready at most once at a time; the link belongs
/// to the thread that made the entry ready, then to the thread that takes the entry. Keeps its
/// owner alive while waiting.
struct ReadyLink {
  Ready self{};
  ReadyLink* next = nullptr;
};

}  // namespace heddle::sched
