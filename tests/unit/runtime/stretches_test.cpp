// How recorded calls are cut into tasks, without devices: buffers are never looked into.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "runtime/stretches.hpp"
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

/// Whether by the cut `later` comes after `earlier`: on its device, or by waits.
class Reached {
 public:
  explicit Reached(const std::vector<Stretch>& cut) : cut_(cut), before_(cut.size()) {
    for (std::size_t k = 0; k < cut.size(); ++k) {
      before_[k].assign(cut.size(), false);
      const auto join = [&](std::size_t other) {
        before_[k][other] = true;
        for (std::size_t n = 0; n < cut.size(); ++n)
          before_[k][n] = before_[k][n] || before_[other][n];
      };
      for (std::size_t other = 0; other < k; ++other) {
        if (cut[other].device == cut[k].device) join(other);
      }
      for (const Stretch::Before& each : cut[k].after) join(each.stretch);
    }
  }
  [[nodiscard]] std::size_t of(std::size_t call) const {
    for (std::size_t k = 0; k < cut_.size(); ++k) {
      if (std::ranges::find(cut_[k].calls, call) != cut_[k].calls.end()) return k;
    }
    return cut_.size();
  }
  [[nodiscard]] bool after(std::size_t earlier, std::size_t later) const {
    return of(earlier) == of(later) || before_[of(later)][of(earlier)];
  }

 private:
  const std::vector<Stretch>& cut_;
  std::vector<std::vector<bool>> before_;
};

// D9: whatever the calls: no two that disturb each other are without an order, waits go backwards
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
    for (std::size_t k = 0; k < cut.size(); ++k) {
      for (const Stretch::Before& each : cut[k].after) {
        ASSERT_LT(each.stretch, k);
        ASSERT_NE(cut[each.stretch].device, cut[k].device);
      }
    }
    const Reached order(cut);
    for (std::size_t b = 0; b < size; ++b) {
      ASSERT_LT(order.of(b), cut.size());
      for (std::size_t a = 0; a < b; ++a) {
        for (const Accesses::Touch& one : calls.calls()[a].touches) {
          for (const Accesses::Touch& two : calls.calls()[b].touches) {
            const bool disturbs = one.hazards == two.hazards && one.range.overlaps(two.range) &&
                                  (one.use != Use::read || two.use != Use::read);
            ASSERT_TRUE(!disturbs || order.after(a, b))
                << "seed " << seed << ": " << a << ", " << b;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace heddle::rt
