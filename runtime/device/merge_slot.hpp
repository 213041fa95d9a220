// State of a device's merge buffer. Any thread, with the mutex locked.
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

/// A tensor in a device's merge buffer, from the submission of its load.
struct Load {
  Tensor tensor;
  MergeMode mode;  ///< as requested, even if memory is not shared
  /// read in place from this view; using the load uses the view
  std::optional<BufferView> borrowed;
  /// loan of `borrowed`, for writers to respect; null: the caller orders writers
  std::shared_ptr<Loan> loan{};
  std::byte* data = nullptr;  ///< address read by routines
  /// the slot's memory that holds the copy; null: borrowed
  std::shared_ptr<const Memory> memory{};
  Event event{};                  ///< end of the loading task
  std::optional<Event> before{};  ///< for a copy of a load: end of the original load
  /// the loading task has copied, or issued the copy. Only for tasks of the device
  bool filled = false;
};

/// The state of the merge buffer after every submitted task has ended.
struct MergeSlot {
  // guards the members below; held while a task that changes or reads them is submitted
  std::mutex mutex;
  std::shared_ptr<Load> load;         ///< null: empty; set by hold()
  std::shared_ptr<const Memory> own;  ///< only grows; queued tasks hold a reference

  /// Replaces the load by `next`, and ends the loan of the former load.
  void hold(std::shared_ptr<Load> next) noexcept;
  /// Empties the slot. For a device that takes no more tasks.
  void clear() noexcept;
};

}  // namespace heddle::rt
