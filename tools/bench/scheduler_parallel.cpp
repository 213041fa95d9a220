// Tasks in parts: a loop over rows, by the host's thread and a second one, on a device whose tasks
// run on the submitting thread, as in rivals' loops. Also the team alone: fork and join.
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "heddle/scheduler.hpp"
#include "scheduler/threads/team.hpp"
#include "tools/bench/against.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/limit_ping_pong.hpp"
#include "tools/bench/processors.hpp"
#include "tools/bench/row_loop.hpp"

namespace heddle::bench {
namespace {

SchedulerOptions of_two() {
  SchedulerOptions options;
  options.width = 2;
  options.oversubscribed = true;  // while the host's thread is bound
  options.pin_workers = true;
  options.device.mode = sched::Mode::inline_;
  return options;
}

Contender heddle_loops(RowCost cost) {
  return {"heddle, inline", Kind::heddle, [cost](nanoseconds length, Samples& samples) {
            Scheduler scheduler(of_two());
            const sched::TaskDevice device = scheduler.new_device("rows");
            {
              const Unpinned while_starting;
              throw_if_failed(
                  device.submit_parallel("start", 2, [](std::size_t, std::size_t) {}).wait());
            }
            return timed_loops("heddle", cost, length, samples, [&device](RowLoop& loop) {
              const auto part = [&loop](std::size_t from, std::size_t to) { loop.run(from, to); };
              throw_if_failed(device.submit_parallel("rows", loop.rows(), part).wait());
            });
          }};
}

/// The team alone, as used by kernels.
Contender team_loops(RowCost cost) {
  return {"heddle, team", Kind::heddle, [cost](nanoseconds length, Samples& samples) {
            sched::Team team;
            std::optional<sched::Crew> crew;
            {
              const Unpinned while_starting;
              const auto processor =
                  static_cast<unsigned>(processors()[worker_processor % processors().size()]);
              crew.emplace("bench", 1, std::vector{processor});
            }
            crew->assign(0, &team);
            return timed_loops("heddle, team", cost, length, samples, [&team](RowLoop& loop) {
              const sched::PartFunction part = [](void* rows, std::uint32_t row,
                                                  std::uint32_t) noexcept {
                static_cast<RowLoop*>(rows)->run(row);
              };
              team.run(static_cast<std::uint32_t>(loop.rows()), part, &loop);
            });
          }};
}

/// A flag there and a flag back: the lower bound of fork and join.
Contender spin_barrier() {
  return {"spin ping-pong", Kind::limit, [](nanoseconds length, Samples& samples) {
            PingPong partner(worker_processor);
            return timed_operations(length, samples, [&partner] { partner.round_trip(); });
          }};
}

/// The time of one thread, without a hand-over.
Contender plain_loops(RowCost cost) {
  return {"plain loop", Kind::limit, [cost](nanoseconds length, Samples& samples) {
            return timed_loops("plain loop", cost, length, samples,
                               [](RowLoop& loop) { loop.run(0, loop.rows()); });
          }};
}

}  // namespace

void add_parallel_rows(std::vector<Row>& rows) {
  struct Shape {
    RowCost cost;
    const char* workload;
    Contender Rival::* rival;
  };
  for (const Shape& shape :
       {Shape{RowCost::none, "two parts of nothing", &Rival::empty_loop},
        Shape{RowCost::even, "even rows, two threads", &Rival::even_loop},
        Shape{RowCost::uneven, "uneven rows, two threads", &Rival::uneven_loop}}) {
    Against against(rows, {"parallel", shape.workload, "loop", heddle_loops(shape.cost), {}});
    if (shape.cost != RowCost::none) against(plain_loops(shape.cost));
    against(shape.rival);
  }
  Against against(rows,
                  {"parallel", "two parts that meet", "loop", team_loops(RowCost::meeting), {}});
  against(spin_barrier());
  against(&Rival::meeting_loop);
}

}  // namespace heddle::bench
