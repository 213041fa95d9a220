// The cache of an executor: entries keyed by argument types, found without a lock. The first call
// that needs a missing entry makes the entry; later calls for the same key wait (a `Flight` is a
// single-flight compile), and calls for different keys go on. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/executor.hpp"
#include "runtime/executor/entry.hpp"
#include "scheduler/protocol/visits.hpp"
#include "scheduler/threads/fork.hpp"

namespace heddle::rt {

class Flight;

class NumberForPeople {
 public:
  // relaxed: a statistic orders nothing.
  void add() noexcept { number_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t get() const noexcept {
    return number_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> number_{0};
};

class ExecutorCache {
 public:
  ExecutorCache(std::optional<std::size_t> entries_max, CacheFull full);
  ExecutorCache(const ExecutorCache&) = delete;
  ExecutorCache& operator=(const ExecutorCache&) = delete;
  ~ExecutorCache();

  /// The cache was made before a fork of this process: a thread of the parent may have been inside,
  /// with locks taken and data half changed.
  [[nodiscard]] bool is_inherited() const noexcept {
    return fork_generation_ != sched::fork_generation();
  }

  /// A reader section: entries found in the section stay alive until its end. `closed` where the
  /// cache is closed or inherited: then no entry can be found.
  class Visit {
   public:
    explicit Visit(const ExecutorCache& cache) noexcept;
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit();
    [[nodiscard]] bool closed() const noexcept { return closed_; }

   private:
    const ExecutorCache& cache_;
    const std::uint64_t thread_;
    const sched::Visits<>::By by_;
    bool closed_;
  };

  /// The entry whose key satisfies `is`, where the cache has few entries; null: none found. During
  /// a visit.
  template <class Is>
  [[nodiscard]] Entry* find_among_few(const Is& is) const noexcept {
    // seq_cst: pairs with the store in publish(), see Visits.
    for (Entry* const entry : snapshot_.load(std::memory_order_seq_cst)->few) {
      if (entry == nullptr) break;
      if (!is(std::string_view(entry->key))) continue;
      use(*entry);
      return entry;
    }
    return nullptr;
  }
  /// The entry of a key, or null. During a visit.
  [[nodiscard]] Entry* find(std::uint64_t hash, std::string_view key) const noexcept;

  /// Makes the entry with the given number. An exception of `make` is thrown to every waiter too.
  using Make = std::function<std::shared_ptr<Entry>(std::size_t number)>;
  /// The error for a full cache.
  using Refuse = std::function<Error(const std::vector<std::shared_ptr<Entry>>& entries)>;
  /// Finds the entry or makes a missing entry. During a visit. Throws the exceptions of `make`, the
  /// error of `refuse`, and failed_precondition where `make` calls the executor with the same key,
  /// or makers would wait for each other.
  [[nodiscard]] Entry& find_or_make(std::uint64_t hash, const std::string& key, const Make& make,
                                    const Refuse& refuse);

  /// Frees a site, already unlinked from its entry, once no visit can have found the site. During a
  /// visit.
  void retire(SiteOwner site) noexcept;
  /// Frees dropped objects that no visit can hold any more. Called after a visit that made an entry
  /// or loaded a site.
  void sweep() noexcept;

  [[nodiscard]] std::vector<std::shared_ptr<Entry>> entries() const;
  [[nodiscard]] std::uint64_t num_visits() const noexcept { return visits_.total(); }
  /// New visits find the cache closed; returns after the end of earlier visits and the removal of
  /// every entry. Must not be called within a visit of the calling thread.
  void close();

  NumberForPeople misses, dropped;

 private:
  struct Snapshot {
    std::vector<std::pair<std::uint64_t, Entry*>> cells;  // by hash, with open addressing
    Entry* few[2] = {};  // the entries, where there are no more: their keys are compared at once
  };
  /// An unlinked object: new visits cannot find the object, but earlier visits may hold it.
  struct Retired {
    std::shared_ptr<Entry> entry;
    std::unique_ptr<const Snapshot> snapshot;
    SiteOwner site;
    sched::Visits<>::Seen seen;
  };

  [[nodiscard]] Entry* find_known(std::uint64_t hash, const std::string& key) const noexcept;
  void publish();
  void make_room(const Refuse& refuse);
  void drop_oldest();
  void drop(std::shared_ptr<Entry> gone);
  Entry& land(const std::string& key, const std::shared_ptr<Flight>& flight,
              std::shared_ptr<Entry> entry);
  void use(Entry& entry) const noexcept;

  const std::uint32_t fork_generation_ = sched::fork_generation();
  const std::optional<std::size_t> entries_max_;
  const CacheFull full_;
  mutable sched::Visits<> visits_;
  std::atomic<bool> closed_{false};
  std::atomic<const Snapshot*> snapshot_;
  mutable std::atomic<const Entry*> latest_{nullptr};
  mutable std::atomic<std::uint64_t> uses_{0};

  mutable std::mutex mutex_;  // guards the members below and the stores to `snapshot_`
  std::vector<std::shared_ptr<Entry>> entries_;
  std::map<std::string, std::shared_ptr<Flight>> flights_;
  std::list<Retired> retired_;
  std::size_t next_number_ = 0;
};

}  // namespace heddle::rt
