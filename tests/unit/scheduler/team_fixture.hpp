// What tests of teams share: parts that count, and parts that wait for each other. Any thread.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "scheduler/threads/team.hpp"
#include "tests/support/before_long.hpp"

namespace heddle::sched {

/// run() of any callable.
template <class F>
std::uint32_t run(Team& team, std::uint32_t parts, F& part, const std::stop_token& stop = {}) {
  const PartFunction call = [](void* context, std::uint32_t number, std::uint32_t member) noexcept {
    (*static_cast<F*>(context))(number, member);
  };
  return team.run(parts, call, const_cast<std::remove_const_t<F>*>(&part), stop);
}

inline void assign_all(Crew& crew, Team* team) {
  for (std::uint32_t k = 0; k < crew.size(); ++k) crew.assign(k, team);
}

/// How often each part ran, and whether two threads were one member.
class Counts {
 public:
  static constexpr std::uint32_t parts_max = 1000;

  void operator()(std::uint32_t part, std::uint32_t member) {
    if (inside_[member].exchange(true)) ++wrong_;
    ++runs_[part];  // a plain count: run() orders
    // relaxed: the next exchange by this member, or run(), orders.
    inside_[member].store(false, std::memory_order_relaxed);
  }
  /// Whether each of `parts` ran once, and no other; begins again.
  [[nodiscard]] bool were_once(std::uint32_t parts) { return were_the_first(parts, 0); }
  /// Whether `parts` ran, each once, and before the last of them at most `left_out` did not.
  [[nodiscard]] bool were_the_first(std::uint32_t parts, std::uint32_t left_out) {
    bool once = wrong_ == 0;
    std::uint32_t ran = 0;
    for (std::uint32_t k = 0; k < parts_max; ++k) {
      const int runs = std::exchange(runs_[k], 0);
      once &= runs == 0 || (runs == 1 && k < parts + left_out);
      if (runs != 0) ++ran;
    }
    return once && ran == parts;
  }

 private:
  std::array<int, parts_max> runs_{};
  std::array<std::atomic<bool>, helpers_max + 1> inside_{};
  std::atomic<int> wrong_{0};
};

/// Parts that wait for each other, and so take as many threads.
struct Meeting {
  explicit Meeting(std::uint32_t count) : parts(count) {}
  void operator()(std::uint32_t /*part*/, std::uint32_t member) {
    ++begun;
    members |= std::uint64_t{1} << member;
    if (!test::before_long([&] { return begun >= parts; })) failed = true;
  }
  const std::uint32_t parts;
  std::atomic<std::uint32_t> begun{0};
  std::atomic<std::uint64_t> members{0};
  std::atomic<bool> failed{false};
};

inline bool all_meet(Team& team, std::uint32_t members) {
  Meeting meeting(members);
  return run(team, members, meeting) == 0 && !meeting.failed &&
         meeting.members == (std::uint64_t{2} << (members - 1)) - 1;
}

/// By how many threads take part.
class TeamWidthTest : public testing::TestWithParam<std::uint32_t> {};

}  // namespace heddle::sched
