// See runtime/executor/cache.hpp.
#include "runtime/executor/cache.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <iterator>
#include <new>
#include <utility>

#include "heddle/status.hpp"
#include "runtime/device/flight.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/thread_number.hpp"

namespace heddle::rt {
ExecutorCache::ExecutorCache(std::optional<std::size_t> entries_max, CacheFull full)
    : entries_max_(entries_max), full_(full), snapshot_(new Snapshot{{{0, nullptr}}, {}}) {}

// relaxed: no other thread has the cache any more.
ExecutorCache::~ExecutorCache() { delete snapshot_.load(std::memory_order_relaxed); }

ExecutorCache::Visit::Visit(const ExecutorCache& cache) noexcept
    : cache_(cache),
      thread_(sched::known_thread_number() != sched::no_thread_number ? sched::known_thread_number()
                                                                      : sched::thread_number()),
      by_(cache_.visits_.enter(thread_)) {
  // seq_cst: pairs with the store in close(), see Visits.
  closed_ = cache_.closed_.load(std::memory_order_seq_cst) || cache_.is_inherited();
}

// Not inlined: a call may continue on another thread, see known_thread_number().
[[gnu::noinline]] ExecutorCache::Visit::~Visit() {
  const bool moved = sched::known_thread_number() != thread_;
  cache_.visits_.leave(thread_, moved ? sched::Visits<>::By::shared : by_);
}

void ExecutorCache::use(Entry& entry) const noexcept {
  if (full_ != CacheFull::drop_least_recent) return;
  // relaxed: the order of two concurrent calls does not matter.
  if (latest_.load(std::memory_order_relaxed) == &entry) return;
  latest_.store(&entry, std::memory_order_relaxed);  // relaxed: as above
  entry.last_used.store(1 + uses_.fetch_add(1, std::memory_order_relaxed),
                        std::memory_order_relaxed);
}

Entry* ExecutorCache::find(std::uint64_t hash, std::string_view key) const noexcept {
  // seq_cst: pairs with the store in publish(), see Visits.
  const auto& cells = snapshot_.load(std::memory_order_seq_cst)->cells;
  const std::size_t mask = cells.size() - 1;
  for (std::size_t at = hash & mask; cells[at].second != nullptr; at = (at + 1) & mask) {
    Entry& entry = *cells[at].second;
    if (cells[at].first != hash || entry.key != key) continue;
    use(entry);
    return &entry;
  }
  return nullptr;
}

/// Under the lock, which keeps the found entry alive.
Entry* ExecutorCache::find_known(std::uint64_t hash, const std::string& key) const noexcept {
  for (const std::shared_ptr<Entry>& entry : entries_) {
    if (entry->hash == hash && entry->key == key) return entry.get();
  }
  return nullptr;
}

/// Makes the entries of `entries_` visible to visits. Under the lock.
void ExecutorCache::publish() {
  auto made = std::make_unique<Snapshot>();
  made->cells.resize(std::bit_ceil(2 * entries_.size() + 1));
  const std::size_t mask = made->cells.size() - 1;
  for (const std::shared_ptr<Entry>& entry : entries_) {
    std::size_t at = entry->hash & mask;
    while (made->cells[at].second != nullptr) at = (at + 1) & mask;
    made->cells[at] = {entry->hash, entry.get()};
  }
  if (entries_.size() <= std::size(made->few))
    std::ranges::transform(entries_, made->few, [](const auto& entry) { return entry.get(); });
  std::list<Retired> retired(1);
  // seq_cst: pairs with the load in find(), see Visits.
  const Snapshot* const before = snapshot_.exchange(made.release(), std::memory_order_seq_cst);
  retired.front().snapshot.reset(before);
  retired_.splice(retired_.end(), retired);
}

/// Takes out objects that no visit can hold any more; the destructors run without the lock.
void ExecutorCache::sweep() noexcept {
  std::list<Retired> gone;  // destroyed after the unlock
  const std::lock_guard lock(mutex_);
  for (auto each = retired_.begin(); each != retired_.end();) {
    const auto at = each++;
    if (visits_.pass(at->seen)) gone.splice(gone.end(), retired_, at);
  }
}

/// Makes room for one entry more, beside the entries under way.
void ExecutorCache::make_room(const Refuse& refuse) {
  if (!entries_max_ || entries_.size() + flights_.size() < *entries_max_) return;
  const auto over = std::ranges::find_if(
      entries_, [](const std::shared_ptr<Entry>& entry) { return entry->is_over(); });
  if (over != entries_.end()) return drop(*over);
  if (full_ == CacheFull::refuse) throw refuse(entries_);
  if (!entries_.empty()) drop_oldest();  // else every entry is under way: land() drops the surplus
}

/// Under the lock.
void ExecutorCache::drop_oldest() {
  // relaxed: as in use().
  drop(*std::ranges::min_element(entries_, {}, [](const auto& entry) {
    return entry->last_used.load(std::memory_order_relaxed);
  }));
}

/// Under the lock.
void ExecutorCache::drop(std::shared_ptr<Entry> gone) {
  const auto place = std::ranges::find(entries_, gone);
  const auto at = place - entries_.begin();
  std::list<Retired> retired(1);
  entries_.erase(place);
  try {
    publish();
  } catch (...) {
    entries_.insert(entries_.begin() + at, std::move(gone));  // there is room
    throw;
  }
  const Entry* latest = gone.get();
  // relaxed: as in use(); a later entry may reuse the address.
  latest_.compare_exchange_strong(latest, nullptr, std::memory_order_relaxed);
  retired.front().entry = std::move(gone);
  retired_.splice(retired_.end(), retired);
  dropped.add();
}

Entry& ExecutorCache::find_or_make(std::uint64_t hash, const std::string& key, const Make& make,
                                   const Refuse& refuse) {
  std::shared_ptr<Flight> flight;
  std::size_t number = 0;
  {
    std::unique_lock lock(mutex_);
    if (Entry* const known = find_known(hash, key)) {
      use(*known);
      return *known;
    }
    if (const auto at = flights_.find(key); at != flights_.end()) {
      flight = at->second;
      lock.unlock();
      return flight->wait();
    }
    make_room(refuse);
    flight = flights_.emplace(key, std::make_shared<Flight>()).first->second;
    number = next_number_++;
  }
  try {
    return land(key, flight, make(number));
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      flights_.erase(key);
    }
    flight->fail(std::current_exception());
    throw;
  }
}

/// Publishes the new entry and wakes the waiters. The caller's visit keeps the entry alive.
Entry& ExecutorCache::land(const std::string& key, const std::shared_ptr<Flight>& flight,
                           std::shared_ptr<Entry> entry) {
  Entry& made = *entry;
  {
    const std::lock_guard lock(mutex_);
    entries_.push_back(entry);
    try {
      publish();
    } catch (...) {
      entries_.pop_back();
      throw;
    }
    flights_.erase(key);
    use(made);
    while (entries_max_ && entries_.size() > *entries_max_) drop_oldest();
  }
  flight->land(std::move(entry));
  return made;
}

std::vector<std::shared_ptr<Entry>> ExecutorCache::entries() const {
  if (is_inherited()) return {};
  const std::lock_guard lock(mutex_);
  return entries_;
}

void ExecutorCache::retire(SiteOwner site) noexcept try {
  std::list<Retired> retired(1);
  retired.front().site = std::move(site);
  const std::lock_guard lock(mutex_);
  retired_.splice(retired_.end(), retired);
} catch (const std::bad_alloc&) {
  // leaked: a visit may hold the site, and no record can tell when the visit ends
  static_cast<void>(site.release());
}

void ExecutorCache::close() {
  if (is_inherited()) return;  // no thread of this process is inside, whatever the counts say
  // seq_cst: pairs with the load of a visit, see Visits.
  closed_.store(true, std::memory_order_seq_cst);
  {
    // The end of a visit wakes no thread, as a wake-up would cost every call. Hence a wait with a
    // timeout for an event that is signalled only below: meanwhile this thread can run tasks, which
    // a call inside may need.
    sched::ExternalTimeline timeline("executor");
    const Event never = timeline.next();
    for (sched::Visits<>::Seen seen; !visits_.pass(seen);)
      static_cast<void>(never.wait_for(std::chrono::microseconds(100)));
    static_cast<void>(timeline.signal(never.ticket()));
  }
  std::vector<std::shared_ptr<Entry>> entries;
  std::list<Retired> retired;
  const std::lock_guard lock(mutex_);
  entries.swap(entries_);
  retired.swap(retired_);
  publish();
}

}  // namespace heddle::rt
