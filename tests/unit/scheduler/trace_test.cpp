// Traces: what is recorded, that it nests, that nothing is overwritten, and the JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <locale>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "scheduler/observe/trace.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::Label;
using sched::TaskDevice;
using sched::TraceRing;
using Kind = TraceEvent::Kind;
using End = TraceEvent::End;

class TraceTest : public DeviceTest {};
HEDDLE_DEVICE_SUITE(TraceTest);

/// A worker in the middle of a row of tasks does not look whether a trace was started; a task that
/// something is noted about ends the row.
sched::SubmitOptions noted() {
  sched::SubmitOptions options;
  options.contain = true;
  return options;
}

std::vector<TraceEvent> of_kind(const Trace& trace, Kind kind) {
  std::vector<TraceEvent> found;
  for (const TraceEvent& event : trace.events) {
    if (event.kind == kind) found.push_back(event);
  }
  return found;
}

/// Every two events of a track are apart, or one contains the other.
void expect_nested(const Trace& trace) {
  std::map<std::uint64_t, std::vector<std::chrono::nanoseconds>> open;  // ends, by track
  for (const TraceEvent& event : trace.events) {
    auto& ends = open[event.track];
    while (!ends.empty() && ends.back() <= event.begin) ends.pop_back();
    const auto end = event.begin + event.duration;
    if (!ends.empty()) {
      EXPECT_LE(end, ends.back()) << trace.name_of(event.track);
    }
    ends.push_back(end);
  }
}

nlohmann::json parsed(const Trace& trace) {
  std::ostringstream text;
  trace.write_chrome_json(text);
  return nlohmann::json::parse(text.str());
}

// S17: each task once, with device, label, ticket and how it ended; ready when its event is done
TEST_P(TraceTest, TasksAndHowTheyEnded) {
  const TaskDevice device = open("traced");
  device.submit("before", [] {}).wait();
  start_trace();
  for (int k = 0; k < 100; ++k) device.submit("good", [] {});
  sched::SubmitOptions contain;
  contain.contain = true;
  device.submit("contained", [] { throw std::runtime_error("planted"); }, contain);
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  device.submit("bad", [] { throw std::runtime_error("planted"); });
  const Event skipped = device.submit("skipped", [] {});
  ASSERT_TRUE(gate.signal(opened.ticket()).ok());
  skipped.wait();
  const Trace trace = stop_trace();
  device.recover();
  device.submit("after", [] {}).wait();

  const auto tasks = of_kind(trace, Kind::task);
  ASSERT_FALSE(tasks.empty());
  // A worker that was not through with the first one may have gone on without tracing.
  ASSERT_LE(tasks[0].ticket, 102u);
  ASSERT_EQ(tasks.size(), 106 - tasks[0].ticket);
  std::map<std::string, std::vector<End>> ends;
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    EXPECT_EQ(tasks[k].ticket, tasks[0].ticket + k);  // and so in order
    EXPECT_EQ(tasks[k].track, device.id());
    ends[tasks[k].label].push_back(tasks[k].end);
  }
  EXPECT_EQ(ends["good"], std::vector<End>(tasks.size() - 4, End::done));
  EXPECT_EQ(ends["contained"], std::vector{End::failed});
  EXPECT_EQ(ends["wait"], std::vector{End::done});
  EXPECT_EQ(ends["bad"], std::vector{End::failed});
  EXPECT_EQ(ends["skipped"], std::vector{End::skipped});
  EXPECT_EQ(trace.name_of(device.id()), "traced");
  EXPECT_EQ(trace.dropped, 0u);
  expect_nested(trace);
}

// S17, S8, S16: gates and waits of tasks, until what; a gate is no part of its task
TEST_P(TraceTest, WaitsOfGatesTasksAndHosts) {
  sched::DeviceOptions o = options("traced");
  o.spin = 0ns;
  const TaskDevice device = scheduler_.new_device(o);
  sched::ExternalTimeline gate("gate");
  const Event first = gate.next(), second = gate.next();
  start_trace();
  device.wait(first);
  const Event task = device.submit("awaits", [second] { this_task::await(second); });
  while (device.snapshot().waiting_for.empty()) run_ready();
  ASSERT_TRUE(gate.signal(first.ticket()).ok());
  while (device.snapshot().waiting_for.find("gate#2") == std::string::npos) run_ready();
  std::thread host([&] { task.wait(); });
  ASSERT_TRUE(gate.signal(second.ticket()).ok());
  host.join();
  const Trace trace = stop_trace();

  expect_nested(trace);
  std::vector<TraceEvent> waits;
  for (const TraceEvent& event : of_kind(trace, Kind::wait)) {
    if (event.track == device.id()) waits.push_back(event);
  }
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(trace.name_of(waits[0].device), "gate");
  EXPECT_EQ(waits[0].ticket, 1u);
  EXPECT_EQ(waits[1].ticket, 2u);
  const auto tasks = of_kind(trace, Kind::task);
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_LE(waits[0].begin + waits[0].duration, tasks[0].begin);
  EXPECT_GE(waits[1].begin, tasks[1].begin);
  EXPECT_LE(waits[1].duration, tasks[1].duration);
}

// S17: parking and waking
TEST(TraceWorkerTest, ParksAndWakes) {
  Scheduler scheduler;
  sched::DeviceOptions o;
  o.spin = 0ns;
  const TaskDevice device = scheduler.new_device(o);
  start_trace();
  const sched::Counters before = device.counters();
  const auto often = [&](std::uint64_t sched::Counters::* counter) {
    return device.counters().*counter >= before.*counter + 2;
  };
  while (!often(&sched::Counters::parks) || !often(&sched::Counters::wakes))
    device.submit("task", [] {}).wait();
  EXPECT_TRUE(device.shutdown(10s).ok());
  const Trace trace = stop_trace();
  EXPECT_GE(of_kind(trace, Kind::park).size(), 2u);
  const auto wakes = of_kind(trace, Kind::wake);
  ASSERT_GE(wakes.size(), 2u);
  EXPECT_EQ(wakes[0].device, device.id());
  EXPECT_TRUE(Trace::is_thread(wakes[0].track));
  EXPECT_FALSE(trace.name_of(wakes[0].track).empty());
  expect_nested(trace);
}

// S17: every track has its name, also where no task ended meanwhile
TEST(TraceWorkerTest, DevicesThatEndNoTaskHaveNames) {
  Scheduler scheduler;
  sched::DeviceOptions o;
  o.name = "rests";
  o.spin = 0ns;
  const TaskDevice rests = scheduler.new_device(o);
  o.name = "submits";
  const TaskDevice submits = scheduler.new_device(o);
  sched::ExternalTimeline external("awaited");
  const Event gate = external.next();
  std::atomic<bool> may_submit = false, submitted = false;
  submits.submit("long", [&] {
    while (!may_submit) std::this_thread::yield();
    rests.submit("late", [gate] { this_task::await(gate); });
    submitted = true;
    this_task::await(gate);
  });
  TraceOptions all;
  all.submits = true;
  start_trace(all);
  o.name = "idle";
  o.mode = sched::Mode::inline_;
  const TaskDevice idle = scheduler.new_device(o);
  may_submit = true;
  while (!submitted) std::this_thread::yield();
  const Trace trace = stop_trace();
  ASSERT_TRUE(external.signal(gate.ticket()).ok());
  EXPECT_TRUE(submits.shutdown(10s).ok());
  EXPECT_TRUE(rests.shutdown(10s).ok());
  const auto sent = of_kind(trace, Kind::submit);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(trace.name_of(sent[0].track), "submits");
  EXPECT_EQ(trace.name_of(sent[0].device), "rests");
  EXPECT_FALSE(trace.names.contains(idle.id()));
}

// S17: arrows from submits to tasks, only when asked for
TEST_P(TraceTest, SubmitsAreArrowsToTheirTasks) {
  const TaskDevice device = open("traced");
  const auto run = [&](bool submits) {
    TraceOptions options;
    options.submits = submits;
    start_trace(options);
    for (int k = 0; k < 10; ++k) device.submit("task", [] {}, noted());
    device.await();
    return stop_trace();
  };
  EXPECT_TRUE(of_kind(run(false), Kind::submit).empty());
  const Trace trace = run(true);
  const auto submits = of_kind(trace, Kind::submit);
  ASSERT_EQ(submits.size(), 10u);
  EXPECT_EQ(submits[0].device, device.id());
  EXPECT_EQ(submits[0].ticket, 11u);
  std::map<std::uint64_t, double> starts, ends;
  const auto json = parsed(trace);
  for (const auto& item : json["traceEvents"]) {
    if (item["ph"] == "s") starts[item["id"]] = item["ts"];
    if (item["ph"] == "f") ends[item["id"]] = item["ts"];
  }
  EXPECT_EQ(starts.size(), 10u);
  ASSERT_EQ(ends.size(), 10u);
  for (const auto& [id, start] : starts) EXPECT_GE(ends[id], start);
}

// S17: a full buffer drops what comes after, and counts it
TEST_P(TraceTest, FullBuffersDropAndCount) {
  const TaskDevice device = open("traced");
  TraceOptions options;
  options.events_max = 50;
  start_trace(options);
  for (int k = 0; k < 1000; ++k) device.submit("task", [] {}, noted());
  device.await();
  const Trace trace = stop_trace();
  const auto tasks = of_kind(trace, Kind::task);
  ASSERT_FALSE(tasks.empty());
  EXPECT_LE(tasks.size(), 64 * (1 + available_processors()));  // the next power of two, a thread
  EXPECT_EQ(tasks[0].ticket, 1u);
  EXPECT_GE(trace.events.size() + trace.dropped, 1000u);
  EXPECT_EQ(parsed(trace)["otherData"]["dropped"], trace.dropped);
}

// J14: whatever the stream's locale
TEST(TraceJsonTest, NumbersHaveNoSeparators) {
  struct Grouped : std::numpunct<char> {
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  Trace trace;
  trace.dropped = 12'345;
  std::ostringstream text;
  text.imbue(std::locale(text.getloc(), new Grouped));
  trace.write_chrome_json(text);
  EXPECT_EQ(nlohmann::json::parse(text.str())["otherData"]["dropped"], 12'345);
}

TEST(TraceStateTest, StartsOnceAndStopsOnce) {
  const auto code = [](auto call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::ok;
  };
  EXPECT_EQ(code([] { static_cast<void>(stop_trace()); }), ErrorCode::failed_precondition);
  TraceOptions none;
  none.events_max = 0;
  EXPECT_EQ(code([&] { start_trace(none); }), ErrorCode::invalid_argument);
  start_trace();
  EXPECT_EQ(code([] { start_trace(); }), ErrorCode::failed_precondition);
  EXPECT_TRUE(stop_trace().events.empty());
  EXPECT_EQ(code([] { Trace().write_chrome_json("/dev/null/nowhere/trace.json"); }),
            ErrorCode::unavailable);
}

// S17: traces of one run after another share nothing; threads come and go meanwhile
TEST(TraceStateTest, ManyThreadsAndTraces) {
  Scheduler scheduler;
  const TaskDevice device = scheduler.new_device("shared");
  std::atomic<bool> stop{false};
  std::vector<std::thread> hosts;
  for (int k = 0; k < 3; ++k) {
    hosts.emplace_back([&] {
      while (!stop.load()) std::thread([&] { device.submit("task", [] {}).wait(); }).join();
    });
  }
  std::uint64_t last = 0;
  for (int round = 0; round < 20; ++round) {
    TraceOptions options;
    options.submits = round % 2 == 0;
    options.events_max = 256;
    start_trace(options);
    for (int k = 0; k < 20; ++k) device.submit("mine", [] {}, noted()).wait();
    const Trace trace = stop_trace();
    expect_nested(trace);
    int mine = 0;
    for (const TraceEvent& event : of_kind(trace, Kind::task)) {
      EXPECT_GT(event.ticket, last);
      last = event.ticket;
      mine += std::string_view(event.label) == "mine" ? 1 : 0;
    }
    if (trace.dropped == 0) {
      EXPECT_EQ(mine, 20);
    }
  }
  stop.store(true);
  for (std::thread& host : hosts) host.join();
}

// Names are whatever users make of them
TEST(TraceJsonTest, EscapesNamesAndMapsTracks) {
  Trace trace;
  trace.names[7] = "quote\" slash\\ line\n caf\xc3\xa9";
  trace.names[Trace::thread_bit | 9] = "latin caf\xe9 \xed\xa0\x80\xff";
  TraceEvent event;
  event.track = event.device = 7;
  event.ticket = 3;
  event.label = "a\tb\x01";
  event.begin = 1500ns;
  event.duration = 250ns;
  event.end = End::cancelled;
  trace.events.push_back(event);
  event.kind = Kind::wait;
  event.track = Trace::thread_bit | 9;
  event.device = 1000;
  trace.events.push_back(event);
  const auto json = parsed(trace);
  std::map<std::string, nlohmann::json> by_name;
  std::set<std::string> thread_names;
  for (const auto& item : json["traceEvents"]) {
    if (item["ph"] == "X") by_name[item["name"]] = item;
    if (item["ph"] == "M") thread_names.insert(item["args"]["name"].get<std::string>());
  }
  EXPECT_TRUE(thread_names.contains("quote\" slash\\ line\n caf\xc3\xa9"));
  EXPECT_THAT(*std::ranges::find_if(thread_names, [](auto& n) { return n.starts_with("latin"); }),
              testing::StartsWith("latin caf\xc3\xa9"));
  ASSERT_TRUE(by_name.contains("a\tb\x01"));
  const auto& task = by_name["a\tb\x01"];
  EXPECT_EQ(task["ts"], 1.5);
  EXPECT_EQ(task["dur"], 0.25);
  EXPECT_EQ(task["pid"], 1);
  EXPECT_EQ(task["tid"], 7);
  EXPECT_EQ(task["args"]["end"], "cancelled");
  EXPECT_EQ(task["args"]["ticket"], 3);
  ASSERT_TRUE(by_name.contains("wait for ?#3"));
  EXPECT_EQ(by_name["wait for ?#3"]["pid"], 2);
  EXPECT_EQ(by_name["wait for ?#3"]["tid"], 9);
}

TEST(TraceRingTest, DropsWhenFullAndGoesOnWhenRead) {
  TraceRing<int> ring(4);
  for (int k = 0; k < 6; ++k) ring.write(k);
  std::vector<int> read;
  const auto take = [&](int k) { read.push_back(k); };
  ring.read(take);
  EXPECT_THAT(read, testing::ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(ring.dropped(), 2u);
  ring.write(6);
  ring.read(take);
  EXPECT_THAT(read, testing::ElementsAre(0, 1, 2, 3, 6));
}

TEST(TraceRingTest, KeepsOrderBetweenTwoThreads) {
  TraceRing<std::uint64_t> ring(64);
  constexpr std::uint64_t count = 200'000;
  std::atomic<bool> ended{false};
  std::thread writer([&] {
    for (std::uint64_t k = 1; k <= count; ++k) ring.write(k);
    ended.store(true);
  });
  std::uint64_t last = 0, seen = 0;
  bool final_look = false;
  while (!final_look) {
    final_look = ended.load();
    ring.read([&](std::uint64_t k) {
      EXPECT_GT(k, last);
      last = k;
      ++seen;
    });
  }
  writer.join();
  EXPECT_EQ(seen + ring.dropped(), count);
}

}  // namespace
}  // namespace heddle
