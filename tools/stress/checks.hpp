// The invariants checked after a round. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"

namespace heddle::stress {

/// The record of an accepted task, after its device became idle.
struct TaskFacts {
  std::uint64_t ticket = 0;
  bool done = false;      ///< from the event
  Status status;          ///< from the event
  int runs = 0;           ///< how often its callable was called
  bool ran_well = false;  ///< its callable returned ok, and its later end was ok too
  bool ends_later = false;
  int reports = 0;  ///< reports of the end of a task that ends later
};

struct DeviceFacts {
  std::string name;
  std::uint64_t accepted = 0;  ///< counted by submitters
  sched::Counters counters;
  std::uint64_t overlaps = 0;    ///< tasks that began while another was running
  std::uint64_t misordered = 0;  ///< tasks that ran after one with a greater ticket
  std::vector<TaskFacts> tasks;
};

/// Broken invariants, in words: order and one consumer at a time (S1), each task ends once and the
/// counters add up (S9), whoever
/// ends it (S23).
[[nodiscard]] std::vector<std::string> check(const DeviceFacts& device);

/// Spans of one track must nest: any two are disjoint, or one contains the other.
[[nodiscard]] std::vector<std::string> check(const Trace& trace);

}  // namespace heddle::stress
