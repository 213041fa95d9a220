// The cost of recording a trace, per task: the time in which a worker runs a full queue of empty
// tasks, with and without a trace.
#include <cstdint>

#include "heddle/observe.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/subject.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

constexpr int tasks = 4000;  // fit into a queue
constexpr int rounds = 40;   // for each, in alternation

/// From the end of the first task to the beginning of the last; all tasks are queued before the
/// first runs. Per task.
double run_queue(const sched::TaskDevice& device) {
  std::uint64_t ran = 0;  // written by the worker
  Clock::time_point start, end;
  sched::ExternalTimeline host("host");
  const Event go = host.next();
  device.submit("first of its thread", [] {});  // allocates the memory of the recording
  device.wait(go);
  device.submit("start", [&start] { start = Clock::now(); });
  for (int k = 0; k < tasks; ++k) device.submit("task", [&ran] { ++ran; });
  const Event over = device.submit("end", [&end] { end = Clock::now(); });
  throw_if_failed(host.signal(go.ticket()));
  throw_if_failed(over.wait());
  require_all_ran("heddle", ran, tasks);
  return ns_between(start, end) / tasks;
}

double run_traced(const sched::TaskDevice& device) {
  start_trace();
  const double ns = run_queue(device);
  if (stop_trace().events.size() < tasks)
    throw Error(ErrorCode::internal, "a trace of a queue of tasks does not have them all");
  return ns;
}

double added_per_task() {
  const Started<HeddleWorker> started(worker_processor);
  const sched::TaskDevice& device = started.get().device();
  Samples added;
  run_queue(device);  // touches the slots
  for (int k = 0; k < rounds; ++k) {
    const double plain = run_queue(device);
    added.add(run_traced(device) - plain);
  }
  return added.percentile(0.5);
}

}  // namespace

void add_trace_rows(std::vector<Row>& rows) {
  rows.push_back(Gauge{"trace", "tracing on, added", "task", "heddle", Unit::ns, added_per_task});
}

}  // namespace heddle::bench
