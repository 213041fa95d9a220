// Operations that have ended, kept for the next ones. Any thread gives one; a thread that has
// locked the ledger of the device takes one.
#pragma once

#include "scheduler/protocol/inbox.hpp"

namespace heddle::rt {

/// What may be kept, once it has ended.
class Spare {
 public:
  Spare() = default;
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  virtual ~Spare() = default;

  Spare* next = nullptr;  ///< while it is spare
};

/// Operations that have ended, for others of their kind, which then take no memory: as many as were
/// in the queue at once.
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
  /// Null: there is none. Under the ledger of the device.
  [[nodiscard]] Spare* take() noexcept {
    if (ours_ == nullptr) ours_ = given_.take_all();
    Spare* const spare = ours_;
    if (spare != nullptr) ours_ = spare->next;
    return spare;
  }

 private:
  sched::Inbox<Spare> given_;
  Spare* ours_ = nullptr;  // taken out of `given_`
};

}  // namespace heddle::rt
