// EventId: what an event is, in plain numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <unordered_set>

#include "heddle/scheduler.hpp"

namespace heddle {
namespace {

using testing::MatchesRegex;

// S7: copies of an event have one identity, and no two events share one
TEST(EventIdTest, IsEqualForCopiesAndForNoOtherEvents) {
  Scheduler scheduler;
  std::set<EventId> ordered;
  std::unordered_set<EventId> hashed;
  for (const char* name : {"a", "b"}) {
    const sched::TaskDevice device = scheduler.new_device(name);
    for (std::uint64_t ticket = 1; ticket <= 100; ++ticket) {
      const Event event = device.submit("task", [] {}), copy = event;
      EXPECT_EQ(copy.id(), event.id());
      EXPECT_EQ(device.record().id(), event.id()) << "nothing was submitted since";
      EXPECT_EQ(event.id().ticket, ticket);
      EXPECT_EQ(event.id().epoch, device.id());
      EXPECT_TRUE(ordered.insert(event.id()).second) << event.id().to_string();
      EXPECT_TRUE(hashed.insert(event.id()).second) << event.id().to_string();
    }
  }
  EXPECT_THAT(ordered.begin()->to_string(), MatchesRegex("[0-9a-f]{16}:[0-9]+\\.[0-9]+#1"));
}

// S7: what belongs to no timeline has the identity of nothing
TEST(EventIdTest, IsZeroWithoutATimeline) {
  Scheduler scheduler;
  const sched::TaskDevice device = scheduler.new_device("work");
  EXPECT_TRUE(device.shutdown(std::chrono::seconds(60)).ok());
  EXPECT_EQ(device.submit("late", [] {}).id(), EventId());
  EXPECT_EQ(Event().id(), EventId());
}

// S7: a place for timelines that is given to another one has another epoch, which events of the
// first one do not get
TEST(EventIdTest, PlacesThatAreUsedAgainHaveAnotherEpoch) {
  const Event first = sched::ExternalTimeline("first").next();
  const EventId before = first.id();
  for (int k = 0; k < 100'000; ++k) {
    const EventId later = sched::ExternalTimeline("later").next().id();
    ASSERT_NE(later, before);
    if (later.timeline != before.timeline) continue;
    EXPECT_GT(later.epoch, before.epoch);
    EXPECT_EQ(first.id(), before);
    return;
  }
  FAIL() << "the place was not used again";
}

// S7, S14: events that a forked child inherited are its parent's; those that it makes are its own
TEST(EventIdTest, ForkedChildrenAreOtherProcesses) {
  sched::ExternalTimeline open("open");
  const Event inherited = open.next(), closed = sched::ExternalTimeline("closed").next();
  const EventId before[] = {inherited.id(), closed.id()};
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool right = true;
    for (int k = 0; k < 1000; ++k) {  // would find the place of the closed one, if that was free
      const EventId own = sched::ExternalTimeline("own").next().id();
      right = right && own.process != before[0].process && own.process != 0;
      right = right && own.timeline != before[1].timeline;
    }
    right = right && inherited.id() == before[0] && closed.id() == before[1];
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(sched::ExternalTimeline("parent's").next().id().process, before[0].process);
}

}  // namespace
}  // namespace heddle
