// See runtime/replay/stretches.hpp.
#include "runtime/replay/stretches.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace heddle::rt {
namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);

/// An edge: a call waits for `call`, of another device.
struct Wait {
  std::size_t call;
  bool heeded;
};

/// The calls for which each call waits.
class Order {
 public:
  explicit Order(std::span<const RecordedUse> calls) : calls_(calls), waits_(calls.size()) {
    for (std::size_t k = 0; k < calls.size(); ++k) {
      for (const Accesses::Touch& touch : calls[k].touches) look(k, touch);
      for (const Accesses::Touch& touch : calls[k].touches) note(k, touch);
    }
  }
  [[nodiscard]] std::vector<std::vector<Wait>> waits() && { return std::move(waits_); }

 private:
  struct Last {
    std::size_t call;
    Range range;
    bool writes;
    /// written ranges that no later call overwrote: the call must end well for their readers
    std::vector<Range> heeded;
  };

  void look(std::size_t call, const Accesses::Touch& touch) {
    for (const Last& last : lasts_[touch.hazards]) {
      if (on(last.call) == on(call) ||
          !conflict(last.range, last.writes, touch.range, writes(touch.use)))
        continue;
      const bool reads = touch.use != Use::overwrite;
      waits_[call].push_back(
          {last.call, reads && std::ranges::any_of(last.heeded, [&](const Range& each) {
                        return each.overlaps(touch.range);
                      })});
    }
  }
  void note(std::size_t call, const Accesses::Touch& touch) {
    const bool writes = rt::writes(touch.use);
    std::vector<Last>& lasts = lasts_[touch.hazards];
    // A later use stands for the uses that it covers, on the same device. On another device it does
    // not: a cancelled task waits for nothing, and its end implies nothing there.
    std::erase_if(lasts, [&](const Last& last) {
      return on(last.call) == on(call) && touch.range.covers(last.range) &&
             (writes || !last.writes);
    });
    if (touch.use == Use::overwrite) {
      for (Last& last : lasts) {
        if (last.call != call) last.heeded = without(last.heeded, touch.range);
      }
    }
    lasts.push_back({call, touch.range, writes, {}});
    if (writes) lasts.back().heeded.push_back(touch.range);
  }
  [[nodiscard]] std::size_t on(std::size_t call) const noexcept { return calls_[call].device; }

  const std::span<const RecordedUse> calls_;
  std::map<const Hazards*, std::vector<Last>> lasts_;
  std::vector<std::vector<Wait>> waits_;
};

/// Drops waits that earlier waits of the same device imply. The remaining waits are the cuts
/// between tasks.
class Cuts {
 public:
  explicit Cuts(std::span<const RecordedUse> calls) : calls_(calls) {}

  /// The calls for which `call` waits, where no earlier call on its device waits for them. By
  /// device.
  [[nodiscard]] std::vector<std::size_t> before(std::size_t call, const std::vector<Wait>& waits) {
    std::map<std::size_t, Latest> latest;  // by device
    for (const Wait& wait : waits) {
      Latest& one = latest[calls_[wait.call].device];
      std::optional<std::size_t>& at = wait.heeded ? one.heeded : one.any;
      at = std::max(at, std::optional(wait.call));
    }
    std::vector<std::size_t> needed;
    for (const auto& [device, wanted] : latest) {
      Latest& known = known_[{calls_[call].device, device}];
      if (wanted.heeded > known.heeded) {
        needed.push_back(*wanted.heeded);
        known.heeded = wanted.heeded;
      }
      if (wanted.any > std::max(known.any, known.heeded)) {
        needed.push_back(*wanted.any);
        known.any = wanted.any;
      }
    }
    return needed;
  }

 private:
  /// The latest call of a device for which the waiting device has waited: for a good end, or for
  /// any end.
  struct Latest {
    std::optional<std::size_t> heeded{}, any{};
  };

  const std::span<const RecordedUse> calls_;
  // by waiting device and awaited device
  std::map<std::pair<std::size_t, std::size_t>, Latest> known_;
};

/// Adds every wait of a call to its task, even those implied by earlier tasks of the device: a
/// cancelled task waits for nothing. The additional waits do not delay the task.
void add_waits(Stretch& stretch, const std::vector<Wait>& waits,
               const std::vector<std::size_t>& stretch_of) {
  for (const Wait& wait : waits) {
    const auto at =
        std::ranges::find(stretch.after, stretch_of[wait.call], &Stretch::Before::stretch);
    if (at == stretch.after.end()) {
      stretch.after.push_back({stretch_of[wait.call], wait.heeded});
    } else {
      at->heeded = at->heeded || wait.heeded;
    }
  }
}

/// Drops waits for tasks of a device where a later task of the device is awaited too. Waits that
/// require a good end stay.
void drop_implied(std::span<Stretch> stretches) {
  for (Stretch& stretch : stretches) {
    const std::vector<Stretch::Before> all = stretch.after;
    std::erase_if(stretch.after, [&](const Stretch::Before& each) {
      return !each.heeded && std::ranges::any_of(all, [&](const Stretch::Before& other) {
        return stretches[other.stretch].device == stretches[each.stretch].device &&
               other.stretch > each.stretch;
      });
    });
  }
}

}  // namespace

std::vector<Stretch> cut_into_stretches(std::span<const RecordedUse> calls) {
  const std::vector<std::vector<Wait>> waits = Order(calls).waits();
  std::vector<bool> awaited(calls.size(), false), waiting(calls.size(), false);
  Cuts cuts(calls);
  for (std::size_t k = 0; k < calls.size(); ++k) {
    for (const std::size_t each : cuts.before(k, waits[k])) awaited[each] = waiting[k] = true;
  }
  std::vector<Stretch> stretches;
  std::vector<std::size_t> stretch_of(calls.size());
  std::map<std::size_t, std::size_t> open;  // by device: the segment that may grow
  for (std::size_t k = 0; k < calls.size(); ++k) {
    std::size_t& mine = open.try_emplace(calls[k].device, none).first->second;
    if (mine == none || waiting[k] || calls[k].apart) {
      mine = stretches.size();
      stretches.push_back({calls[k].device, {}, {}});
    }
    stretches[mine].calls.push_back(k);
    stretch_of[k] = mine;
    add_waits(stretches[mine], waits[k], stretch_of);
    // Closes the segment, as waiters for this call need not wait for later calls.
    if (awaited[k] || calls[k].apart) mine = none;
  }
  drop_implied(stretches);
  return stretches;
}

}  // namespace heddle::rt
