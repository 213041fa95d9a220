// Uses of one memory by timelines whose tickets end when a test says so.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "heddle/heddle.hpp"
#include "runtime/memory/hazards.hpp"
#include "scheduler/protocol/awaited.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::rt {
/// A timeline whose tickets end when the test says so.
class Host {
 public:
  explicit Host(const char* name) : timeline_(name), id_(next().device_id()) {
    EXPECT_TRUE(timeline_.signal(1).ok());
  }
  [[nodiscard]] std::uint64_t id() const { return id_; }
  Event next() { return timeline_.next(); }
  void end(const Event& event, ErrorCode code = ErrorCode::ok) {
    const Status status = code == ErrorCode::ok ? Status() : Status(code, "broken");
    EXPECT_TRUE(timeline_.signal(event.ticket(), status).ok());
  }

 private:
  sched::ExternalTimeline timeline_;
  const std::uint64_t id_;
};

/// Uses of one memory.
class HazardsTest : public testing::Test {
 protected:
  struct Seen {
    std::vector<EventId> waits;
    std::vector<bool> heeded;
    bool refused = false;
  };
  static Hazards::Next next(const Host& on, Use use, Range range = {0, 16}, bool automatic = true,
                            std::uint64_t disturbances = 0) {
    return {on.id(), disturbances, range, use, automatic};
  }
  /// What a next use would come after.
  Seen order(const Hazards::Next& next) {
    sched::TaskNote note;
    Seen seen;
    seen.refused = hazards.order(next, 1, note).has_value();
    for (const sched::Awaited& each : note.after) {
      seen.waits.push_back(each.event.id());
      seen.heeded.push_back(each.heeded);
    }
    return seen;
  }
  /// A use that is accepted.
  Event use(Host& on, Use how, Range range = {0, 16}, bool contained = false) {
    const Hazards::Next mine = next(on, how, range);
    sched::TaskNote note;
    EXPECT_FALSE(hazards.order(mine, 1, note));
    const Event event = on.next();
    hazards.note(event, mine, contained);
    return event;
  }

  Host here{"here"}, there{"there"}, third{"third"};
  Hazards hazards;
};

}  // namespace heddle::rt
