// See stretches.hpp.
#include "runtime/stretches.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace heddle::rt {
namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);

/// That a call comes after another one, of another device.
struct Wait {
  std::size_t call;
  bool heeded;
};

/// What each call comes after, by the rules of hazards.hpp.
class Order {
 public:
  explicit Order(std::span<const RecordedUse> calls) : calls_(calls), waits_(calls.size()) {
    for (std::size_t k = 0; k < calls.size(); ++k) {
      for (const Accesses::Touch& touch : calls[k].touches) look(k, touch);
    }
  }
  [[nodiscard]] std::vector<std::vector<Wait>> waits() && { return std::move(waits_); }

 private:
  struct Last {
    std::size_t call;
    Range range;
    bool writes;
  };

  void look(std::size_t call, const Accesses::Touch& touch) {
    const bool writes = touch.use != Use::read;
    std::vector<Last>& lasts = lasts_[touch.hazards];
    for (const Last& last : lasts) {
      const bool concerns = last.range.overlaps(touch.range) && (last.writes || writes);
      if (!concerns || on(last.call) == on(call)) continue;
      waits_[call].push_back({last.call, last.writes && touch.use != Use::overwrite});
    }
    // What comes after this one comes after those, too.
    std::erase_if(lasts, [&](const Last& last) {
      if (!touch.range.covers(last.range)) return false;
      return writes || (!last.writes && on(last.call) == on(call));
    });
    lasts.push_back({call, touch.range, writes});
  }
  [[nodiscard]] std::size_t on(std::size_t call) const noexcept { return calls_[call].device; }

  const std::span<const RecordedUse> calls_;
  std::map<const Hazards*, std::vector<Last>> lasts_;
  std::vector<std::vector<Wait>> waits_;
};

/// Leaves the waits that nothing earlier on the same device implies.
class Needed {
 public:
  explicit Needed(std::span<const RecordedUse> calls) : calls_(calls) {}

  [[nodiscard]] std::vector<Wait> of(std::size_t call, const std::vector<Wait>& waits) {
    std::map<std::size_t, Latest> latest;  // by device
    for (const Wait& wait : waits) {
      Latest& one = latest[calls_[wait.call].device];
      std::optional<std::size_t>& at = wait.heeded ? one.heeded : one.any;
      at = std::max(at, std::optional(wait.call));
    }
    std::vector<Wait> needed;
    for (const auto& [device, wanted] : latest) {
      Latest& known = known_[{calls_[call].device, device}];
      if (wanted.heeded > known.heeded) {
        needed.push_back({*wanted.heeded, true});
        known.heeded = wanted.heeded;
      }
      if (wanted.any > std::max(known.any, known.heeded)) {
        needed.push_back({*wanted.any, false});
        known.any = wanted.any;
      }
    }
    return needed;
  }

 private:
  /// The latest call of a device that has ended: well, or in any way.
  struct Latest {
    std::optional<std::size_t> heeded{}, any{};
  };

  const std::span<const RecordedUse> calls_;
  std::map<std::pair<std::size_t, std::size_t>, Latest> known_;  // by device, of another
};

}  // namespace

std::vector<Stretch> cut_into_stretches(std::span<const RecordedUse> calls) {
  std::vector<std::vector<Wait>> waits = Order(calls).waits();
  std::vector<bool> awaited(calls.size(), false);
  Needed needed(calls);
  for (std::size_t k = 0; k < calls.size(); ++k) {
    waits[k] = needed.of(k, waits[k]);
    for (const Wait& wait : waits[k]) awaited[wait.call] = true;
  }
  std::vector<Stretch> stretches;
  std::vector<std::size_t> stretch_of(calls.size());
  std::map<std::size_t, std::size_t> open;  // by device: the stretch that may go on
  for (std::size_t k = 0; k < calls.size(); ++k) {
    std::size_t& mine = open.try_emplace(calls[k].device, none).first->second;
    if (mine == none || !waits[k].empty() || calls[k].apart) {
      mine = stretches.size();
      stretches.push_back({calls[k].device, {}, {}});
      for (const Wait& wait : waits[k])
        stretches.back().after.push_back({stretch_of[wait.call], wait.heeded});
    }
    stretches[mine].calls.push_back(k);
    stretch_of[k] = mine;
    // Those that come after it need not wait for more than that.
    if (awaited[k] || calls[k].apart) mine = none;
  }
  return stretches;
}

}  // namespace heddle::rt
