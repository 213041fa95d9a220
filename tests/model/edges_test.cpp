// Uses of the protocols that other scenarios omit: a second sleep, a reused timeline, notes.
#include "tests/model/waiting.hpp"

namespace heddle::model {
namespace {

using sched::Doorbell;
using sched::Lane;
using sched::Progress;

// A consumer sleeps twice, without membarrier: between the sleeps it found work, and unparked by
// itself.
struct SleepTwice : rl::test_suite<SleepTwice, 2> {
  Doorbell<Env<Mutation::symmetric>> bell;
  Atomic<unsigned> published[2];
  Token token;

  bool nothing(unsigned k) const { return published[k].load(std::memory_order_acquire) == 0; }
  void thread(unsigned thread) {
    for (unsigned k = 0; k < 2; ++k) {
      if (thread == 0) {
        published[k].store(1, std::memory_order_release);
        if (bell.ring()) token.unpark();
        continue;
      }
      while (nothing(k)) {
        bell.park();
        if (nothing(k)) {
          token.park();
        } else {
          bell.unpark();
        }
      }
    }
  }
};

TEST(EdgesModelTest, SleepTwice) {
  expect_holds<SleepTwice>();
  expect_caught<SleepTwice>({"::unpark(", Mutation::clears});
  expect_caught<SleepTwice>({"::ring(", Mutation::clears});
}

/// One thread rings; another thread goes to sleep, and gets up at once.
template <bool wakes_runner>
struct RingAndNap {
  Doorbell<Env<>> bell{wakes_runner};

  void ring_or_nap(unsigned thread) {
    if (thread == 0) {
      (void)bell.ring();
    } else {
      bell.park();
      bell.unpark();
    }
  }
};

// The doorbell of a device without a thread is never quiet, even after threads rang, slept or got
// up.
struct NeverQuiet : rl::test_suite<NeverQuiet, 2>, RingAndNap<true> {
  void thread(unsigned thread) {
    ring_or_nap(thread);
    RL_ASSERT(!bell.quiet());
  }
};

TEST(EdgesModelTest, NeverQuiet) {
  expect_holds<NeverQuiet>();
  expect_caught<NeverQuiet>({"::unpark(", Mutation::clears});
  expect_caught<NeverQuiet>({"::ring(", Mutation::clears});
}

// Once the consumer is up, producers pay no more.
struct QuietAgain : rl::test_suite<QuietAgain, 2>, RingAndNap<false> {
  void thread(unsigned thread) { ring_or_nap(thread); }
  void after() { RL_ASSERT(bell.quiet()); }
};

TEST(EdgesModelTest, QuietAgain) {
  expect_holds<QuietAgain>();
  expect_caught<QuietAgain>({"::unpark(", Mutation::drop});
}

/// Counts the heavy barriers that waiters pay for.
struct CountedEnv : Env<> {
  static void heavy_barrier(Where at = Where::current()) {
    ++heavy;
    Env<>::heavy_barrier(at);
  }
  static inline unsigned heavy = 0;
};

// Waiters of an already watched completer pass no heavy barrier, and a completer without waiters
// continues unwatched. A reused timeline behaves like a new timeline, whatever its history.
struct PayNothing : rl::test_suite<PayNothing, 1> {
  using Counted = Progress<CountedEnv, 1>;
  Counted progress;

  void before() { CountedEnv::heavy = 0; }
  void thread(unsigned /*thread*/) {
    RL_ASSERT(progress.expect(9, 9) && CountedEnv::heavy == 1);
    RL_ASSERT(progress.expect(8, 8) && CountedEnv::heavy == 1);
    RL_ASSERT(!progress.advance(1) && !progress.pass(2));
    RL_ASSERT(progress.advance(8));
    RL_ASSERT(progress.expect(9, 9) && CountedEnv::heavy == 1);
    progress.expect_no_sooner_than(Counted::nobody);
    RL_ASSERT(!progress.advance(9));
    RL_ASSERT(progress.expect(10, 10) && CountedEnv::heavy == 2);
    progress.restart();
    RL_ASSERT(progress.completed() == 0 && !progress.pass(1) && !progress.look(10));
  }
};

TEST(EdgesModelTest, PayNothing) {
  expect_holds<PayNothing>();
  expect_caught<PayNothing>({"::expect(", Mutation::drop});
  expect_caught<PayNothing>({"::watch(", Mutation::drop});
  expect_caught<PayNothing>({"::expect_no_sooner_than(", Mutation::drop});
  expect_caught<PayNothing>({"::restart(", Mutation::drop});
}

// A completer that looks because a thread attracted it sees the earlier writes of that thread at
// once.
struct AttractIsSeen : rl::test_suite<AttractIsSeen, 2> {
  Progress<Env<>, 2> progress;
  rl::var<unsigned> written;

  void before() { written($) = 0; }
  void thread(unsigned thread) {
    if (thread == 0) {
      written($) = 1;
      progress.attract();
    } else if (progress.pass(1)) {
      (void)progress.look(1);
      RL_ASSERT(written($) == 1);
    }
  }
};

TEST(EdgesModelTest, AttractIsSeen) {
  expect_holds<AttractIsSeen>();
  expect_caught<AttractIsSeen>({"::pass(", Mutation::no_acquire});
  expect_caught<AttractIsSeen>({"::attract(", Mutation::no_release});
}

// A thread waits for the last ticket; while the completer becomes unwatched, a second thread comes
// and waits for an earlier ticket. The completer wakes the second thread for the earlier ticket:
// the last ticket ends only after the second thread has continued.
struct EarlierTicketLater : rl::test_suite<EarlierTicketLater, 3> {
  Waiters<2> timeline;
  Flag woken;

  void thread(unsigned thread) {
    if (thread == 0) {
      timeline.complete(1);
      timeline.complete(2);
      woken.wait();
      timeline.complete(3);
    } else if (thread == 1) {
      timeline.wait(3, 0);
    } else {
      timeline.wait(2, 1);
      woken.raise();
    }
  }
};

TEST(EdgesModelTest, EarlierTicketLater) {
  expect_holds<EarlierTicketLater>();
  expect_caught<EarlierTicketLater>({"::expect(", Mutation::swapped});
  expect_caught<EarlierTicketLater>({.omission = Omission::recheck});
}

// A timeline with an earlier waiter is closed, and its place is opened again.
struct RestartThenWait : rl::test_suite<RestartThenWait, 2> {
  Progress<Env<>> progress;
  rl::var<unsigned> result;
  Flag woken;

  void before() {
    result($) = 0;
    RL_ASSERT(progress.expect(1, 1) && progress.advance(1));
    progress.expect_no_sooner_than(Progress<Env<>>::nobody);
    progress.restart();
  }
  void thread(unsigned thread) {
    if (thread == 0) {
      result($) = 1;
      if (progress.advance(1)) woken.raise();
      return;
    }
    if (progress.completed() < 1 && progress.expect(1, 1)) woken.wait();
    RL_ASSERT(result($) == 1);
  }
};

TEST(EdgesModelTest, RestartThenWait) {
  expect_holds<RestartThenWait>();
  expect_caught<RestartThenWait>({"::restart(", Mutation::no_lower});
}

// An event stays done while its timeline's place is closed and opened again (Timeline::reached).
struct DoneStaysDone : rl::test_suite<DoneStaysDone, 2> {
  Progress<Env<>> progress;
  Atomic<std::uint64_t> id{1};

  void before() { RL_ASSERT(!progress.advance(1)); }
  void thread(unsigned thread) {
    if (thread == 0) {
      id.store(0, std::memory_order_release);
      id.store(2, std::memory_order_relaxed);
      progress.restart();
    } else {
      RL_ASSERT(progress.completed() >= 1 || id.load(std::memory_order_acquire) != 1);
    }
  }
};

TEST(EdgesModelTest, DoneStaysDone) {
  expect_holds<DoneStaysDone>();
  expect_caught<DoneStaysDone>({"::restart(", Mutation::no_release});
  expect_caught<DoneStaysDone>({"::completed(", Mutation::no_acquire});
}

/// A note that detects races between its writer and its reader.
struct WatchedNote : sched::TaskNote {
  WatchedNote() { written($) = 0; }
  WatchedNote& operator=(sched::TaskNote&& note) {
    written($) = 1;
    sched::TaskNote::operator=(std::move(note));
    return *this;
  }
  rl::var<unsigned> written;
};
struct NotedEnv : Env<> {
  template <class T>
  using array = std::vector<std::conditional_t<std::is_same_v<T, sched::TaskNote>, WatchedNote, T>>;
};

// The callable is built, and the note is written, before the publication of the task.
struct NoteAndCallable : rl::test_suite<NoteAndCallable, 2> {
  static void construct(void* /*to*/, void* from) noexcept {
    if (!omitted(Omission::order)) build(from);
  }
  static void build(void* from) { (*static_cast<rl::var<unsigned>*>(from))($) = 1; }
  static bool run(void* /*callable*/, Status& /*failure*/) { return true; }
  static void destroy(void* /*callable*/) noexcept {}
  static constexpr sched::TaskOps ops{&construct, &run, &destroy};

  std::optional<Lane<NotedEnv, 1>> lane;
  rl::var<unsigned> built[2];

  void before() {
    const Outside memory;
    lane.emplace(4);
    for (auto& b : built) b($) = 0;
  }
  void after() {
    const Outside memory;
    lane.reset();
  }
  void thread(unsigned thread) {
    for (const std::uint64_t ticket : {1, 2}) {
      const bool noted = ticket == 1;
      rl::var<unsigned>& callable = built[ticket - 1];
      if (thread == 0) {
        RL_ASSERT(lane->reserve(1, [] { return std::uint64_t{0}; }) == ticket);
        sched::TaskNote note;
        note.contain = true;
        if (noted) {
          lane->publish(ticket, "", ops, &callable, note);
        } else {
          lane->publish(ticket, "", ops, &callable);
        }
        if (omitted(Omission::order)) build(&callable);
        continue;
      }
      sched::Found found = lane->look(ticket);
      for (; !found.published(); found = lane->look(ticket)) pause();
      RL_ASSERT(found.noted() == noted && &found.ops() == &ops && callable($) == 1);
      if (!noted) continue;
      auto& note = static_cast<WatchedNote&>(lane->note(ticket));
      RL_ASSERT(note.written($) == 1 && note.contain);
    }
  }
};

TEST(EdgesModelTest, NoteAndCallable) {
  expect_holds<NoteAndCallable>();
  expect_caught<NoteAndCallable>({"::publish_head(", Mutation::no_release});
  expect_caught<NoteAndCallable>({"::look(", Mutation::no_acquire});
  expect_caught<NoteAndCallable>({.omission = Omission::order});
}

}  // namespace
}  // namespace heddle::model
