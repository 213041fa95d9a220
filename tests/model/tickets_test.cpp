// Threads that take tickets, and threads that read the number of tickets taken: with a bias, and
// without.
#include "tests/model/explore.hpp"

namespace heddle::model {
namespace {

using sched::Bias;
using sched::Lane;

/// A lane without publications; its memory is outside the model.
template <class LaneEnv>
struct Tickets {
  std::optional<Lane<LaneEnv, 1>> lane;

  void open() {
    const Outside memory;
    lane.emplace(4);
  }
  void close() {
    const Outside memory;
    lane.reset();
  }
  std::uint64_t take(std::uint64_t me) {
    return lane->reserve(me, [] { return std::uint64_t{0}; });
  }
};

// A reader of the number of tickets taken sees the earlier writes of the takers: the owner of the
// bias and a second thread; or two takers without a bias.
template <Mutation mutation>
struct ReadTickets : rl::test_suite<ReadTickets<mutation>, 3> {
  Tickets<Env<mutation>> tickets;
  rl::var<unsigned> before_ticket[2];

  void before() {
    tickets.open();
    for (auto& b : before_ticket) b($) = 0;
  }
  void after() { tickets.close(); }
  void thread(unsigned thread) {
    if (thread == 0) {
      before_ticket[0]($) = 1;
      RL_ASSERT(tickets.take(1) != 0);
      raised.raise();
    } else if (thread == 1) {
      raised.wait();
      before_ticket[1]($) = 1;
      RL_ASSERT(tickets.take(2) == 2);
    } else {
      const std::uint64_t taken = tickets.lane->tickets();
      for (std::uint64_t k = 0; k < taken; ++k) RL_ASSERT(before_ticket[k]($) == 1);
    }
  }
  Flag raised;
};

TEST(TicketsModelTest, ReadTickets) {
  using WithBias = ReadTickets<Mutation::none>;
  using WithoutBias = ReadTickets<Mutation::symmetric>;
  expect_holds<WithBias>();
  expect_caught<WithBias>({"::tickets(", Mutation::no_acquire});
  expect_holds<WithoutBias>();
  expect_caught<WithoutBias>({"::tickets(", Mutation::no_acquire});
  expect_caught<WithoutBias>({"::reserve(", Mutation::no_release});
}

// The second of two threads that take tickets by exchange sees the first thread's earlier writes; a
// thread that finds the lane closed sees the closing thread's earlier writes.
struct TicketsInOrder : rl::test_suite<TicketsInOrder, 3> {
  Tickets<Env<>> tickets;
  rl::var<unsigned> before_taken[2], before_closed;

  void before() {
    tickets.open();
    RL_ASSERT(tickets.take(8) == 1 && tickets.take(9) == 2);  // ends the bias
    before_taken[0]($) = before_taken[1]($) = before_closed($) = 0;
  }
  void after() { tickets.close(); }
  void thread(unsigned thread) {
    if (thread == 2) {
      before_closed($) = 1;
      return tickets.lane->close();
    }
    before_taken[thread]($) = 1;
    const std::uint64_t ticket = tickets.take(thread + 1);
    if (ticket == 4) RL_ASSERT(before_taken[1 - thread]($) == 1);
    if (ticket == 0 && tickets.lane->closed()) RL_ASSERT(before_closed($) == 1);
  }
};

TEST(TicketsModelTest, TicketsInOrder) {
  expect_holds<TicketsInOrder>();
  expect_caught<TicketsInOrder>({"::reserve(", Mutation::no_acquire});
  expect_caught<TicketsInOrder>({"::reserve(", Mutation::no_release});
  expect_caught<TicketsInOrder>({"::close(", Mutation::no_release});
  expect_caught<TicketsInOrder>({"::closed(", Mutation::no_acquire});
}

// Three threads take the bias away from its owner; afterwards the owner is outside, and its writes
// are visible to the three.
struct ThreeRevoke : rl::test_suite<ThreeRevoke, 4> {
  Bias<Env<>> bias;
  rl::var<unsigned> inside;

  void before() {
    inside($) = 0;
    RL_ASSERT(bias.claim(1));
  }
  void thread(unsigned thread) {
    if (thread == 0) {
      if (!bias.enter(1)) return;
      inside($) = 1;
      bias.leave();
      return;
    }
    bias.revoke();
    RL_ASSERT(inside($) <= 1);
    RL_ASSERT(!bias.enter(1));
  }
  void after() { RL_ASSERT(bias.is_revoked()); }
};

TEST(TicketsModelTest, ThreeRevoke) {
  expect_holds<ThreeRevoke>(-1);
  expect_caught<ThreeRevoke>({"::revoke(", Mutation::no_release});
  expect_caught<ThreeRevoke>({"::revoke(", Mutation::no_acquire});
  expect_caught<ThreeRevoke>({"::leave(", Mutation::no_release});
}

}  // namespace
}  // namespace heddle::model
