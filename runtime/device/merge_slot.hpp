// What a device remembers of its merge buffer. Any thread, which locks it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>

#include "heddle/device.hpp"
#include "heddle/event.hpp"
#include "heddle/routine.hpp"
#include "heddle/tensor.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/memory/loan.hpp"

namespace heddle::rt {

/// A tensor in a device's merge buffer, since its load was submitted.
struct Load {
  Tensor tensor;
  MergeMode mode;                          ///< as asked for, whether or not memory is shared
  std::optional<BufferView> borrowed;      ///< in place: using the load is using this
  std::shared_ptr<Loan> loan{};            ///< that, where writers see to it; null: the caller does
  std::byte* data = nullptr;               ///< where routines read it
  std::shared_ptr<const Memory> memory{};  ///< the slot's, that it was copied to; null: borrowed
  Event event{};                           ///< the end of the task that loads it
  std::optional<Event> before{};           ///< that of the load that it is a copy of
  bool filled = false;  ///< by that task, or asked for. For tasks of the device only
};

/// A device's merge buffer as it will be once all submitted tasks ended.
struct MergeSlot {
  std::mutex mutex;  // guards what follows; held while a task that changes or reads it is submitted
  std::shared_ptr<Load> load;         ///< null: empty; set by hold()
  std::shared_ptr<const Memory> own;  ///< grow-only; queued tasks keep what they use

  /// In the place of what it held, whose loan is over. That goes, unless others have it.
  void hold(std::shared_ptr<Load> next) noexcept;
  /// Its device takes no more tasks.
  void clear() noexcept;
};

}  // namespace heddle::rt
