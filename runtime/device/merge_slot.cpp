// See runtime/device/merge_slot.hpp.
#include "runtime/device/merge_slot.hpp"

#include <utility>

namespace heddle::rt {

void MergeSlot::hold(std::shared_ptr<Load> next) noexcept {
  // release: pairs with the acquire in Loan::holds().
  if (load && load->loan) load->loan->open.store(false, std::memory_order_release);
  load = std::move(next);
}

void MergeSlot::clear() noexcept {
  std::shared_ptr<Load> load_before;  // these go after the lock
  std::shared_ptr<const Memory> own_before;
  const std::lock_guard lock(mutex);
  load_before = load;
  hold(nullptr);
  own_before.swap(own);
}

}  // namespace heddle::rt
