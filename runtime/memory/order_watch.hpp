// The race check of Sync::check: recorded uses, and reports of missing order. A WatchedUses belongs
// to one memory and is guarded by the lock of the memory's hazards. An OrderWatch belongs to one
// backend; any thread.
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

/// Reports a backend's missing orders.
class OrderWatch {
 public:
  using Tell = std::function<void(const MissingOrder&)>;
  /// `tell`: receives each report; empty: the log does.
  explicit OrderWatch(Tell tell) : tell_(std::move(tell)) {}

  /// Starts the recording of order (sched::Clocks). May be called repeatedly.
  void begin();
  /// Reports once per pair of places and memory. `memory`: the memory's number.
  void tell(const MissingOrder& missing, std::uint64_t memory) noexcept;
  [[nodiscard]] std::uint64_t told() const noexcept {
    // relaxed: a statistic; pairs with the addition in tell().
    return told_.load(std::memory_order_relaxed);
  }

 private:
  using Place = std::tuple<std::string, std::string, std::uint32_t>;  // label, file, line

  const Tell tell_;
  sched::ObjectMutex mutex_;  // guards the members below
  std::optional<sched::Clocks::Hold> clocks_;
  std::set<std::tuple<std::uint64_t, Place, Place>> known_;
  std::atomic<std::uint64_t> told_{0};
};

/// A work, as recorded with its uses.
struct WatchedWork {
  std::string label, device;
  std::source_location site;
  bool lists_events = false;  ///< the submitting call takes events to wait for
  /// receives reports about the work; none: its order is not checked
  std::weak_ptr<OrderWatch> watch{};
};

/// Uses of one memory. A use is dropped when every later use is known to come after it, or when an
/// ordered write covers it.
class WatchedUses {
 public:
  struct Use {
    Event event;
    Range range;
    bool writes;
    bool former;  ///< by a former owner: later uses are ordered after it anyway
    std::shared_ptr<const WatchedWork> by;
  };
  /// A missing order of two uses, the memory's number, and the watch that reports it.
  struct Missing {
    MissingOrder order;
    std::uint64_t memory;
    std::shared_ptr<OrderWatch> watch;
    void tell() const noexcept { watch->tell(order, memory); }
  };

  /// Sets the name of the memory.
  void be(std::string name) noexcept { name_ = std::move(name); }
  /// Orders `next` after the uses of former owners, and, if `automatic`, after every conflicting
  /// use.
  void follow(const Use& next, bool automatic) const noexcept;
  /// Adds to `missing` each conflicting use that `next` does not come after. If the order is still
  /// open, the report follows once the order is decided. Throws std::bad_alloc.
  void look(const Use& next, std::vector<Missing>& missing) const;
  /// Like look(), for a read or write made now by the calling thread. `by`: the reader or writer.
  void look_here(bool writes, const WatchedWork& by, std::vector<Missing>& missing) const;
  /// Adds a use. Throws std::bad_alloc.
  void note(Use use);
  /// Marks the uses as a former owner's.
  void be_former() noexcept;

 private:
  [[nodiscard]] Missing missing(const Use& before, const MissingOrder::Use& after,
                                std::shared_ptr<OrderWatch> watch) const;

  static std::uint64_t next_number() noexcept;
  std::uint64_t number_ = next_number();
  std::string name_;  // for messages
  std::vector<Use> uses_;
};

}  // namespace heddle::rt
