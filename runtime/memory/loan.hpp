// Loans: what a merge buffer reads in place, in memory that others may write. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "runtime/memory/range.hpp"

namespace heddle::rt {

struct DeviceState;
struct SubmitOptions;

/// Bytes of a buffer that the merge buffer of a device borrows: before they are written it is to
/// have a copy.
struct Loan {
  /// `writer` is about to write what the loan is of: has it copied before, by a task of the
  /// borrower, which is submitted as the options say. Throws what refuses the write.
  using HaveCopy = void (*)(const std::shared_ptr<Loan>& loan, const SubmitOptions& options,
                            const std::string& writer);

  Loan(std::weak_ptr<const DeviceState> device, Range bytes, HaveCopy copies)
      : borrower(std::move(device)), range(bytes), have_copy(copies) {}

  const std::weak_ptr<const DeviceState> borrower;
  const Range range;
  const HaveCopy have_copy;
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
