// The rules of hazards by themselves: which uses a next one comes after, and what is refused.
#include "tests/unit/runtime/hazards_fixture.hpp"

#include <optional>
#include <vector>

#include "tests/unit/scheduler/allocations.hpp"

namespace heddle::rt {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// D9: a read comes after the write on another device, and only if that ended well
TEST_F(HazardsTest, ReadAfterWrite) {
  const Event write = use(here, Use::overwrite);
  const Seen seen = order(next(there, Use::read));
  EXPECT_THAT(seen.waits, ElementsAre(write.id()));
  EXPECT_THAT(seen.heeded, ElementsAre(true));
  EXPECT_THAT(order(next(here, Use::read)).waits, IsEmpty()) << "its own device has an order";
  use(here, Use::read);
  EXPECT_THAT(order(next(there, Use::read)).waits, ElementsAre(write.id()))
      << "a read does not stand for the write before it";
  here.end(write);
  EXPECT_THAT(order(next(there, Use::read)).waits, IsEmpty()) << "it ended well";
}

// D9: a write comes after reads on all other devices, however they end, and not after its own
TEST_F(HazardsTest, WriteAfterRead) {
  const Event one = use(here, Use::read), two = use(there, Use::read);
  use(third, Use::read);
  EXPECT_THAT(order(next(here, Use::read)).waits, IsEmpty()) << "reads disturb no reads";
  const Seen seen = order(next(third, Use::change));
  EXPECT_THAT(seen.waits, ElementsAre(one.id(), two.id()));
  EXPECT_THAT(seen.heeded, ElementsAre(false, false));
}

// D9: a write comes after a write: one that reads too, or leaves some of it, if that ended well
TEST_F(HazardsTest, WriteAfterWrite) {
  const Event write = use(here, Use::change);
  EXPECT_THAT(order(next(there, Use::change)).heeded, ElementsAre(true));
  const Seen seen = order(next(there, Use::overwrite));
  EXPECT_THAT(seen.waits, ElementsAre(write.id()));
  EXPECT_THAT(seen.heeded, ElementsAre(false));
}

// D9: bytes that no two uses share need no order
TEST_F(HazardsTest, Ranges) {
  const Event low = use(here, Use::overwrite, {0, 8}), high = use(third, Use::overwrite, {8, 16});
  EXPECT_THAT(order(next(there, Use::read, {0, 8})).waits, ElementsAre(low.id()));
  EXPECT_THAT(order(next(there, Use::read, {8, 12})).waits, ElementsAre(high.id()));
  EXPECT_THAT(order(next(there, Use::overwrite, {7, 9})).waits, ElementsAre(low.id(), high.id()));
  EXPECT_THAT(order(next(there, Use::read, {4, 4})).waits, IsEmpty()) << "no bytes";
}

// D9: a write on a third device stands for none before it: it may have been cancelled
TEST_F(HazardsTest, LaterWritesStandForNone) {
  const Event read = use(here, Use::read);
  const Event write = use(there, Use::overwrite);
  EXPECT_THAT(order(next(third, Use::overwrite)).waits, ElementsAre(read.id(), write.id()));
}

// D9: nobody reads what was overwritten since: the end of that matters, and not how it ends
TEST_F(HazardsTest, OverwrittenValuesAreNotHeeded) {
  const Event before = use(here, Use::overwrite), after = use(there, Use::overwrite);
  const Seen seen = order(next(third, Use::read));
  EXPECT_THAT(seen.waits, ElementsAre(before.id(), after.id()));
  EXPECT_THAT(seen.heeded, ElementsAre(false, true));
}

// D9: what a write left that ended badly is refused, until it is written anew
TEST_F(HazardsTest, BadWritesAreRefused) {
  here.end(use(here, Use::overwrite), ErrorCode::internal);
  EXPECT_TRUE(order(next(there, Use::read)).refused);
  EXPECT_TRUE(order(next(there, Use::change)).refused);
  EXPECT_FALSE(order(next(there, Use::read, {16, 32})).refused);
  EXPECT_FALSE(order(next(there, Use::overwrite)).refused);
  const Event anew = use(there, Use::overwrite);
  EXPECT_FALSE(order(next(third, Use::read)).refused);
  there.end(anew);
  EXPECT_FALSE(order(next(here, Use::read)).refused);
}

// D9: byte by byte: of what is written anew nothing is missing, of the rest all is
TEST_F(HazardsTest, BadWritesAreRefusedByRange) {
  here.end(use(here, Use::overwrite, {4, 12}), ErrorCode::internal);
  there.end(use(there, Use::overwrite, {6, 8}));
  EXPECT_FALSE(order(next(third, Use::read, {6, 8})).refused);
  EXPECT_FALSE(order(next(third, Use::read, {0, 4})).refused);
  EXPECT_TRUE(order(next(third, Use::read, {4, 6})).refused);
  EXPECT_TRUE(order(next(third, Use::read, {8, 9})).refused);
  there.end(use(there, Use::overwrite, {0, 16}));
  EXPECT_FALSE(order(next(third, Use::read)).refused);
}

// D9: on its own device too, once it was cancelled, recovered from, or contained
TEST_F(HazardsTest, BadWritesOfItsOwnDevice) {
  const Event write = use(here, Use::overwrite);
  EXPECT_THAT(order(next(here, Use::read, {0, 16}, true, 1)).waits, ElementsAre(write.id()));
  EXPECT_FALSE(hazards.plain(next(here, Use::read, {0, 16}, true, 1), 0));
  here.end(write, ErrorCode::cancelled);
  EXPECT_TRUE(order(next(here, Use::read, {0, 16}, true, 1)).refused);
  const Event contained = use(here, Use::overwrite, {0, 16}, true);
  const Seen seen = order(next(here, Use::read));
  EXPECT_THAT(seen.waits, ElementsAre(contained.id()));
  EXPECT_THAT(seen.heeded, ElementsAre(true));
  use(here, Use::read);
  EXPECT_FALSE(hazards.plain(next(here, Use::read), 0)) << "which looks at nothing";
}

// D9: tasks that had their tickets may be let go of while that is under way
TEST_F(HazardsTest, WritesWhileOthersAreCancelledAreLookedAt) {
  constexpr std::uint64_t under_way = (1 << 16) + 1, over = 1 << 16;
  const auto write_then_read = [&](std::uint64_t at_write, std::uint64_t at_read) {
    sched::TaskNote note;
    const auto write = next(here, Use::overwrite, {0, 16}, true, at_write);
    EXPECT_FALSE(hazards.order(write, 1, note));
    hazards.note(here.next(), write, false);
    return order(next(here, Use::read, {0, 16}, true, at_read)).waits.size();
  };
  EXPECT_EQ(write_then_read(under_way, under_way), 1U);
  EXPECT_EQ(write_then_read(under_way, over), 1U);
  EXPECT_EQ(write_then_read(0, over), 1U);
  EXPECT_EQ(write_then_read(over, over), 0U);
}

// D9: a task whose device is disturbed as it takes its ticket comes after what it took for granted
TEST_F(HazardsTest, DoubtsWhatItReads) {
  use(there, Use::read, {8, 16});
  const Event read = use(here, Use::overwrite, {0, 8}), other = use(here, Use::overwrite, {8, 16});
  const auto doubts = [&](Use how, Range range) {
    sched::TaskNote note;
    hazards.doubt(next(here, how, range), note);
    std::vector<EventId> waits;
    for (const sched::Awaited& each : note.after) {
      EXPECT_TRUE(each.heeded);
      waits.push_back(each.event.id());
    }
    return waits;
  };
  EXPECT_THAT(doubts(Use::read, {0, 8}), ElementsAre(read.id()));
  EXPECT_THAT(doubts(Use::change, {4, 12}), ElementsAre(read.id(), other.id()));
  EXPECT_THAT(doubts(Use::overwrite, {0, 16}), IsEmpty());
}

// D9: what is read and then overwritten needs what was there, and leaves nothing of it missing
TEST_F(HazardsTest, ReplacedValuesAreNotMissing) {
  const Event write = use(here, Use::change);
  EXPECT_THAT(order(next(there, Use::replace)).heeded, ElementsAre(true));
  const Hazards::Next by_hand = next(there, Use::replace, {0, 16}, false);
  hazards.note(there.next(), by_hand, false);
  EXPECT_TRUE(hazards.plain(by_hand, 0));
  here.end(write, ErrorCode::internal);
  EXPECT_FALSE(order(next(third, Use::read)).refused);
  here.end(use(here, Use::change), ErrorCode::internal);
  EXPECT_TRUE(order(next(third, Use::replace)).refused);
  EXPECT_FALSE(hazards.plain(by_hand, 0)) << "it has something to renew";
}

// D9, D17: manual, only uses of former owners come before
TEST_F(HazardsTest, Manual) {
  const Event write = use(here, Use::overwrite);
  EXPECT_THAT(order(next(there, Use::read, {0, 16}, false)).waits, IsEmpty());
  hazards = hazards.of_next_owner();
  EXPECT_THAT(order(next(there, Use::read, {0, 16}, false)).waits, ElementsAre(write.id()));
  for (const Use how : {Use::read, Use::overwrite})
    EXPECT_FALSE(hazards.plain(next(here, how, {0, 16}, false), 0));
}

// D2: first values come first, however they end
TEST_F(HazardsTest, FirstValues) {
  const Event values = here.next();
  hazards.begin_with(values, {0, 16});
  const Seen seen = order(next(there, Use::read, {0, 8}, false));
  EXPECT_THAT(seen.waits, ElementsAre(values.id()));
  EXPECT_THAT(seen.heeded, ElementsAre(false));
  here.end(values, ErrorCode::cancelled);
  EXPECT_FALSE(order(next(there, Use::read)).refused);
}

// D16: noting what was ordered takes no memory, however many records it splits
TEST_F(HazardsTest, NotingTakesNoMemory) {
  std::vector<Host> others;
  for (int k = 0; k < 6; ++k) others.emplace_back("other");
  for (Host& other : others) use(other, Use::change);
  const Hazards::Next parts[] = {next(here, Use::overwrite, {2, 4}),
                                 next(here, Use::overwrite, {6, 8}),
                                 next(here, Use::overwrite, {3, 7})};
  sched::TaskNote note;
  for (const Hazards::Next& part : parts) EXPECT_FALSE(hazards.order(part, std::size(parts), note));
  const Event event = here.next();
  const std::uint64_t before = allocations();
  for (const Hazards::Next& part : parts) hazards.note(event, part, false);
  EXPECT_EQ(allocations(), before);
  EXPECT_GT(hazards.size(), 30U);
}

// D16: nor where a task overwrites parts of what it changes
TEST_F(HazardsTest, NotingWhatTheTaskChangesTakesNoMemory) {
  std::vector<Hazards::Next> uses{next(here, Use::change, {0, 64})};
  for (std::size_t k = 0; k < 16; ++k)
    uses.push_back(next(here, Use::overwrite, {4 * k + 1, 4 * k + 2}));
  sched::TaskNote note;
  for (const Hazards::Next& each : uses) EXPECT_FALSE(hazards.order(each, uses.size(), note));
  const Event event = here.next();
  const std::uint64_t before = allocations();
  for (const Hazards::Next& each : uses) hazards.note(event, each, false);
  EXPECT_EQ(allocations(), before);
  here.end(event, ErrorCode::internal);
  EXPECT_TRUE(order(next(there, Use::read, {0, 1})).refused);
  EXPECT_TRUE(order(next(there, Use::read, {1, 2})).refused);
}

// D9, D19: what was accepted comes after what it misses, instead of being refused
TEST_F(HazardsTest, AcceptedUsesAreNotRefused) {
  const Event write = use(here, Use::overwrite);
  here.end(write, ErrorCode::internal);
  Hazards::Next read = next(there, Use::read);
  EXPECT_TRUE(order(read).refused);
  read.accepted = true;
  const Seen seen = order(read);
  EXPECT_FALSE(seen.refused);
  EXPECT_THAT(seen.waits, ElementsAre(write.id()));
  EXPECT_THAT(seen.heeded, ElementsAre(true));
}

// D9: of what is not heeded the last on each timeline stands for those before it
TEST_F(HazardsTest, OneWaitForEachTimeline) {
  Hazards second, third_one;
  const auto ordered = [&](Use how) {
    sched::TaskNote note;
    for (Hazards* const each : {&second, &hazards, &third_one})
      EXPECT_FALSE(each->order(next(there, how), 1, note));
    std::vector<std::pair<EventId, bool>> seen;
    for (const sched::Awaited& each : note.after) seen.emplace_back(each.event.id(), each.heeded);
    return seen;
  };
  const Event first = use(here, Use::change);
  const Event middle = here.next();
  second.note(middle, next(here, Use::read), false);
  const Event last = here.next();
  third_one.note(last, next(here, Use::read), false);
  EXPECT_THAT(ordered(Use::overwrite), ElementsAre(testing::Pair(last.id(), false)));
  EXPECT_THAT(ordered(Use::change),
              ElementsAre(testing::Pair(last.id(), false), testing::Pair(first.id(), true)));
}

// What was kept does not grow with what was done
TEST_F(HazardsTest, ForgetsWhatIsOver) {
  for (std::size_t k = 0; k < 1000; ++k) {
    here.end(use(here, Use::overwrite, {k, k + 1}));
  }
  use(here, Use::read);
  EXPECT_LE(hazards.size(), 20U);
}

}  // namespace
}  // namespace heddle::rt
