// A device for tests whose queues run ahead. The device's threads run each operation after a
// random, seeded delay, and run operations of two queues at the same time. Queues wait for marks of
// other queues. One thread, and only that thread, reports completions. The device can hold every
// operation back, fail an operation as the operation is issued or as it ends, refuse a mark, and be
// lost. Any thread.
//
// A runtime that treats an operation as complete on return fails 81 of the 101 conformance tests on
// this device, 66 of them by a crash: 17 where zeros alone run ahead, 55 where copies do, 60 where
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
  std::chrono::microseconds delay_max{100};  ///< greatest delay of an operation
  bool in_host_memory = false;               ///< false: in a separate memory space
  bool is_peer = false;                      ///< its queues reach memory of other peers
};

class AsynchronousDevice final : public dev::PhysicalDevice {
 public:
  /// `of_domain`: the new device joins that device's domain: queues of both wait for each other,
  /// one thread reports completions, and the delays are that device's. Null: a new domain.
  explicit AsynchronousDevice(AsynchronousOptions options = {},
                              const AsynchronousDevice* of_domain = nullptr);
  ~AsynchronousDevice() override;
  AsynchronousDevice(const AsynchronousDevice&) = delete;
  AsynchronousDevice& operator=(const AsynchronousDevice&) = delete;

  // Controls for tests, of the device or of its whole domain.

  /// No operation begins after this call, until resume().
  void hold();
  void resume();
  /// While the device is held: operations of the queue with the latest request begin anyway.
  void resume_last();
  /// Refuses an operation when it is issued: the next operation, or the one after `after` more.
  void fail_issue(std::size_t after = 0);
  /// Refuses a mark, the next mark or the one after `after` more, and drops every entry of the
  /// mark's queue.
  void fail_record(std::size_t after = 0);
  /// Makes a running operation fail: the next operation, or the one after `after` more.
  void fail_next_end(std::size_t after = 0);
  /// Fails every operation that has not run, and every operation requested later.
  void lose();
  /// Operations that were requested and have not run.
  [[nodiscard]] std::size_t pending() const;
  /// Queues no longer wait for other queues after this call.
  void refuse_waits();
  /// Number of requests so far to wait for marks.
  [[nodiscard]] std::size_t waits() const;

  const dev::Properties& properties() const noexcept override { return properties_; }
  /// The memory does not start as zeros.
  Status allocate(std::size_t bytes, void** data) noexcept override;
  void release(void* data, std::size_t bytes) noexcept override;
  Status new_queue(dev::Completions& completions,
                   std::unique_ptr<dev::Queue>* queue) noexcept override;
  [[nodiscard]] bool is_peer_of(const PhysicalDevice& other) const noexcept override;

  class Engine;  // owns the threads

 private:
  struct Domain;

  dev::Properties properties_;
  const bool is_peer_;
  const std::shared_ptr<Domain> domain_;
  const std::shared_ptr<Engine> engine_;
};

/// Registers a backend that compiles with cc, on two such devices of one domain, created anew at
/// each opening.
void register_asynchronous(const std::string& name, AsynchronousOptions options = {},
                           sched::Mode mode = sched::Mode::threaded);

}  // namespace heddle
