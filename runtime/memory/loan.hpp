// Loans: memory read in place by a merge buffer while other works may write there. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "runtime/memory/range.hpp"

namespace heddle::rt {

struct DeviceState;
struct SubmitOptions;

/// Bytes of a buffer borrowed by the merge buffer of a device. A writer of the bytes first has to
/// give the borrower a copy.
struct Loan {
  /// Called before `writer` writes the bytes: submits a task of the borrower, with `options`, to
  /// copy the bytes. Throws the error that refuses the write.
  using HaveCopy = void (*)(const std::shared_ptr<Loan>& loan, const SubmitOptions& options,
                            const std::string& writer);

  Loan(std::weak_ptr<const DeviceState> device, Range bytes, HaveCopy copies)
      : borrower(std::move(device)), range(bytes), have_copy(copies) {}

  const std::weak_ptr<const DeviceState> borrower;
  const Range range;
  const HaveCopy have_copy;
  /// Cleared when the merge buffer drops the loan; by then its consumers are recorded among the
  /// buffer's uses.
  std::atomic<bool> open{true};

  /// True if a consumer may still read the bytes through this loan.
  [[nodiscard]] bool holds() const noexcept {
    // acquire: pairs with the release in MergeSlot::hold(), which follows the recording of the
    // consumers' uses.
    return open.load(std::memory_order_acquire) && !borrower.expired();
  }
};

}  // namespace heddle::rt
