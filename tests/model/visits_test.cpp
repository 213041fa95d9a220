// Visits, the shipped template, with two places: visitors that find a thing, and a remover that
// destroys it once all who may have it have left.
#include "scheduler/protocol/visits.hpp"

#include "tests/model/explore.hpp"

namespace heddle::model {
namespace {

// Two visitors share a place, a third has the other; two of them come before or after the removal.
struct RemovalAgainstVisits : rl::test_suite<RemovalAgainstVisits, 3> {
  static constexpr unsigned remover = 0;
  sched::Visits<Env<>, 2> visits;
  Atomic<unsigned> found;   // 1: visitors find the thing
  rl::var<unsigned> thing;  // 0 once it is destroyed

  void before() {
    found.store(1, std::memory_order_relaxed);
    thing($) = 1;
  }
  void thread(unsigned thread) {
    if (thread != remover) {
      visit(thread);
      if (thread == 1) visit(2);  // where another thread may be
      return;
    }
    if (!omitted(Omission::order)) found.store(0, std::memory_order_seq_cst);
    typename sched::Visits<Env<>, 2>::Seen seen;
    // It looks again later; here, three times at most.
    bool passed = omitted(Omission::recheck);
    for (int looks = 0; looks < 3 && !passed; ++looks) passed = visits.pass(seen);
    if (!passed) return;
    if (omitted(Omission::order)) found.store(0, std::memory_order_seq_cst);
    thing($) = 0;
  }
  void visit(unsigned place) {
    visits.enter(place);
    if (found.load(std::memory_order_seq_cst) != 0) RL_ASSERT(thing($) == 1);
    visits.leave(place);
  }
  void after() { RL_ASSERT(visits.total() == 3); }
};

TEST(VisitsModelTest, RemovalAgainstVisits) {
  expect_holds<RemovalAgainstVisits>();
  expect_caught<RemovalAgainstVisits>({"::enter(", Mutation::no_seq_cst});
  // Relacy takes the seq_cst store for a fence, so that an acquire in pass() would do there.
  expect_caught<RemovalAgainstVisits>({"::leave(", Mutation::no_release});
  expect_caught<RemovalAgainstVisits>({"::pass(", Mutation::relaxed});
  expect_caught<RemovalAgainstVisits>({.omission = Omission::order});
  expect_caught<RemovalAgainstVisits>({.omission = Omission::recheck});
}

}  // namespace
}  // namespace heddle::model
