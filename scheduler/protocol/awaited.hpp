// AwaitedList: the events that a task comes after. Four events need no memory beside the task's
// note. One thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "heddle/event.hpp"

namespace heddle::sched {

struct Awaited {
  Event event;
  bool heeded = true;  ///< required: if the event ended badly, the task is skipped
};

/// Holds an event once, and from the events of one timeline that are not heeded (required) only the
/// last. Zero bytes are an empty list.
class AwaitedList {
 public:
  AwaitedList() = default;
  AwaitedList(AwaitedList&& other) noexcept { *this = std::move(other); }
  AwaitedList& operator=(AwaitedList&& other) noexcept {
    if (this == &other) return *this;
    reset();
    few_ = std::exchange(other.few_, {});
    many_ = std::exchange(other.many_, nullptr);
    count_ = std::exchange(other.count_, 0);
    return *this;
  }
  ~AwaitedList() = default;

  /// An event that was added several times is heeded if one of the calls says so. Throws
  /// std::bad_alloc.
  void add(const Event& event, bool heeded) {
    for (Awaited& each : *this) {
      if (each.event.device_id() != event.device_id()) continue;
      const std::uint64_t ticket = each.event.ticket();
      if (ticket == event.ticket()) {
        each.heeded = each.heeded || heeded;
        return;
      }
      if (!heeded && ticket > event.ticket()) return;  // once `each` has ended, `event` has ended
      if (!each.heeded && ticket < event.ticket()) {
        each = {event, heeded};
        return;
      }
    }
    if (many_) {
      many_->push_back({event, heeded});
      ++count_;
    } else if (count_ < few_.size()) {
      few_[count_++] = {event, heeded};
    } else {
      auto all = std::make_unique<std::vector<Awaited>>(begin(), end());
      all->push_back({event, heeded});
      few_ = {};
      many_ = std::move(all);
      ++count_;
    }
  }
  /// Keeps the first `count` entries, which must exist.
  void shrink(std::size_t count) noexcept {
    if (many_) {
      many_->erase(many_->begin() + static_cast<std::ptrdiff_t>(count), many_->end());
    } else {
      std::fill(few_.begin() + count, few_.end(), Awaited());
    }
    count_ = count;
  }
  void reset() noexcept {
    if (count_ == 0) return;
    few_ = {};
    many_ = nullptr;
    count_ = 0;
  }

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] Awaited* begin() noexcept { return many_ ? many_->data() : few_.data(); }
  [[nodiscard]] Awaited* end() noexcept { return begin() + count_; }
  [[nodiscard]] const Awaited* begin() const noexcept {
    return many_ ? many_->data() : few_.data();
  }
  [[nodiscard]] const Awaited* end() const noexcept { return begin() + count_; }

 private:
  std::array<Awaited, 4> few_;
  std::unique_ptr<std::vector<Awaited>> many_;  // every entry, once there are more than few_ holds
  std::size_t count_ = 0;
};

}  // namespace heddle::sched
