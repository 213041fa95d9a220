// See runtime/door/pinned.hpp.
#include "runtime/door/pinned.hpp"

#include "heddle/status.hpp"

namespace heddle::rt {
namespace {

class LockedLedgers {
 public:
  explicit LockedLedgers(const Accesses& accesses) : ledgers_(accesses.ledgers()) {
    for (Ledger* const each : ledgers_) each->lock();
  }
  LockedLedgers(const LockedLedgers&) = delete;
  LockedLedgers& operator=(const LockedLedgers&) = delete;
  ~LockedLedgers() {
    for (Ledger* const each : ledgers_) each->unlock();
  }

 private:
  const std::vector<Ledger*>& ledgers_;
};

}  // namespace

Pinned::Pinned(const Accesses& accesses, std::span<const Living* const> users,
               std::string_view user)
    : accesses_(accesses) {
  const LockedLedgers lock(accesses);
  refuse_finalised(users);
  for (const Accesses::Touch& each : accesses.touches()) {
    if (!each.buffer->memory) throw Error(absent(each.named, user));
    if (const auto bad = each.hazards->lacks(each.range, each.use))
      throw Error(not_written(each.named, user, *bad));
  }
  for (const Accesses::Touch& each : accesses.touches()) ++each.buffer->pins;
}

Pinned::~Pinned() {
  const LockedLedgers lock(accesses_);
  for (const Accesses::Touch& each : accesses_.touches()) --each.buffer->pins;
}

}  // namespace heddle::rt
