// Random uses of one memory, against every byte by itself: what is refused, and what is waited for,
// is just what the byte's writes since it was last overwritten say, whatever has ended meanwhile.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "heddle/heddle.hpp"
#include "runtime/memory/hazards.hpp"
#include "scheduler/protocol/lane.hpp"
#include "tests/support/seeds.hpp"

namespace heddle {
namespace {

using rt::Hazards;
using rt::Range;
using rt::Use;

constexpr std::size_t num_bytes = 6, num_timelines = 3;

/// What was asked for, and how it ended.
struct Asked {
  std::size_t timeline;
  Event event;
  bool ended = false, well = false;
  std::vector<std::size_t> heeded{};  ///< fails with any of these
};

class Uses {
 public:
  explicit Uses(std::uint64_t seed) : random_(seed) {
    for (std::uint64_t& id : ids_) {
      id = timelines_.emplace_back(std::string(1, static_cast<char>(65 + timelines_.size())))
               .next()
               .device_id();
      EXPECT_TRUE(timelines_.back().signal(1).ok());
    }
  }

  /// Empty, or what was not as it has to be.
  std::string run() {
    for (int k = 0; k < 40 && wrong_.empty(); ++k) {
      if (below(2) == 0) {
        use();
      } else {
        end(below(num_timelines));
      }
    }
    return wrong_.empty() ? wrong_ : story_ + wrong_;
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  struct Touch {
    Range range;
    Use how;
  };

  void use() {
    const std::size_t timeline = below(num_timelines);
    std::vector<Touch> touches;
    for (std::uint64_t count = below(3) == 0 ? 1 + below(3) : 1; count > 0; --count) {
      const std::size_t begin = below(num_bytes);
      touches.push_back(
          {{begin, begin + 1 + below(num_bytes - begin)}, static_cast<Use>(below(4))});
      const char* const names[] = {"reads", "changes", "overwrites", "replaces"};
      story_ += fmt::format("{} {} {} to {}\n", timeline,
                            names[static_cast<std::size_t>(touches.back().how)],
                            touches.back().range.begin, touches.back().range.end);
    }
    if (touches.size() == 1 && use_plainly(timeline, touches[0])) return;
    sched::TaskNote note;
    bool lacking = false;
    for (const Touch& each : touches) {
      const bool lacks_values = lacks(each);
      lacking = lacking || lacks_values;
      if (const auto refused = hazards_.order(next(timeline, each), touches.size(), note)) {
        if (!lacks_values)
          wrong_ = "refused for " + refused->to_string() + ", whose values it needs not";
        return;
      }
    }
    Asked& mine = add(timeline);
    for (const sched::Awaited& each : note.after) {
      if (each.heeded) mine.heeded.push_back(place_of(each.event));
    }
    if (lacking && !is_doomed(mine)) wrong_ = "neither refused nor skipped";
    for (const Touch& each : touches) expect_heeded(mine, each);
    for (const Touch& each : touches) {
      hazards_.note(mine.event, next(timeline, each), true);
      take_effect(each);
    }
  }
  bool use_plainly(std::size_t timeline, const Touch& touch) {
    const Hazards::Next next = this->next(timeline, touch);
    const auto like = hazards_.plain(next, below(2));
    if (!like) return false;
    expect_plain(touch, timeline);
    hazards_.note_plainly(*like, add(timeline).event, next,
                          true);  // none of these is sure to end well
    take_effect(touch);
    return true;
  }
  [[nodiscard]] Hazards::Next next(std::size_t timeline, const Touch& touch) const {
    return {ids_.at(timeline), 0, touch.range, touch.how, true};
  }

  Asked& add(std::size_t timeline) {
    return asked_.emplace_back(Asked{timeline, timelines_[timeline].next()});
  }
  std::size_t place_of(const Event& event) const {
    const auto at = std::ranges::find_if(
        asked_, [&](const Asked& each) { return each.event.id() == event.id(); });
    return static_cast<std::size_t>(at - asked_.begin());
  }

  /// The oldest of a timeline that has not ended, if what it heeds has.
  void end(std::size_t timeline) {
    const auto at = std::ranges::find_if(
        asked_, [&](const Asked& each) { return each.timeline == timeline && !each.ended; });
    if (at == asked_.end()) return;
    const auto waits = [&](std::size_t k) { return !asked_[k].ended; };
    if (std::ranges::any_of(at->heeded, waits)) return;
    const auto fails = [&](std::size_t k) { return !asked_[k].well; };
    at->well = std::ranges::none_of(at->heeded, fails) && below(4) != 0;
    at->ended = true;
    story_ += fmt::format("{} ends {}\n", at->event.to_string(), at->well ? "well" : "badly");
    const Status status = at->well ? Status() : Status(ErrorCode::internal, "so");
    EXPECT_TRUE(timelines_[timeline].signal(at->event.ticket(), status).ok());
  }

  /// It ends badly, if it has not yet.
  [[nodiscard]] bool is_doomed(const Asked& asked) const {
    if (asked.ended) return !asked.well;
    return std::ranges::any_of(asked.heeded,
                               [this](std::size_t k) { return is_doomed(asked_[k]); });
  }
  [[nodiscard]] bool lacks(const Touch& touch) const {
    return any_write(touch, [](const Asked& each) { return each.ended && !each.well; });
  }
  /// Of those whose values such a use reads.
  [[nodiscard]] bool any_write(const Touch& touch, const auto& is) const {
    if (touch.how == Use::overwrite) return false;
    for (std::size_t byte = touch.range.begin; byte < touch.range.end; ++byte) {
      for (const std::size_t each : writes_[byte]) {
        if (is(asked_[each])) return true;
      }
    }
    return false;
  }
  /// By itself, or by what it heeds.
  [[nodiscard]] bool heeds(const Asked& mine, const Asked& other) const {
    return std::ranges::any_of(mine.heeded, [&](std::size_t k) {
      return &asked_[k] == &other || heeds(asked_[k], other);
    });
  }
  void expect_heeded(const Asked& mine, const Touch& touch) {
    const bool forgets =
        any_write(touch, [&](const Asked& each) { return !each.ended && !heeds(mine, each); });
    if (forgets) wrong_ = mine.event.to_string() + " does not heed all that it reads";
  }
  void expect_plain(const Touch& touch, std::size_t timeline) {
    const bool other = any_write(touch, [&](const Asked& each) {
      return each.ended ? !each.well : each.timeline != timeline;
    });
    if (other) wrong_ = "taken for plain";
  }
  void take_effect(const Touch& touch) {
    if (touch.how == Use::read) return;
    for (std::size_t byte = touch.range.begin; byte < touch.range.end; ++byte) {
      if (rt::leaves_new(touch.how)) writes_[byte].clear();
      writes_[byte].push_back(asked_.size() - 1);
    }
  }

  std::mt19937_64 random_;
  std::vector<sched::ExternalTimeline> timelines_;
  std::array<std::uint64_t, num_timelines> ids_{};
  std::vector<Asked> asked_;
  std::array<std::vector<std::size_t>, num_bytes> writes_{};
  Hazards hazards_;
  std::string story_, wrong_;
};

// D9: of every byte its writes since it was overwritten, and none else, are heeded and refused
TEST(RandomHazardsTest, EveryByteIsWhatItsWritesLeft) {
  for (std::uint64_t seed = 0; seed < 20'000 / test::slower; ++seed) {
    ASSERT_EQ(Uses(seed).run(), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace heddle
