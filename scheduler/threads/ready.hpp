// Ready: what a pool can go on with, and the link by which it waits for a worker.
#pragma once

#include <memory>

namespace heddle::sched {

class DeviceCore;
class Fiber;
class HelperPlace;

/// One of these: a device that wants a turn, a fiber whose task may go on, a place of a team that
/// wants a visitor.
struct Ready {
  std::shared_ptr<DeviceCore> device{};
  std::shared_ptr<Fiber> fiber{};
  std::shared_ptr<HelperPlace> place{};
};

/// In each device, fiber and place, which are ready at most once at a time; belongs to the thread
/// that made it so, and then to the taker. Holds what it is in while that waits.
struct ReadyLink {
  Ready self{};
  ReadyLink* next = nullptr;
};

}  // namespace heddle::sched
