// Visits (reader sections), the shipped template, with two places: visitors that find an object,
// and a remover that destroys the object once every visitor that may have it has left.
#include "scheduler/protocol/visits.hpp"

#include "tests/model/explore.hpp"

namespace heddle::model {
namespace {

// A thread with a part of its place to itself visits twice, and the second visit ends on another
// thread, so to speak; a second thread shares the place. Visits come before or after the removal.
struct RemovalAgainstVisits : rl::test_suite<RemovalAgainstVisits, 3> {
  using Visits = sched::Visits<Env<>, 2>;
  static constexpr unsigned remover = 0;
  Visits visits;
  Atomic<unsigned> found;   // 1: visitors find the object
  rl::var<unsigned> thing;  // 0 once destroyed

  void before() {
    found.store(1, std::memory_order_relaxed);
    thing($) = 1;
    visits.leave(1, visits.enter(1));  // the first thread of the place
  }
  void thread(unsigned thread) {
    if (thread != remover) {
      visit(thread == 1 ? 1 : 3, false);  // the same place
      if (thread == 1) visit(1, true);
      return;
    }
    if (!omitted(Omission::order)) found.store(0, std::memory_order_seq_cst);
    Visits::Seen seen;
    // The remover looks repeatedly; here, at most three times.
    bool passed = omitted(Omission::recheck);
    for (int looks = 0; looks < 3 && !passed; ++looks) passed = visits.pass(seen);
    if (!passed) return;
    if (omitted(Omission::order)) found.store(0, std::memory_order_seq_cst);
    thing($) = 0;
  }
  void visit(unsigned number, bool moves) {
    const Visits::By by = visits.enter(number);
    RL_ASSERT((by == Visits::By::own) == (number == 1));
    if (found.load(std::memory_order_seq_cst) != 0) RL_ASSERT(thing($) == 1);
    visits.leave(number, moves ? Visits::By::shared : by);
  }
  void after() { RL_ASSERT(visits.total() == 4); }
};

TEST(VisitsModelTest, RemovalAgainstVisits) {
  expect_holds<RemovalAgainstVisits>();
  expect_caught<RemovalAgainstVisits>({"::enter(", Mutation::no_seq_cst});
  // Relacy treats the seq_cst store as a fence, which makes an acquire in pass() sufficient here.
  expect_caught<RemovalAgainstVisits>({"::leave(", Mutation::no_release});
  expect_caught<RemovalAgainstVisits>({"::pass(", Mutation::relaxed});
  expect_caught<RemovalAgainstVisits>({.omission = Omission::order});
  expect_caught<RemovalAgainstVisits>({.omission = Omission::recheck});
}

}  // namespace
}  // namespace heddle::model
