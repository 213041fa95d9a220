// Turns: the shipped template, between threads that publish and the consumer whose turn one of them
// takes. What is published is ordered by Turns alone here.
#include "scheduler/protocol/turns.hpp"

#include "tests/model/explore.hpp"

namespace heddle::model {
namespace {

// Two threads publish, one of them twice; each looks after its own request, where nobody else does.
struct AskAgainstEnd : rl::test_suite<AskAgainstEnd, 2> {
  static constexpr unsigned items = 3;
  sched::Turns<Env<>> turns;
  Atomic<unsigned> published[items];
  rl::var<unsigned> seen[items];  // the consumer's: a turn finds what the last one left

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

}  // namespace
}  // namespace heddle::model
