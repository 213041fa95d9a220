// The rival from heterogeneous computing: StarPU, with nearly empty codelets, on one worker bound
// to the worker's processor (two workers for hops), scheduled by `eager` (one queue, the lightest
// policy). A start takes long, so StarPU runs through all slices that need as many workers, and
// sleeps between them (starpu_pause). StarPU is configured to write neither to the terminal nor
// into the user's home.
#include <starpu.h>
#include <stdlib.h>

#include <cstdint>
#include <memory>

#include "files/temp_dir.hpp"
#include "heddle/status.hpp"
#include "tools/bench/rivals.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

constexpr const char* name = "StarPU codelet";

class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime() { stop(); }

  /// Wakes StarPU with the given number of workers, the last of them on the worker's processor.
  void wake(int workers) {
    if (workers_ == workers) return starpu_resume();
    stop();
    start(workers);
  }
  void sleep() { starpu_pause(); }

 private:
  void start(int workers) {
    setenv("STARPU_HOME", home_.path().c_str(), 1);
    setenv("STARPU_SILENT", "1", 1);
    setenv("STARPU_WORKERS_NOBIND", "1", 1);  // the rival binds workers below
    // hwloc would start PoCL, with settings that differ from the PoCL rival's
    setenv("HWLOC_COMPONENTS", "-opencl", 1);
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.precedence_over_environment_variables = 1;
    conf.sched_policy_name = "eager";
    conf.ncpus = workers;
    conf.ncuda = conf.nopencl = conf.nmic = conf.nmpi_ms = 0;
    conf.catch_signals = 0;
    const Unpinned while_starting;
    if (starpu_init(&conf) != 0) throw Error(ErrorCode::unavailable, "StarPU does not start here");
    workers_ = workers;
    const auto bind = [](void* count) {
      pin_this_thread(worker_processor + 1 - *static_cast<int*>(count) + starpu_worker_get_id());
    };
    starpu_execute_on_each_worker(bind, &workers, STARPU_CPU);
  }
  void stop() {
    if (workers_ == 0) return;
    starpu_resume();
    starpu_shutdown();
    workers_ = 0;
  }

  int workers_ = 0;  // 0: not started
  const files::TempDir home_{{}};
};

/// Awake while it lives.
class Awake {
 public:
  Awake(Runtime& runtime, int workers) : runtime_(runtime) { runtime_.wake(workers); }
  Awake(const Awake&) = delete;
  Awake& operator=(const Awake&) = delete;
  ~Awake() { runtime_.sleep(); }

 private:
  Runtime& runtime_;
};

void add_one(void* /*buffers*/[], void* counter) { ++*static_cast<std::uint64_t*>(counter); }

starpu_codelet* codelet(int buffers) {
  static starpu_codelet codelets[2];
  starpu_codelet& made = codelets[buffers];
  if (made.cpu_funcs[0] == nullptr) {
    starpu_codelet_init(&made);
    made.where = STARPU_CPU;
    made.cpu_funcs[0] = add_one;
    made.nbuffers = buffers;
    made.modes[0] = STARPU_RW;
  }
  return &made;
}

starpu_task* new_task(starpu_codelet* what, std::uint64_t& ran) {
  starpu_task* const task = starpu_task_create();
  task->cl = what;
  task->cl_arg = &ran;
  return task;
}

void submit(starpu_task* task) {
  if (starpu_task_submit(task) != 0) throw Error(ErrorCode::internal, "StarPU refused a task");
}

Contender submit_contender(const std::shared_ptr<Runtime>& runtime) {
  return {name, Kind::rival, [runtime](nanoseconds length, Samples& samples) {
            constexpr std::size_t batch = 2000;
            const Awake awake(*runtime, 1);
            std::uint64_t ran = 0;  // written by the worker
            std::uint64_t submitted = 0;
            const double ns = timed_loop(length, batch, [&](std::size_t count) {
              const auto start = Clock::now();
              for (std::size_t k = 0; k < count; ++k) submit(new_task(codelet(0), ran));
              starpu_task_wait_for_all();
              submitted += count;
              samples.add(ns_between(start, Clock::now()) / static_cast<double>(count));
            });
            require_all_ran(name, ran, submitted);
            return ns;
          }};
}

/// A synchronous task: submission waits for the task's end.
void submit_and_wait(std::uint64_t& ran) {
  starpu_task* const task = new_task(codelet(0), ran);
  task->synchronous = 1;
  submit(task);
}

Contender round_trip(const std::shared_ptr<Runtime>& runtime) {
  return {name, Kind::rival, [runtime](nanoseconds length, Samples& samples) {
            const Awake awake(*runtime, 1);
            std::uint64_t ran = 0, submitted = 0;
            const double ns = timed_operations(length, samples, [&] {
              ++submitted;
              submit_and_wait(ran);
            });
            require_all_ran(name, ran, submitted);
            return ns;
          }};
}

Contender parked(const std::shared_ptr<Runtime>& runtime) {
  return {name, Kind::rival, [runtime](nanoseconds length, Samples& samples) {
            const Awake awake(*runtime, 1);
            std::uint64_t ran = 0, submitted = 0;
            const double ns = timed_after_pauses(length, rival_pause, samples, [&] {
              ++submitted;
              submit_and_wait(ran);
            });
            require_all_ran(name, ran, submitted);
            return ns;
          }};
}

/// Tasks that write one handle, and therefore run one after another, on two workers in turn.
Contender awaited_hop(const std::shared_ptr<Runtime>& runtime) {
  return {name, Kind::rival, [runtime](nanoseconds length, Samples& samples) {
            constexpr std::size_t hops = 1000;
            const Awake awake(*runtime, 2);
            std::uint64_t ran = 0, submitted = 0, datum = 0;
            starpu_data_handle_t handle;
            starpu_variable_data_register(&handle, STARPU_MAIN_RAM,
                                          reinterpret_cast<std::uintptr_t>(&datum), sizeof datum);
            const double ns = timed_loop(length, hops, [&](std::size_t count) {
              const auto start = Clock::now();
              for (std::size_t k = 0; k < count; ++k) {
                starpu_task* const task = new_task(codelet(1), ran);
                task->handles[0] = handle;
                task->execute_on_a_specific_worker = 1;
                task->workerid = k % 2;
                submit(task);
              }
              starpu_task_wait_for_all();
              submitted += count;
              samples.add(ns_between(start, Clock::now()) / static_cast<double>(count));
            });
            starpu_data_unregister(handle);
            require_all_ran(name, ran, submitted);
            return ns;
          }};
}

}  // namespace

Rival starpu_rival() {
  const auto runtime = one_for_all_rows<Runtime>();
  Rival rival;
  rival.submit = submit_contender(runtime);
  rival.round_trip = round_trip(runtime);
  rival.parked = parked(runtime);
  rival.awaited_hop = awaited_hop(runtime);
  return rival;
}

}  // namespace heddle::bench
