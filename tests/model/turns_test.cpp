// Turns (FIFO lock): the shipped template, between threads that publish and the consumer whose turn
// one of the threads takes. Only Turns orders the published data here, except for a visitor's first
// look.
#include "scheduler/protocol/turns.hpp"

#include "scheduler/protocol/fork_join.hpp"
#include "tests/model/explore.hpp"

namespace heddle::model {
namespace {

// Two threads publish, one of them twice; each thread looks after its own request, unless the other
// thread does.
struct AskAgainstEnd : rl::test_suite<AskAgainstEnd, 2> {
  static constexpr unsigned items = 3;
  sched::Turns<Env<>> turns;
  Atomic<unsigned> published[items];
  rl::var<unsigned> seen[items];  // the consumer's: a turn finds the state that the last turn left

  AskAgainstEnd() {
    for (auto& item : seen) item($) = 0;
  }
  void thread(unsigned thread) {
    for (unsigned item = thread; item < items; item += 2) publish(item);
  }
  void publish(unsigned item) {
    if (!omitted(Omission::order)) published[item].store(1, std::memory_order_relaxed);
    const bool mine = !omitted(Omission::wake) && turns.ask();
    if (omitted(Omission::order)) published[item].store(1, std::memory_order_relaxed);
    if (mine) take_turn();
  }
  void take_turn() {
    std::uint64_t known = 1;
    while (true) {
      for (unsigned item = 0; item < items; ++item) {
        if (published[item].load(std::memory_order_relaxed) != 0) seen[item]($) = 1;
      }
      if (turns.end(known)) return;
      if (omitted(Omission::recheck)) {
        while (!turns.end(known)) {
        }
        return;
      }
    }
  }
  void after() {
    for (auto& item : seen) RL_ASSERT(item($) == 1);
  }
};

TEST(TurnsModelTest, AskAgainstEnd) {
  expect_holds<AskAgainstEnd>();
  expect_caught<AskAgainstEnd>({"::ask(", Mutation::no_release});
  expect_caught<AskAgainstEnd>({"::ask(", Mutation::no_acquire});
  expect_caught<AskAgainstEnd>({"::end(", Mutation::no_release});
  expect_caught<AskAgainstEnd>({"::end(", Mutation::no_acquire});
  expect_caught<AskAgainstEnd>({.omission = Omission::order});
  expect_caught<AskAgainstEnd>({.omission = Omission::recheck});
  expect_caught<AskAgainstEnd>({.omission = Omission::wake});
}

// A place of a team that visitors take, as HelperPlace: the owner of two jobs runs no part, and
// asks for a visit after each publication; the visitor finds the job.
struct PlaceIsVisited : rl::test_suite<PlaceIsVisited, 2> {
  static constexpr unsigned over = 10;
  sched::ForkJoin<unsigned, Env<>> fork_join;
  sched::Turns<Env<>> turns;
  Atomic<unsigned> sent;
  rl::var<unsigned> runs[2];

  PlaceIsVisited() {
    for (auto& job : runs) job($) = 0;
  }
  void thread(unsigned thread) { thread == 0 ? own() : visit(); }
  void own() {
    for (unsigned job = 0; job < 2; ++job) {
      if (!omitted(Omission::order)) fork_join.publish(job, 1);
      const bool mine = turns.ask();
      if (omitted(Omission::order)) fork_join.publish(job, 1);
      if (mine) sent.fetch_add(1, std::memory_order_release);  // stands for the inbox of a pool
      while (fork_join.ended() != 1) pause();
      RL_ASSERT(runs[job]($) == 1);
    }
    sent.fetch_add(over, std::memory_order_release);
  }
  void visit() {
    for (unsigned seen = 0;; ++seen) {
      while (sent.load(std::memory_order_acquire) == seen) pause();
      if (sent.load(std::memory_order_acquire) >= over) return;
      std::uint64_t known = 1;
      do {
        if (known == 1 || !omitted(Omission::recheck)) help();
      } while (!turns.end(known));
    }
  }
  void help() {
    if (!fork_join.is_open() || fork_join.claim() == 0) return;
    auto& mine = runs[fork_join.job()];
    mine($) = mine($) + 1;
    RL_ASSERT(!fork_join.end(1, 0));
  }
};

TEST(TurnsModelTest, PlaceIsVisited) {
  expect_holds<PlaceIsVisited>();
  expect_caught<PlaceIsVisited>({"::ask(", Mutation::no_release});
  expect_caught<PlaceIsVisited>({"::end(", Mutation::no_acquire});
  expect_caught<PlaceIsVisited>({.omission = Omission::order});
  expect_caught<PlaceIsVisited>({.omission = Omission::recheck});
}

}  // namespace
}  // namespace heddle::model
