// See any_devices.hpp.
#include "scheduler/modes/any_devices.hpp"

#include <utility>

namespace heddle::sched {

AnyLease& AnyLease::operator=(AnyLease&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  place_ = std::move(other.place_);
  return *this;
}

void AnyLease::give_back() noexcept {
  if (!place_) return;
  AnyFree& free = *place_->free;
  const std::lock_guard lock(free.mutex);
  if (--place_->tasks == 0) free.numbers.push_back(place_->number);
}

std::optional<AnyGrant> AnyDevices::take() {
  const std::lock_guard lock(free_->mutex);
  return take_locked();
}

/// Takes the device released last: its cache lines may still be near.
std::optional<AnyGrant> AnyDevices::take_locked() {
  if (free_->numbers.empty()) return std::nullopt;
  const Entry& entry = entries_[free_->numbers.back()];
  free_->numbers.pop_back();
  entry.place->tasks = 1;
  return AnyGrant{entry.device, AnyLease(entry.place)};
}

AnyGrant AnyDevices::add(const TaskDevice& device) {
  auto place = std::make_shared<AnyPlace>(AnyPlace{free_});
  const std::lock_guard lock(free_->mutex);
  place->number = entries_.size();
  free_->numbers.reserve(entries_.size() + 1);
  entries_.push_back({device, place});
  return {device, AnyLease(std::move(place))};
}

AnyGrant AnyDevices::share() {
  const std::lock_guard lock(free_->mutex);
  // A device may have become free meanwhile.
  if (auto grant = take_locked()) return *std::move(grant);
  const Entry& entry = entries_[next_shared_++ % entries_.size()];
  ++entry.place->tasks;
  return {entry.device, AnyLease(entry.place)};
}

std::size_t AnyDevices::size() {
  const std::lock_guard lock(free_->mutex);
  return entries_.size();
}

}  // namespace heddle::sched
