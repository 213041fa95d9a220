// Uses that come after nothing, which are noted without a look at the others.
#include <vector>

#include "tests/unit/runtime/hazards_fixture.hpp"

namespace heddle::rt {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// D16: again and again on one device, nothing is looked at; another's use ends that
TEST_F(HazardsTest, PlainUses) {
  EXPECT_FALSE(hazards.plain(next(here, Use::read), 0)) << "nobody has used it";
  use(here, Use::change);
  EXPECT_FALSE(hazards.plain(next(here, Use::read), 0)) << "it was not read";
  use(here, Use::read);
  for (const Use how : {Use::read, Use::change, Use::overwrite}) {
    const auto like = hazards.plain(next(here, how), 0);
    ASSERT_TRUE(like);
    hazards.note_plainly(*like, here.next(), next(here, how), false);
  }
  EXPECT_EQ(hazards.size(), 2U) << "the last read and write";
  EXPECT_EQ(order(next(there, Use::overwrite)).waits.size(), 1U) << "the later of them";
  EXPECT_FALSE(hazards.plain(next(there, Use::read), 0));
  EXPECT_FALSE(hazards.plain(next(here, Use::read, {0, 8}), 0)) << "other bytes";
  use(there, Use::read);
  EXPECT_FALSE(hazards.plain(next(here, Use::change), 0));
  EXPECT_TRUE(hazards.plain(next(here, Use::change, {0, 16}, false), 0)) << "manual";
}

// D16, D9: parts one after the other are plain, too, until there are many records; what another
// device comes after is each of them by itself
TEST_F(HazardsTest, PlainUsesOfParts) {
  const auto part = [&](std::size_t k) { return Range{k, k + 1}; };
  const auto plainly = [&](Use how, std::size_t k) {
    const auto each = next(here, how, part(k));
    const auto like = hazards.plain(each, 1);
    if (like) hazards.note_plainly(*like, here.next(), each, false);
    return static_cast<bool>(like);
  };
  EXPECT_FALSE(plainly(Use::overwrite, 0)) << "no room yet";
  const Event first = use(here, Use::overwrite, part(0));
  EXPECT_FALSE(hazards.plain(next(here, Use::overwrite, part(1)), 0)) << "none is like it";
  std::vector<Event> writes;
  std::size_t slow = 0;
  for (std::size_t k = 1; k < 15; ++k) {
    if (!plainly(Use::overwrite, k)) {
      use(here, Use::overwrite, part(k));
      ++slow;
    }
  }
  EXPECT_LT(slow, 4U);
  EXPECT_EQ(hazards.size(), 15U);
  EXPECT_TRUE(plainly(Use::change, 3));
  EXPECT_EQ(hazards.size(), 15U);
  EXPECT_THAT(order(next(there, Use::read, part(0))).waits, ElementsAre(first.id()));
  EXPECT_EQ(order(next(there, Use::read, {3, 7})).waits.size(), 4U);
  here.end(use(here, Use::overwrite, part(15)), ErrorCode::cancelled);
  EXPECT_TRUE(order(next(there, Use::read, part(15))).refused);
  EXPECT_FALSE(order(next(there, Use::read, part(14))).refused);
  EXPECT_FALSE(hazards.plain(next(here, Use::read, part(15), true, 1), 1)) << "not written";
}

// D9: a later read of more on the same device stands for those before
TEST_F(HazardsTest, ReadsOfMoreStandForThoseOfParts) {
  for (std::size_t k = 0; k < 8; ++k) use(here, Use::read, {k, k + 1});
  EXPECT_EQ(hazards.size(), 8U);
  const Event all = use(here, Use::read, {0, 16});
  EXPECT_EQ(hazards.size(), 1U);
  EXPECT_THAT(order(next(there, Use::change, {4, 5})).waits, ElementsAre(all.id()));
}

// D9: a write like the one before is heeded, though another device overwrote that one meanwhile
TEST_F(HazardsTest, LaterPlainWritesAreHeeded) {
  const Event first = use(here, Use::change), other = use(there, Use::overwrite);
  here.end(first);
  there.end(other);
  EXPECT_THAT(order(next(here, Use::read)).waits, IsEmpty());  // forgets the other device's
  const auto like = hazards.plain(next(here, Use::change), 0);
  ASSERT_TRUE(like);
  const Event write = here.next();
  hazards.note_plainly(*like, write, next(here, Use::change), false);
  EXPECT_THAT(order(next(there, Use::read)).waits, ElementsAre(write.id()));
  here.end(write, ErrorCode::cancelled);
  EXPECT_TRUE(order(next(there, Use::read)).refused);
}

// D9: nothing is missing of what is overwritten, again and again too: of other ranges, of others
TEST_F(HazardsTest, PlainOverwritesLeaveNothingMissing) {
  use(here, Use::overwrite);
  here.end(use(here, Use::change, {0, 8}, true), ErrorCode::internal);
  EXPECT_FALSE(hazards.plain(next(here, Use::overwrite), 0));
  use(here, Use::overwrite);
  EXPECT_TRUE(hazards.plain(next(here, Use::overwrite), 0));
  EXPECT_FALSE(order(next(there, Use::read)).refused);
  use(here, Use::change, {0, 8});  // which may be cancelled yet
  EXPECT_FALSE(hazards.plain(next(here, Use::overwrite), 0));
  use(here, Use::overwrite);
  const Hazards::Next by_hand = next(here, Use::overwrite, {0, 16}, false);
  there.end(use(there, Use::change), ErrorCode::internal);
  EXPECT_FALSE(hazards.plain(by_hand, 0));
  hazards.note(here.next(), by_hand, false);
  EXPECT_TRUE(hazards.plain(by_hand, 0));
  EXPECT_FALSE(order(next(third, Use::read)).refused);
}

// D9: of two writes that were cut to the same part none stays missing when it is overwritten
TEST_F(HazardsTest, PartsThatWereCutAlike) {
  const Event first = use(here, Use::overwrite, {0, 6}, true);
  const Event second = use(here, Use::change, {2, 6}, true);
  here.end(first, ErrorCode::internal);
  here.end(second, ErrorCode::internal);
  use(here, Use::overwrite, {2, 5});
  EXPECT_FALSE(hazards.plain(next(here, Use::overwrite, {5, 6}), 0));
  use(here, Use::overwrite, {5, 6});
  EXPECT_TRUE(hazards.plain(next(here, Use::overwrite, {5, 6}), 0));
  EXPECT_FALSE(order(next(there, Use::read, {5, 6})).refused);
}

}  // namespace
}  // namespace heddle::rt
