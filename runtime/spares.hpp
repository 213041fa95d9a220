// Operations that have ended, kept for the next ones. Any thread gives one; a thread that has
// locked the ledger of the device takes one.
#pragma once

#include "scheduler/protocol/inbox.hpp"

namespace heddle::rt {

class Operation;  // runtime/submit.hpp

/// Operations that have ended, for others of their kind, which then take no memory: as many as were
/// in the queue at once.
class Spares {
 public:
  Spares() = default;
  Spares(const Spares&) = delete;
  Spares& operator=(const Spares&) = delete;
  ~Spares();

  /// Any thread.
  void give(Operation& spare) noexcept;
  /// Null: there is none. Under the ledger of the device.
  [[nodiscard]] Operation* take() noexcept;

 private:
  sched::Inbox<Operation> given_;
  Operation* ours_ = nullptr;  // taken out of `given_`
};

}  // namespace heddle::rt
