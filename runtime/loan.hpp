// Loans: what a merge buffer reads in place, in memory that others may write. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "runtime/hazards.hpp"

namespace heddle::rt {

struct DeviceState;

/// Bytes of a buffer that the merge buffer of a device borrows: before they are written it is to
/// have a copy.
struct Loan {
  Loan(std::weak_ptr<const DeviceState> device, Range bytes)
      : borrower(std::move(device)), range(bytes) {}

  const std::weak_ptr<const DeviceState> borrower;
  const Range range;
  /// Until the merge buffer no longer holds it, from when its consumers are among the buffer's
  /// uses.
  std::atomic<bool> open{true};

  /// Somebody may still read it by this loan.
  [[nodiscard]] bool holds() const noexcept {
    // acquire: pairs with the release in MergeSlot::hold(), after the consumers noted their uses.
    return open.load(std::memory_order_acquire) && !borrower.expired();
  }
};

}  // namespace heddle::rt
