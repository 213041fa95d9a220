// Visits (reader sections), the shipped template, with two places: visitors that find an object,
// and a remover that destroys the object once every visitor that may have it has left.
#include "scheduler/protocol/visits.hpp"

#include "tests/model/explore.hpp"

namespace heddle::model {
namespace {

// Two visits share a place, and a third visit has the other place; two of the visits come before or
// after the removal.
struct RemovalAgainstVisits : rl::test_suite<RemovalAgainstVisits, 3> {
  static constexpr unsigned remover = 0;
  sched::Visits<Env<>, 2> visits;
  Atomic<unsigned> found;   // 1: visitors find the object
  rl::var<unsigned> thing;  // 0 once destroyed

  void before() {
    found.store(1, std::memory_order_relaxed);
    thing($) = 1;
  }
  void thread(unsigned thread) {
    if (thread != remover) {
      visit(thread);
      if (thread == 1) visit(2);  // a place that another thread may use too
      return;
    }
    if (!omitted(Omission::order)) found.store(0, std::memory_order_seq_cst);
    typename sched::Visits<Env<>, 2>::Seen seen;
    // The remover looks repeatedly; here, at most three times.
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
  // Relacy treats the seq_cst store as a fence, which makes an acquire in pass() sufficient here.
  expect_caught<RemovalAgainstVisits>({"::leave(", Mutation::no_release});
  expect_caught<RemovalAgainstVisits>({"::pass(", Mutation::relaxed});
  expect_caught<RemovalAgainstVisits>({.omission = Omission::order});
  expect_caught<RemovalAgainstVisits>({.omission = Omission::recheck});
}

}  // namespace
}  // namespace heddle::model
