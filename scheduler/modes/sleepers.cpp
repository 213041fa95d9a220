// Sleepers: places in a list that only grows, up to the largest number of threads at once.
#include "scheduler/modes/sleepers.hpp"

#include <utility>

namespace heddle::sched {

Sleepers::~Sleepers() {
  // relaxed: pairs with the store in join(); no other thread uses the list any more.
  for (const Place* place = first_.load(std::memory_order_relaxed); place != nullptr;)
    delete std::exchange(place, place->next);
}

Sleepers::Place& Sleepers::join() {
  const std::lock_guard lock(mutex_);
  // relaxed: pairs with the store below, under the same lock.
  Place* const first = first_.load(std::memory_order_relaxed);
  for (Place* place = first; place != nullptr; place = place->next) {
    if (!std::exchange(place->used, true)) return *place;
  }
  auto* const place = new Place;
  place->next = first;
  // release: pairs with the acquire in take() and wake_all().
  first_.store(place, std::memory_order_release);
  return *place;
}

void Sleepers::leave(Place& place) noexcept {
  const std::lock_guard lock(mutex_);
  place.used = false;
}

Sleepers::Place* Sleepers::take(ReadyCount<>& count) noexcept {
  // acquire: pairs with the release in join(): the places are fully constructed.
  Place* place = first_.load(std::memory_order_acquire);
  while (place != nullptr && !count.wake(place->flag)) place = place->next;
  return place;
}

void Sleepers::wake_all() noexcept {
  // acquire: pairs with the release in join().
  for (Place* place = first_.load(std::memory_order_acquire); place != nullptr; place = place->next)
    place->parker.unpark();
}

}  // namespace heddle::sched
