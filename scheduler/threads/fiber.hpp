// Fiber: a stack for a function that may be suspended and later resumed on any thread (S16). One
// thread at a time is in the fiber; park() and unpark() hand the fiber from the leaving thread to
// the resuming thread (protocol/parking.hpp). On Boost.Context.
#pragma once

#include <cstddef>
#include <memory>

#include "scheduler/protocol/parking.hpp"
#include "scheduler/threads/ready.hpp"

namespace heddle::sched {

class Fiber : public std::enable_shared_from_this<Fiber> {
 public:
  using Body = void (*)(void* argument);

  /// An idle fiber: from this thread's cache, or a new fiber. Null without memory. The stack is as
  /// large as a thread's stack, which gives tasks the same room in all modes.
  [[nodiscard]] static std::shared_ptr<Fiber> take() noexcept;
  /// Keeps a fiber whose function has ended for this thread's next take().
  static void give_back(std::shared_ptr<Fiber> fiber) noexcept;

  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs body(argument) on this fiber until it ends (true) or suspends (false).
  [[nodiscard]] bool start(Body body, void* argument) noexcept;
  /// Continues after the suspension; returns as start() does.
  [[nodiscard]] bool resume() noexcept;
  /// Called inside the fiber: returns to the thread that called start() or resume(). The call
  /// itself returns on the thread that resumes the fiber.
  void suspend() noexcept;
  /// The number of suspensions. Called inside the fiber.
  [[nodiscard]] unsigned suspensions() const noexcept { return suspensions_; }

  /// Called after the fiber was left. true: the waker will resume the fiber; false: the waker came
  /// first, and the caller must resume it.
  [[nodiscard]] bool park() noexcept { return parking_.park(); }
  /// Any thread, any number of times, also late. true: the caller must resume the fiber.
  [[nodiscard]] bool unpark() noexcept { return parking_.unpark(); }

  /// For an idle fiber: drops the token of a late waker.
  void forget_token() noexcept { parking_.forget_token(); }

  /// Links fibers to be resumed on one thread; owned by the thread whose unpark() returned true.
  std::shared_ptr<Fiber> next;
  /// The link in a pool.
  ReadyLink ready_link;

 private:
  struct Machine;  // contexts, and data for sanitizers
  explicit Fiber(std::unique_ptr<Machine> machine) noexcept;
  bool enter() noexcept;

  const std::unique_ptr<Machine> machine_;
  unsigned suspensions_ = 0;
  Parking<> parking_;
};

}  // namespace heddle::sched
