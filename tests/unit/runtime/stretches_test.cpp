// How recorded calls are cut into tasks, without devices: buffers are never looked into.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <utility>

#include "runtime/replay/stretches.hpp"
#include "tests/support/seeds.hpp"

namespace heddle::rt {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

/// Calls over made-up buffers.
class Calls {
 public:
  Calls& add(std::size_t device, std::vector<Accesses::Touch> touches, bool apart = false) {
    touches_.push_back(std::move(touches));
    calls_.push_back({device, touches_.back(), apart});
    return *this;
  }
  [[nodiscard]] std::vector<Stretch> cut() const { return cut_into_stretches(calls_); }
  [[nodiscard]] const std::vector<RecordedUse>& calls() const { return calls_; }

  static Accesses::Touch touch(std::uintptr_t buffer, Use use, Range range = {0, 64}) {
    return {reinterpret_cast<Hazards*>(buffer * 64), nullptr, nullptr, range, use, {}};
  }

 private:
  std::deque<std::vector<Accesses::Touch>> touches_;
  std::vector<RecordedUse> calls_;
};

Accesses::Touch reads(std::uintptr_t buffer, Range range = {0, 64}) {
  return Calls::touch(buffer, Use::read, range);
}
Accesses::Touch writes(std::uintptr_t buffer, Range range = {0, 64}) {
  return Calls::touch(buffer, Use::overwrite, range);
}
Accesses::Touch changes(std::uintptr_t buffer, Range range = {0, 64}) {
  return Calls::touch(buffer, Use::change, range);
}

bool waits(const Stretch& stretch, std::size_t other, bool heeded) {
  return std::ranges::any_of(stretch.after, [&](const Stretch::Before& each) {
    return each.stretch == other && each.heeded == heeded;
  });
}

// D9: one device needs no wait, and no second task
TEST(StretchesTest, OneDeviceIsOneStretch) {
  Calls calls;
  for (int k = 0; k < 5; ++k) calls.add(0, {changes(1), reads(2)});
  const auto cut = calls.cut();
  ASSERT_THAT(cut, SizeIs(1));
  EXPECT_THAT(cut[0].calls, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Calls().cut(), IsEmpty());
}

// D9: the three kinds; only what is read has to be there
TEST(StretchesTest, EachHazardIsAWait) {
  const auto read = Calls().add(0, {writes(1)}).add(1, {reads(1)}).cut();
  ASSERT_THAT(read, SizeIs(2));
  EXPECT_TRUE(waits(read[1], 0, true));
  const auto changed = Calls().add(0, {writes(1)}).add(1, {changes(1)}).cut();
  EXPECT_TRUE(waits(changed[1], 0, true));
  const auto written = Calls().add(0, {writes(1)}).add(1, {writes(1)}).cut();
  EXPECT_TRUE(waits(written[1], 0, false));
  const auto after_read = Calls().add(0, {reads(1)}).add(1, {changes(1)}).cut();
  EXPECT_TRUE(waits(after_read[1], 0, false));
  const auto both_read = Calls().add(0, {reads(1)}).add(1, {reads(1)}).cut();
  EXPECT_THAT(both_read[1].after, IsEmpty());
  const auto apart = Calls().add(0, {writes(1, {0, 8})}).add(1, {reads(1, {8, 16})}).cut();
  EXPECT_THAT(apart[1].after, IsEmpty());
}

// D9: a task ends where another device waits for it, and no later; what is known is not awaited
TEST(StretchesTest, CutsWhereOthersWait) {
  const auto cut = Calls()
                       .add(0, {writes(1)})
                       .add(0, {writes(2)})
                       .add(0, {writes(3)})
                       .add(1, {reads(2)})
                       .add(1, {reads(1)})  // implied by that
                       .add(1, {reads(3)})
                       .cut();
  ASSERT_THAT(cut, SizeIs(4));
  EXPECT_THAT(cut[0].calls, ElementsAre(0, 1));
  EXPECT_THAT(cut[1].calls, ElementsAre(2));
  EXPECT_THAT(cut[2].calls, ElementsAre(3, 4));
  EXPECT_THAT(cut[3].calls, ElementsAre(5));
  EXPECT_TRUE(waits(cut[3], 1, true));
}

// D9: that something has ended does not say that it ended well
TEST(StretchesTest, AnyEndImpliesNoGoodOne) {
  const auto cut = Calls()
                       .add(0, {reads(1), writes(2)})
                       .add(1, {writes(1)})  // however it ended
                       .add(1, {reads(2)})
                       .cut();
  ASSERT_THAT(cut, SizeIs(3));
  EXPECT_TRUE(waits(cut[1], 0, false));
  EXPECT_TRUE(waits(cut[2], 0, true));
}

TEST(StretchesTest, WhatIsApartIsATaskOfItsOwn) {
  const auto cut =
      Calls().add(0, {reads(1)}).add(0, {reads(1)}, true).add(0, {reads(1)}).add(0, {}).cut();
  ASSERT_THAT(cut, SizeIs(3));
  EXPECT_THAT(cut[1].calls, ElementsAre(1));
  EXPECT_THAT(cut[2].calls, ElementsAre(2, 3));
}

// D9: what was overwritten since is nobody's to read; what a call reads as well as overwrites is
TEST(StretchesTest, OverwrittenValuesAreNotHeeded) {
  const auto overwritten = Calls().add(0, {writes(1)}).add(1, {writes(1)}).add(2, {reads(1)}).cut();
  ASSERT_THAT(overwritten, SizeIs(3));
  EXPECT_TRUE(waits(overwritten[2], 0, false));
  EXPECT_TRUE(waits(overwritten[2], 1, true));
  const auto in_part =
      Calls().add(0, {writes(1)}).add(1, {writes(1, {0, 8})}).add(2, {reads(1, {4, 12})}).cut();
  EXPECT_TRUE(waits(in_part[2], 0, true));
  const auto other_part =
      Calls().add(0, {writes(1)}).add(1, {writes(1, {0, 8})}).add(2, {reads(1, {0, 8})}).cut();
  EXPECT_TRUE(waits(other_part[2], 0, false));
  const auto both = Calls().add(0, {writes(1), reads(2)}).add(1, {writes(2), reads(1)}).cut();
  EXPECT_TRUE(waits(both[1], 0, true));
  const auto itself = Calls().add(0, {writes(1)}).add(1, {writes(1), reads(1, {0, 8})}).cut();
  EXPECT_TRUE(waits(itself[1], 0, true));
}

// D19: of one device's tasks that need not end well the last one does
TEST(StretchesTest, TheLastStandsForThoseBefore) {
  const auto cut = Calls()
                       .add(0, {reads(1)})
                       .add(1, {writes(1)})
                       .add(0, {reads(2)})
                       .add(2, {writes(1), writes(2)})
                       .cut();
  ASSERT_THAT(cut, SizeIs(4));
  EXPECT_THAT(cut[3].after, SizeIs(2));
  EXPECT_TRUE(waits(cut[3], 1, false));
  EXPECT_TRUE(waits(cut[3], 2, false));
}

/// Whether by the cut the task of `later` comes after `earlier`, whichever others are cancelled: on
/// its device, or by a wait of its own.
class Reached {
 public:
  explicit Reached(const std::vector<Stretch>& cut) : cut_(cut) {}
  [[nodiscard]] std::size_t of(std::size_t call) const {
    for (std::size_t k = 0; k < cut_.size(); ++k) {
      if (std::ranges::find(cut_[k].calls, call) != cut_[k].calls.end()) return k;
    }
    return cut_.size();
  }
  /// `heeded`: and does not run where that one ended badly.
  [[nodiscard]] bool after(std::size_t earlier, std::size_t later, bool heeded) const {
    const std::size_t one = of(earlier), two = of(later);
    if (cut_[one].device == cut_[two].device) return one <= two;
    return std::ranges::any_of(cut_[two].after, [&](const Stretch::Before& each) {
      if (heeded) return each.stretch == one && each.heeded;
      return cut_[each.stretch].device == cut_[one].device && each.stretch >= one;
    });
  }

 private:
  const std::vector<Stretch>& cut_;
};

// D9: a task that was cancelled waited for nothing: each waits for all that it comes after itself
TEST(StretchesTest, NoTaskStandsForAnother) {
  const auto writes_follow =
      Calls().add(0, {reads(1)}).add(1, {writes(1)}).add(2, {writes(1)}).cut();
  ASSERT_THAT(writes_follow, SizeIs(3));
  EXPECT_TRUE(waits(writes_follow[2], 0, false));
  EXPECT_TRUE(waits(writes_follow[2], 1, false));
  const auto after_a_cut = Calls()
                               .add(0, {writes(1), writes(2)})
                               .add(1, {reads(1), writes(3)})
                               .add(2, {reads(3)})
                               .add(1, {reads(2)})
                               .cut();
  ASSERT_THAT(after_a_cut, SizeIs(4));
  EXPECT_TRUE(waits(after_a_cut[3], 0, true)) << "beside the one of the task before";
  const auto two_writes = Calls()
                              .add(0, {writes(1)})
                              .add(1, {reads(1)})
                              .add(0, {writes(2)})
                              .add(2, {reads(1), reads(2)})
                              .cut();
  ASSERT_THAT(two_writes, SizeIs(4));
  EXPECT_TRUE(waits(two_writes[3], 0, true));
  EXPECT_TRUE(waits(two_writes[3], 2, true));
}

/// Whether `later` reads bytes that `earlier` writes and nothing overwrites in between, nor writes
/// again on its device. Ranges are of 8 bytes each.
bool is_heeded(std::span<const RecordedUse> calls, std::size_t earlier, std::size_t later) {
  const auto any = [&](std::size_t call, const Accesses::Touch& as, std::size_t at, auto&& f) {
    return std::ranges::any_of(calls[call].touches, [&](const Accesses::Touch& each) {
      return each.hazards == as.hazards && each.range.overlaps({at, at + 8}) && f(each);
    });
  };
  for (const Accesses::Touch& one : calls[earlier].touches) {
    for (std::size_t at = one.range.begin; one.use != Use::read && at < one.range.end; at += 8) {
      bool read = any(later, one, at, [](const auto& each) { return each.use != Use::overwrite; });
      for (std::size_t k = earlier + 1; k < later; ++k) {
        const bool own = calls[k].device == calls[earlier].device;
        read = read && !any(k, one, at, [&](const Accesses::Touch& each) {
                 const bool again = own && each.use == Use::change && each.range.covers(one.range);
                 return each.use == Use::overwrite || again;
               });
      }
      if (read) return true;
    }
  }
  return false;
}

// D9: whatever the calls: no two that disturb each other are without an order, waits go backwards,
// and a task is skipped for those whose values it reads and no others
TEST(StretchesTest, RandomCallsAreOrdered) {
  for (std::uint64_t seed = 0; seed < test::seeds(2000); ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    Calls calls;
    const std::size_t size = 1 + draw(25);
    for (std::size_t k = 0; k < size; ++k) {
      std::vector<Accesses::Touch> touches;
      for (std::size_t n = draw(3); n-- > 0;) {
        const std::size_t begin = 8 * draw(4);
        touches.push_back(Calls::touch(1 + draw(3), static_cast<Use>(draw(3)),
                                       {begin, begin + 8 * (1 + draw(4))}));
      }
      calls.add(draw(3), std::move(touches), draw(10) == 0);
    }
    const std::vector<Stretch> cut = calls.cut();
    const Reached order(cut);
    std::set<std::pair<std::size_t, std::size_t>> heeded;  // stretches
    for (std::size_t b = 0; b < size; ++b) {
      ASSERT_LT(order.of(b), cut.size());
      for (std::size_t a = 0; a < b; ++a) {
        if (calls.calls()[a].device != calls.calls()[b].device && is_heeded(calls.calls(), a, b)) {
          ASSERT_TRUE(order.after(a, b, true)) << "seed " << seed << ": " << a << ", " << b;
          heeded.emplace(order.of(a), order.of(b));
        }
        for (const Accesses::Touch& one : calls.calls()[a].touches) {
          for (const Accesses::Touch& two : calls.calls()[b].touches) {
            const bool disturbs = one.hazards == two.hazards && one.range.overlaps(two.range) &&
                                  (one.use != Use::read || two.use != Use::read);
            ASSERT_TRUE(!disturbs || order.after(a, b, false))
                << "seed " << seed << ": " << a << ", " << b;
          }
        }
      }
    }
    for (std::size_t k = 0; k < cut.size(); ++k) {
      for (const Stretch::Before& each : cut[k].after) {
        ASSERT_LT(each.stretch, k);
        ASSERT_NE(cut[each.stretch].device, cut[k].device);
        ASSERT_EQ(each.heeded, heeded.contains({each.stretch, k})) << "seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace heddle::rt
