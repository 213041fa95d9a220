// The slow paths of Summons.
#include "scheduler/device/summons.hpp"

#include "scheduler/observe/trace.hpp"

namespace heddle::sched {

void Summons::call_closely() noexcept {
  if (device_.runner) {
    look();
  } else {
    rouse();
  }
}

void Summons::wake() noexcept {
  // relaxed: a statistic; pairs with the load in wakes().
  wakes_.fetch_add(1, std::memory_order_relaxed);
  trace::note_wake(device_.id);
  parker_.unpark();
}

}  // namespace heddle::sched
