// Spares: the free list of ended operations. Any thread gives; a thread that holds the ledger
// (device lock) takes.
#pragma once

#include "scheduler/protocol/inbox.hpp"

namespace heddle::rt {

/// An object for the free list.
class Spare {
 public:
  Spare() = default;
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  virtual ~Spare() = default;

  Spare* next = nullptr;  ///< link in the free list
};

/// A free list of operations of one kind, for reuse without allocation. Grows to the maximum number
/// queued at once.
class Spares {
 public:
  Spares() = default;
  Spares(const Spares&) = delete;
  Spares& operator=(const Spares&) = delete;
  ~Spares() {
    while (Spare* const spare = take()) delete spare;
  }

  /// Any thread.
  void give(Spare& spare) noexcept { given_.push(spare); }
  /// Null: the list is empty. Under the ledger of the device.
  [[nodiscard]] Spare* take() noexcept {
    if (ours_ == nullptr) ours_ = given_.take_all();
    Spare* const spare = ours_;
    if (spare != nullptr) ours_ = spare->next;
    return spare;
  }

 private:
  sched::Inbox<Spare> given_;
  Spare* ours_ = nullptr;  // taken from `given_`
};

}  // namespace heddle::rt
