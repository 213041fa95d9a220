// The execution part of a device, used by the device's tasks. Separate from the owner of the
// timeline, so a task never holds its own device. Any thread, except for the queue.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "devices/device.hpp"
#include "devices/memory_cache.hpp"
#include "heddle/device.hpp"
#include "runtime/device/merge_slot.hpp"
#include "runtime/device/scratch.hpp"
#include "runtime/device/spares.hpp"
#include "runtime/memory/ledger.hpp"
#include "runtime/queue/staging.hpp"
#include "runtime/queue/stream.hpp"

namespace heddle::sched {
class Helpers;
}

namespace heddle::rt {

class OrderWatch;

/// State used by a device's tasks. The queue: only by the device's tasks, one at a time.
struct Execution {
  std::string name;
  std::shared_ptr<const std::string> shared_name;
  std::shared_ptr<dev::PhysicalDevice> physical;
  std::shared_ptr<Stream> queue;
  Staging staging;
  std::shared_ptr<dev::MemoryCache> memory;  ///< set when the timeline is open
  Sync sync = Sync::automatic;               ///< constant
  std::shared_ptr<OrderWatch> order;         ///< the backend's
  const std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  MergeSlot merge;
  Scratch scratch;
  Spares spares;
  std::shared_ptr<sched::Helpers> helpers;  ///< run parts of kernels; null: kernels run whole
  bool starts_helpers = false;              ///< the first kernel with parts starts the helpers
  std::uint32_t width = 1;                  ///< maximum number of parts in progress at once
  std::atomic<std::uint64_t> launches{0}, copies{0}, merges_copied{0}, merges_streamed{0}, parts{0};

  /// For the device's tasks, one at a time.
  void count_launches(std::uint64_t more) noexcept {
    // relaxed, twice: as in count().
    launches.store(launches.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  static void count(std::atomic<std::uint64_t>& counter, std::uint64_t more = 1) noexcept {
    // relaxed: a statistic; pairs with the loads in Device::statistics().
    counter.fetch_add(more, std::memory_order_relaxed);
  }
};

}  // namespace heddle::rt
