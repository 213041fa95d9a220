// What Sync::check remembers, and tells. A WatchedUses is of one memory, and guarded by the lock
// that guards its hazards; an OrderWatch is of one backend, and of any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <source_location>
#include <string>
#include <tuple>
#include <vector>

#include "heddle/missing_order.hpp"
#include "runtime/memory/range.hpp"
#include "scheduler/device/clocks.hpp"
#include "scheduler/threads/object_mutex.hpp"

namespace heddle::rt {

/// What a backend tells of missing orders.
class OrderWatch {
 public:
  using Tell = std::function<void(const MissingOrder&)>;
  /// `tell`: empty: the log is told.
  explicit OrderWatch(Tell tell) : tell_(std::move(tell)) {}

  /// From here on it is known what comes before what. Again and again.
  void begin();
  /// Once for the same two places and memory, whose number that is.
  void tell(const MissingOrder& missing, std::uint64_t memory) noexcept;
  [[nodiscard]] std::uint64_t told() const noexcept {
    // relaxed: a number for people.
    return told_.load(std::memory_order_relaxed);
  }

 private:
  using Place = std::tuple<std::string, std::string, std::uint32_t>;  // label, file, line

  const Tell tell_;
  sched::ObjectMutex mutex_;  // guards what follows
  std::optional<sched::Clocks::Hold> clocks_;
  std::set<std::tuple<std::uint64_t, Place, Place>> known_;
  std::atomic<std::uint64_t> told_{0};
};

/// A work, as what it uses remembers it.
struct WatchedWork {
  std::string label, device;
  std::source_location site;
  bool lists_events = false;          ///< the call there takes events to come after
  std::weak_ptr<OrderWatch> watch{};  ///< that is told of it; none: its order is not checked
};

/// Uses of one memory, kept until whatever comes next comes after them, or they were written over.
class WatchedUses {
 public:
  struct Use {
    Event event;
    Range range;
    bool writes;
    bool former;  ///< of a former owner: whatever comes next comes after it anyway
    std::shared_ptr<const WatchedWork> by;
  };
  /// Two of them, of which one is to be told, and the number of the memory.
  struct Missing {
    MissingOrder order;
    std::uint64_t memory;
    std::shared_ptr<OrderWatch> watch;
    void tell() const noexcept { watch->tell(order, memory); }
  };

  /// What it is called from here on.
  void be(std::string name) noexcept { name_ = std::move(name); }
  /// `next` comes after uses of former owners; if it is `automatic`, after all that it has to.
  void follow(const Use& next, bool automatic) const noexcept;
  /// What `next` does not come after, though it has to; what is open yet is told in time. Throws
  /// std::bad_alloc.
  void look(const Use& next, std::vector<Missing>& missing) const;
  /// What this thread does not come after, and reads or writes now, as `by` says.
  void look_here(bool writes, const WatchedWork& by, std::vector<Missing>& missing) const;
  /// It is one of them from here on. Throws std::bad_alloc.
  void note(Use use);
  /// They become those of a former owner.
  void be_former() noexcept;

 private:
  [[nodiscard]] Missing missing(const Use& before, const MissingOrder::Use& after,
                                std::shared_ptr<OrderWatch> watch) const;

  static std::uint64_t next_number() noexcept;
  std::uint64_t number_ = next_number();
  std::string name_;  // for people
  std::vector<Use> uses_;
};

}  // namespace heddle::rt
