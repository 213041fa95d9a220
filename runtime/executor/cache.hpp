// The cache of an executor: entries by the types of arguments, found without a lock; one that is
// missing is made by one of those that need it, while others wait for that, and those that need
// another one go on. Any thread.
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
  // relaxed: orders nothing.
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

  /// It was made before this process was forked: whoever was inside may have left anything half
  /// done, and locks taken.
  [[nodiscard]] bool is_inherited() const noexcept {
    return fork_generation_ != sched::fork_generation();
  }

  /// Somebody who looks for entries, and has those that were found until it goes. `closed` where
  /// there is nothing to find any more, or it is inherited.
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
    bool closed_;
  };

  /// Null: there is none. During a visit.
  [[nodiscard]] Entry* find(std::uint64_t hash, std::string_view key) const noexcept;

  /// Makes an entry, of that number. What it throws is thrown by all who wait for it.
  using Make = std::function<std::shared_ptr<Entry>(std::size_t number)>;
  /// Why there is no room for one more.
  using Refuse = std::function<Error(const std::vector<std::shared_ptr<Entry>>& entries)>;
  /// The entry, which is made if there is none. During a visit. Throws what `make` does, what
  /// `refuse` gives, failed_precondition in a call that is made by `make` for the same key.
  [[nodiscard]] Entry& find_or_make(std::uint64_t hash, const std::string& key, const Make& make,
                                    const Refuse& refuse);

  /// That is in no entry any more. During a visit.
  void retire(SiteOwner site) noexcept;
  /// Frees what was dropped and no visit has any more. After a visit in which one was made.
  void sweep() noexcept;

  [[nodiscard]] std::vector<std::shared_ptr<Entry>> entries() const;
  [[nodiscard]] std::uint64_t num_visits() const noexcept { return visits_.total(); }
  /// From here on visits find it closed; returns once those from before have gone, and no entry is
  /// left. Not during a visit of the calling thread's.
  void close();

  NumberForPeople misses, dropped;

 private:
  struct Snapshot {
    std::vector<std::pair<std::uint64_t, Entry*>> cells;  // by hash, with open addressing
  };
  /// Nobody finds it any more, but visits may have it.
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

  mutable std::mutex mutex_;  // guards what follows, and who stores `snapshot_`
  std::vector<std::shared_ptr<Entry>> entries_;
  std::map<std::string, std::shared_ptr<Flight>> flights_;
  std::list<Retired> retired_;
  std::size_t next_number_ = 0;
};

}  // namespace heddle::rt
