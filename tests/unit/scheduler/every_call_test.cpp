// Every call of the scheduler, with memory that ends at any allocation.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <initializer_list>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/allocations.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::FullPolicy;
using sched::Mode;
using sched::TaskDevice;

/// Two devices, an event that nobody has signalled, and what the calls leave.
struct Bench {
  explicit Bench(Mode mode)
      : scheduler(one_worker(mode)),
        device(scheduler.new_device("device")),
        other(scheduler.new_device("other")) {}
  static SchedulerOptions one_worker(Mode mode) {
    SchedulerOptions options;
    options.workers = 1;
    options.device.mode = mode;
    options.device.queue_size = 4;
    options.device.full = FullPolicy::fail;
    return options;
  }
  /// Tasks that are ready run, wherever that is.
  void run_ready() { scheduler.poll(); }
  void signal() {
    if (!gate.done()) static_cast<void>(timeline.signal(gate.ticket()));
  }

  std::atomic<int> called{0};  // by callbacks, of workers too
  Scheduler scheduler;
  std::optional<TaskDevice> device, other;
  sched::ExternalTimeline timeline{"gate"};
  Event gate = timeline.next();
  sched::SubmitOptions options;  // that a call needs, made while there is memory
  Event one, two;
  Status inside;
};

ErrorCode last_code = ErrorCode::ok;  // that was compared, for the message
bool is(const Status& status, std::initializer_list<ErrorCode> expected) {
  last_code = status.code();
  return std::ranges::find(expected, status.code()) != expected.end();
}
constexpr auto ok = ErrorCode::ok, exhausted = ErrorCode::exhausted,
               has_failed = ErrorCode::device_failed, deadline = ErrorCode::deadline,
               was_cancelled = ErrorCode::cancelled, unavailable = ErrorCode::unavailable,
               precondition = ErrorCode::failed_precondition;

struct Large {
  std::array<char, 500> bytes{};
  void operator()() const {}
};
Status fails() { return Status(ErrorCode::not_found, "a text that is longer than a short string"); }
void throws() { throw std::runtime_error("an explanation"); }
void none(Bench& /*bench*/) {}
void gated(Bench& b) { b.device->wait(b.gate); }
void poisoned(Bench& b) { b.device->submit("throws", throws).wait(); }
void shut(Bench& b) { static_cast<void>(b.device->shutdown(10s)); }
/// What throws: it ends well, or with an error that says what was short.
template <class Open>
bool opens(const Open& open) {
  try {
    open();
    return true;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const Error& e) {
    return is(e.status(), {exhausted, unavailable, deadline});
  }
}

struct Call {
  const char* name;
  void (*prepare)(Bench&);
  bool (*sensible)(Bench&);  // the call, and whether its outcome makes sense
};
const Call every_call[] = {
    {"submit", none, [](Bench& b) { return is(b.device->submit("t", [] {}).status(), {ok}); }},
    {"submit a large callable", none,
     [](Bench& b) { return is(b.device->submit("t", Large()).wait(), {ok, exhausted}); }},
    {"submit with options", none,
     [](Bench& b) { return is(b.device->submit("t", [] {}, b.options).wait(), {ok}); }},
    {"submit after an event", [](Bench& b) { b.options.after = {b.gate}; },
     [](Bench& b) {
       const Event event = b.device->submit("t", [] {}, b.options);
       b.run_ready();
       b.signal();
       return is(event.wait(), {ok, has_failed, exhausted});
     }},
    {"submit contained after an event",
     [](Bench& b) {
       b.options.after = {b.gate};
       b.options.contain = true;
     },
     [](Bench& b) {
       const Event event = b.device->submit("t", [] {}, b.options);
       b.run_ready();
       b.signal();
       return is(event.wait(), {ok, has_failed, exhausted}) && is(b.device->await(), {ok});
     }},
    {"submit in parts", none,
     [](Bench& b) {
       const Event event = b.device->submit_parallel("t", 10, [](std::size_t, std::size_t) {});
       return is(event.wait(), {ok, exhausted});
     }},
    {"a part fails", none,
     [](Bench& b) {
       const auto part = [](std::size_t from, std::size_t) {
         return from == 1 ? fails() : Status();
       };
       return is(b.device->submit_parallel("t", 10, part).wait(), {has_failed, exhausted});
     }},
    {"submit to any worker", none,
     [](Bench& b) {
       return is(b.scheduler.submit_any("t", [] {}).wait(), {ok, exhausted, unavailable});
     }},
    {"submit to a full queue", gated,
     [](Bench& b) {
       for (int k = 0; k < 4; ++k) b.device->submit("t", [] {});
       const Event event = b.device->submit("t", [] {});
       // Without memory the wait before it may have failed.
       const bool sensible = is(event.status(), {ok, exhausted, has_failed});
       b.signal();
       return sensible;
     }},
    {"submit until a deadline", gated,
     [](Bench& b) {
       b.options.full = FullPolicy::deadline;
       for (int k = 0; k < 4; ++k) b.device->submit("t", [] {});
       const Event event = b.device->submit("t", [] {}, b.options);
       const bool sensible = is(event.status(), {ok, exhausted, deadline, has_failed});
       b.signal();
       return sensible;
     }},
    {"submit after shutdown", shut,
     [](Bench& b) { return is(b.device->submit("t", [] {}).status(), {unavailable}); }},
    {"submit after a failure", poisoned,
     [](Bench& b) { return is(b.device->submit("t", [] {}).status(), {has_failed}); }},
    {"submit to nothing", none,
     [](Bench& b) {
       const TaskDevice moved = std::move(*b.device);
       const bool sensible = is(b.device->submit("t", [] {}).status(), {precondition});
       *b.device = moved;
       return sensible;
     }},
    {"a task throws", none,
     [](Bench& b) { return is(b.device->submit("t", throws).wait(), {has_failed}); }},
    {"a task throws an int", none,
     [](Bench& b) { return is(b.device->submit("t", [] { throw 1; }).wait(), {has_failed}); }},
    {"a task throws bad_alloc", none,
     [](Bench& b) {
       const Event event = b.device->submit("t", [] { throw std::bad_alloc(); });
       return is(event.wait(), {has_failed}) && is(b.device->await(), {has_failed});
     }},
    {"a task has no memory", none,
     [](Bench& b) {
       const auto task = [] { static_cast<void>(std::string(1000, 'x')); };
       return is(b.device->submit("t", task).wait(), {ok, has_failed});
     }},
    {"a task returns a failure", none,
     [](Bench& b) { return is(b.device->submit("t", fails).wait(), {has_failed}); }},
    {"a contained failure", [](Bench& b) { b.options.contain = true; },
     [](Bench& b) {
       const Event event = b.device->submit("t", fails, b.options);
       return is(event.wait(), {has_failed}) && is(b.device->submit("next", [] {}).wait(), {ok});
     }},
    {"record", gated,
     [](Bench& b) {
       const Event event = b.device->record();
       b.signal();
       return is(event.wait(), {ok, has_failed, exhausted});
     }},
    {"a device waits", none,
     [](Bench& b) {
       const Event event = b.device->wait(b.gate);
       b.run_ready();
       b.signal();
       return is(event.wait(), {ok, has_failed, exhausted});
     }},
    {"a device waits for a failure", none,
     [](Bench& b) {
       const Event bad = b.other->submit("t", throws);
       const Event wait = b.device->wait(bad);  // refused without memory
       return is(wait.wait(), {has_failed, exhausted}) && is(bad.wait(), {has_failed});
     }},
    {"await", none, [](Bench& b) { return is(b.device->await(), {ok}); }},
    {"await for a time", gated,
     [](Bench& b) { return is(b.device->await_for(5ms), {deadline, has_failed, exhausted}); }},
    {"wait for a time", none, [](Bench& b) { return is(b.gate.wait_for(5ms), {deadline}); }},
    {"recover", poisoned,
     [](Bench& b) {
       return is(b.device->recover(), {ok}) && is(b.device->submit("t", [] {}).wait(), {ok});
     }},
    {"cancel", gated,
     [](Bench& b) {
       b.one = b.device->submit("t", [] {});
       b.device->cancel_pending();
       b.run_ready();
       // Without memory the wait before it may have failed instead.
       return is(b.one.wait(), {was_cancelled, has_failed, exhausted});
     }},
    {"shut down", gated, [](Bench& b) { return is(b.device->shutdown(5ms), {ok, deadline}); }},
    {"shut the scheduler down", gated,
     [](Bench& b) { return opens([&] { throw_if_failed(b.scheduler.shutdown(5ms)); }); }},
    {"call back", gated,
     [](Bench& b) {
       const Event event = b.device->record();
       const bool opened = opens([&] { event.then([&b](const Status& /*end*/) { ++b.called; }); });
       b.run_ready();
       b.signal();
       b.device->await();
       return opened && b.called <= 1;
     }},
    {"a descriptor", gated,
     [](Bench& b) { return opens([&] { static_cast<void>(b.device->record().fd()); }); }},
    {"signal a failure", none,
     [](Bench& b) {
       static_cast<void>(b.timeline.next());
       return is(b.timeline.signal(1, fails()), {ok}) && !b.gate.status().ok();
     }},
    {"signal what was not handed out", none,
     [](Bench& b) { return is(b.timeline.signal(99), {ErrorCode::invalid_argument}); }},
    {"await itself", none,
     [](Bench& b) {
       b.device->submit("t", [&b] { b.inside = b.device->await(); }).wait();
       return is(b.inside, {precondition});
     }},
    {"await each other",
     [](Bench& b) {
       b.device->wait(b.gate);
       b.other->wait(b.gate);
     },
     [](Bench& b) {
       b.one = b.device->submit("one", [&b] { return this_task::await(b.two); });
       b.two = b.other->submit("two", [&b] { return this_task::await(b.one); });
       b.run_ready();
       b.signal();
       // At least one is told, unless there was no memory to begin.
       return is(b.one.wait(), {ok, has_failed, exhausted}) &&
              is(b.two.wait(), {ok, has_failed, exhausted});
     }},
    {"a task awaits", none,
     [](Bench& b) {
       b.one = b.device->submit("t", [&b] { b.inside = this_task::await(b.gate); });
       b.run_ready();
       b.signal();
       return is(b.one.wait(), {ok}) && is(b.inside, {ok, exhausted});
     }},
    {"a task awaits for a time", none,
     [](Bench& b) {
       b.one = b.device->submit("t", [&b] { b.inside = b.gate.wait_for(1ms); });
       return is(b.one.wait(), {ok}) && is(b.inside, {deadline, exhausted});
     }},
    {"open a device", none,
     [](Bench& b) {
       return opens([&] { static_cast<void>(b.scheduler.new_device("q").submit("t", [] {})); });
     }},
    {"open a scheduler", none,
     [](Bench& b) {
       return opens([&] {
         Scheduler made(Bench::one_worker(b.device->mode()));
         static_cast<void>(made.new_device("q").submit("t", [] {}).wait());
       });
     }},
    {"drop a device that failed", poisoned,
     [](Bench& b) {
       b.device.reset();
       return true;
     }},
    {"log", none,
     [](Bench& /*bench*/) {
       log(LogLevel::warn, "a line that is longer than a string holds in itself");
       return true;
     }},
};

class EveryCallTest : public testing::TestWithParam<Mode> {};
HEDDLE_DEVICE_SUITE(EveryCallTest);

/// The thread that calls this has no memory from then on.
void starve(std::uint64_t granted) {
  alignas(NoMemory) thread_local std::byte place[sizeof(NoMemory)];
  ::new (place) NoMemory(granted);
}

// S6, S9, S16: whichever allocation is the first to fail, of the caller's and of its worker's, a
// call ends, with a code that fits, and so does every task
TEST_P(EveryCallTest, EndsWhereMemoryDoes) {
  set_log_hook([](LogLevel /*level*/, std::string_view /*text*/) {});
  for (const Call& call : every_call) {
    for (const std::uint64_t granted : {0, 1, 2, 3, 4, 6, 9}) {
      SCOPED_TRACE(std::string(call.name) + ", " + std::to_string(granted) + " allocations");
      Bench bench(GetParam());
      if (GetParam() == Mode::threaded || GetParam() == Mode::pooled) {
        for (const auto* device : {&bench.device, &bench.other})
          (*device)->submit("starve", [granted] { starve(granted); }).wait();
      }
      call.prepare(bench);
      bool sensible = false;
      {
        const NoMemory short_of_it(granted);
        sensible = call.sensible(bench);
      }
      EXPECT_TRUE(sensible) << name(last_code);
      bench.signal();
      for (const auto* device : {&bench.device, &bench.other}) {
        if (!*device) continue;
        EXPECT_EQ((*device)->shutdown(30s).code(), ErrorCode::ok);
        const sched::Counters ends = (*device)->counters();
        EXPECT_EQ(ends.submitted, ends.done + ends.failed + ends.skipped + ends.cancelled);
      }
    }
  }
  set_log_hook({});
}

}  // namespace
}  // namespace heddle
