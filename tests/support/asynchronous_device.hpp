// A device for tests whose queues run ahead: each operation is done by threads of the device, after
// a random, seeded delay, those of two queues at once; queues wait for each other's marks; what
// ended is told by one thread of its own, and by that alone. It can hold all operations back, fail
// one as it is issued or as it ends, refuse a mark, and be lost. Any thread.
//
// A runtime that takes an operation for done when it returns fails 81 of the 101 conformance tests
// on it, 66 of them by a crash: 17 where zeros alone run ahead, 55 where copies do, 60 where
// launches do (2026-11-23).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "devices/device.hpp"
#include "heddle/scheduler.hpp"

namespace heddle {

struct AsynchronousOptions {
  std::uint64_t seed = 1;
  std::chrono::microseconds delay_max{100};  ///< that an operation is late
  bool in_host_memory = false;               ///< else in a memory space of its own
  bool is_peer = false;                      ///< its queues reach memory of other such devices
};

class AsynchronousDevice final : public dev::PhysicalDevice {
 public:
  /// `of_domain`: its queues and those of that device wait for each other, and tell what ended by
  /// one thread, with the delays of that; null: a domain of its own.
  explicit AsynchronousDevice(AsynchronousOptions options = {},
                              const AsynchronousDevice* of_domain = nullptr);
  ~AsynchronousDevice() override;
  AsynchronousDevice(const AsynchronousDevice&) = delete;
  AsynchronousDevice& operator=(const AsynchronousDevice&) = delete;

  // What tests do with it, or with all of its domain.

  /// No operation begins from here on, until resume().
  void hold();
  void resume();
  /// While it is held: those of the queue that was the last to be asked for one begin all the same.
  void resume_last();
  /// An operation is refused when it is asked for: the next one, or after so many others.
  void fail_issue(std::size_t after = 0);
  /// A mark is refused, the next one or after so many others, and all that was asked of its queue
  /// goes.
  void fail_record(std::size_t after = 0);
  /// An operation that runs fails instead: the next one, or after so many others.
  void fail_next_end(std::size_t after = 0);
  /// All that has not run fails, and all that is asked for from here on.
  void lose();
  /// Operations that were asked for and have not run.
  [[nodiscard]] std::size_t pending() const;
  /// No queue waits for another from here on.
  void refuse_waits();
  /// Waits for marks that were asked for so far.
  [[nodiscard]] std::size_t waits() const;

  const dev::Properties& properties() const noexcept override { return properties_; }
  /// What the memory holds is no zeros.
  Status allocate(std::size_t bytes, void** data) noexcept override;
  void release(void* data, std::size_t bytes) noexcept override;
  Status new_queue(dev::Completions& completions,
                   std::unique_ptr<dev::Queue>* queue) noexcept override;
  [[nodiscard]] bool is_peer_of(const PhysicalDevice& other) const noexcept override;

  class Engine;  // its threads

 private:
  struct Domain;

  dev::Properties properties_;
  const bool is_peer_;
  const std::shared_ptr<Domain> domain_;
  const std::shared_ptr<Engine> engine_;
};

/// Registers a backend that compiles with cc, on two such devices of one domain, new each time it
/// is opened.
void register_asynchronous(const std::string& name, AsynchronousOptions options = {},
                           sched::Mode mode = sched::Mode::threaded);

}  // namespace heddle
