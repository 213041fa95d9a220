// VectorClock: for each timeline the latest ticket known to be a predecessor (Fidge 1988, Mattern
// 1989). One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle::sched {

class VectorClock {
 public:
  struct Entry {
    std::uint64_t timeline, ticket;
  };

 private:
  template <class Entries>
  [[nodiscard]] static auto find(Entries& entries, std::uint64_t timeline) noexcept {
    return std::ranges::lower_bound(entries, timeline, {}, &Entry::timeline);
  }

 public:
  /// The ticket of that timeline; 0: none.
  [[nodiscard]] std::uint64_t at(std::uint64_t timeline) const noexcept {
    const auto entry = find(entries_, timeline);
    return entry != entries_.end() && entry->timeline == timeline ? entry->ticket : 0;
  }
  /// Both join() functions throw std::bad_alloc.
  void join(std::uint64_t timeline, std::uint64_t ticket) {
    const auto entry = find(entries_, timeline);
    if (entry == entries_.end() || entry->timeline != timeline) {
      entries_.insert(entry, {timeline, ticket});
    } else {
      entry->ticket = std::max(entry->ticket, ticket);
    }
  }
  void join(const VectorClock& other) {
    for (const Entry& each : other.entries_) join(each.timeline, each.ticket);
  }
  void forget(std::uint64_t timeline) noexcept {
    std::erase_if(entries_, [&](const Entry& each) { return each.timeline == timeline; });
  }
  /// Removes the entries covered by `other`.
  void subtract(const VectorClock& other) noexcept {
    std::erase_if(entries_,
                  [&](const Entry& each) { return each.ticket <= other.at(each.timeline); });
  }
  [[nodiscard]] bool covers(const VectorClock& other) const noexcept {
    return std::ranges::all_of(other.entries_,
                               [&](const Entry& each) { return each.ticket <= at(each.timeline); });
  }
  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }

 private:
  std::vector<Entry> entries_;  // sorted by timeline
};

}  // namespace heddle::sched
