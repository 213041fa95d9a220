// Fiber: a stack of its own, on which a function runs that may be left in the middle and gone on
// with later, on whatever thread (S16). One thread at a time is in it; park() and unpark() hand it
// from the thread that left it to the one that goes on (protocol/parking.hpp). On Boost.Context.
#pragma once

#include <cstddef>
#include <memory>

#include "scheduler/protocol/parking.hpp"
#include "scheduler/threads/ready.hpp"

namespace heddle::sched {

class Fiber : public std::enable_shared_from_this<Fiber> {
 public:
  using Body = void (*)(void* argument);

  /// One that no function runs on: from this thread's cache, else a new one. Null without memory.
  /// Its stack is as large as that of a thread, so that tasks have the same room in all modes.
  [[nodiscard]] static std::shared_ptr<Fiber> take() noexcept;
  /// Keeps a fiber whose function has ended for this thread's next take().
  static void give_back(std::shared_ptr<Fiber> fiber) noexcept;

  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs body(argument) on this fiber until it ends (true) or suspends (false).
  [[nodiscard]] bool start(Body body, void* argument) noexcept;
  /// Goes on where it suspended; as start().
  [[nodiscard]] bool resume() noexcept;
  /// Inside the fiber: back to the thread that started or resumed it. Returns in the thread that
  /// resumes it.
  void suspend() noexcept;
  /// How often it was suspended. Inside the fiber.
  [[nodiscard]] unsigned suspensions() const noexcept { return suspensions_; }

  /// After it was left: true when it is now the waker's to resume, false when the waker came first
  /// and the caller has to.
  [[nodiscard]] bool park() noexcept { return parking_.park(); }
  /// Any thread, any number of times, also late: true when the caller has to resume it.
  [[nodiscard]] bool unpark() noexcept { return parking_.unpark(); }

  /// At rest: a token that a late waker left is forgotten.
  void forget_token() noexcept { parking_.forget_token(); }

  /// Links fibers that wait to be resumed on one thread; belongs to the thread that got true from
  /// unpark().
  std::shared_ptr<Fiber> next;
  /// The same in a pool.
  ReadyLink ready_link;

 private:
  struct Machine;  // contexts, and what sanitizers want to know of them
  explicit Fiber(std::unique_ptr<Machine> machine) noexcept;
  bool enter() noexcept;

  const std::unique_ptr<Machine> machine_;
  unsigned suspensions_ = 0;
  Parking<> parking_;
};

}  // namespace heddle::sched
