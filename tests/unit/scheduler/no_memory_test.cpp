// Failures, refusals and log lines while there is no memory to say them in; then every call of the
// scheduler, with memory that ends at any allocation.
#include <gmock/gmock.h>
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
#include <vector>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/allocations.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using Device = sched::TaskDevice;
using sched::FullPolicy;
using sched::Mode;
using testing::ElementsAre;

/// Tasks run where they are polled for: on the thread that has no memory.
class NoMemoryTest : public testing::Test {
 protected:
  Device open(std::uint32_t capacity = 64) {
    sched::DeviceOptions options;
    options.name = "a device whose name is longer than a string holds in itself";
    options.mode = Mode::manual;
    options.queue_size = capacity;
    return scheduler_.new_device(options);
  }
  /// Calls it with codes_, without memory; nothing may be expected in there.
  template <class Body>
  void run(const Body& body) {
    codes_.reserve(16);
    const NoMemory none;
    body(codes_);
  }
  Scheduler scheduler_;
  std::vector<ErrorCode> codes_;
};

// S10: the code of a failure needs no memory
TEST_F(NoMemoryTest, FailuresAndWhatComesAfterKeepTheirCodes) {
  const Device device = open(), other = open();
  const Event thrown = device.submit("throws", [] { throw std::runtime_error("an explanation"); });
  const Event skipped = device.submit("later", [] { ADD_FAILURE() << "ran"; });
  sched::SubmitOptions after;
  after.after = {thrown};
  const Event behind = other.submit("behind", [] { ADD_FAILURE() << "ran"; }, after);
  run([&](auto& codes) {
    scheduler_.poll();
    for (const Event* event : {&thrown, &skipped, &behind}) codes.push_back(event->status().code());
    codes.push_back(device.submit("refused", [] {}).status().code());
    codes.push_back(device.recover().code());
    codes.push_back(device.status().code());
  });
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::device_failed, ErrorCode::device_failed,
                                  ErrorCode::device_failed, ErrorCode::device_failed, ErrorCode::ok,
                                  ErrorCode::ok));
  EXPECT_EQ(thrown.status().message(), "out of memory");
  EXPECT_EQ(other.status().code(), ErrorCode::device_failed);
}

// S4, S6, S12: nor does a refusal's
TEST_F(NoMemoryTest, RefusalsKeepTheirCodes) {
  const Device device = open(2), behind = open();
  const Event first = device.submit("first", [] {}), second = device.submit("second", [] {});
  sched::SubmitOptions fail;
  fail.full = FullPolicy::fail;
  run([&](auto& codes) {
    codes.push_back(device.submit("too many", [] {}, fail).status().code());
    codes.push_back(behind.wait(first).status().code());  // a list of what it waits for
    codes.push_back(first.wait_for(0ns).code());
    device.cancel_pending();
    scheduler_.poll();
    codes.push_back(first.status().code());
    codes.push_back(second.status().code());
    codes.push_back(device.shutdown(1s).code());
    codes.push_back(device.submit("late", [] {}).status().code());
  });
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::exhausted, ErrorCode::exhausted, ErrorCode::deadline,
                                  ErrorCode::cancelled, ErrorCode::cancelled, ErrorCode::ok,
                                  ErrorCode::unavailable));
}

// S16: nor does that of a wait that could not end
TEST_F(NoMemoryTest, WaitsForItselfAreRefused) {
  const Device device = open();
  Event own;
  own = device.submit("waits for itself", [&] {
    run([&](auto& codes) {
      codes.push_back(own.wait().code());
      codes.push_back(device.await().code());
      codes.push_back(device.recover().code());
    });
  });
  scheduler_.poll();
  EXPECT_THAT(codes_, testing::Each(ErrorCode::failed_precondition));
  EXPECT_EQ(codes_.size(), 3);
}

// S21: a line for which there is no memory says so
TEST_F(NoMemoryTest, UnseenFailuresAreLoggedAllTheSame) {
  std::size_t lines = 0;
  set_log_hook([&](LogLevel /*level*/, std::string_view /*text*/) { ++lines; });
  std::optional<Device> device(open());
  device->submit("throws", [] { throw std::runtime_error("an explanation"); });
  scheduler_.poll();
  {
    const NoMemory none;
    device.reset();
  }
  set_log_hook({});
  EXPECT_EQ(lines, 1);
}

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
  std::optional<Device> device, other;
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
               failed = ErrorCode::device_failed, deadline = ErrorCode::deadline,
               cancelled = ErrorCode::cancelled, unavailable = ErrorCode::unavailable,
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
const Call calls[] = {
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
       return is(event.wait(), {ok, failed, exhausted});
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
       return is(event.wait(), {ok, failed, exhausted}) && is(b.device->await(), {ok});
     }},
    {"submit to a full queue", gated,
     [](Bench& b) {
       for (int k = 0; k < 4; ++k) b.device->submit("t", [] {});
       const Event event = b.device->submit("t", [] {});
       // Without memory the wait before it may have failed.
       const bool sensible = is(event.status(), {ok, exhausted, failed});
       b.signal();
       return sensible;
     }},
    {"submit until a deadline", gated,
     [](Bench& b) {
       b.options.full = FullPolicy::deadline;
       for (int k = 0; k < 4; ++k) b.device->submit("t", [] {});
       const Event event = b.device->submit("t", [] {}, b.options);
       const bool sensible = is(event.status(), {ok, exhausted, deadline, failed});
       b.signal();
       return sensible;
     }},
    {"submit after shutdown", shut,
     [](Bench& b) { return is(b.device->submit("t", [] {}).status(), {unavailable}); }},
    {"submit after a failure", poisoned,
     [](Bench& b) { return is(b.device->submit("t", [] {}).status(), {failed}); }},
    {"submit to nothing", none,
     [](Bench& b) {
       const Device moved = std::move(*b.device);
       const bool sensible = is(b.device->submit("t", [] {}).status(), {precondition});
       *b.device = moved;
       return sensible;
     }},
    {"a task throws", none,
     [](Bench& b) { return is(b.device->submit("t", throws).wait(), {failed}); }},
    {"a task throws an int", none,
     [](Bench& b) { return is(b.device->submit("t", [] { throw 1; }).wait(), {failed}); }},
    {"a task throws bad_alloc", none,
     [](Bench& b) {
       const Event event = b.device->submit("t", [] { throw std::bad_alloc(); });
       return is(event.wait(), {failed}) && is(b.device->await(), {failed});
     }},
    {"a task has no memory", none,
     [](Bench& b) {
       const auto task = [] { static_cast<void>(std::string(1000, 'x')); };
       return is(b.device->submit("t", task).wait(), {ok, failed});
     }},
    {"a task returns a failure", none,
     [](Bench& b) { return is(b.device->submit("t", fails).wait(), {failed}); }},
    {"a contained failure", [](Bench& b) { b.options.contain = true; },
     [](Bench& b) {
       const Event event = b.device->submit("t", fails, b.options);
       return is(event.wait(), {failed}) && is(b.device->submit("next", [] {}).wait(), {ok});
     }},
    {"record", gated,
     [](Bench& b) {
       const Event event = b.device->record();
       b.signal();
       return is(event.wait(), {ok, failed, exhausted});
     }},
    {"a device waits", none,
     [](Bench& b) {
       const Event event = b.device->wait(b.gate);
       b.run_ready();
       b.signal();
       return is(event.wait(), {ok, failed, exhausted});
     }},
    {"a device waits for a failure", none,
     [](Bench& b) {
       const Event bad = b.other->submit("t", throws);
       const Event wait = b.device->wait(bad);  // refused without memory
       return is(wait.wait(), {failed, exhausted}) && is(bad.wait(), {failed});
     }},
    {"await", none, [](Bench& b) { return is(b.device->await(), {ok}); }},
    {"await for a time", gated,
     [](Bench& b) { return is(b.device->await_for(5ms), {deadline, failed, exhausted}); }},
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
       return is(b.one.wait(), {cancelled, failed, exhausted});
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
       return is(b.one.wait(), {ok, failed, exhausted}) &&
              is(b.two.wait(), {ok, failed, exhausted});
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
  for (const Call& call : calls) {
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
