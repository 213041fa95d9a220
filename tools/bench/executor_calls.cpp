// The cost of executor calls with compiled types: on the host, from the call to the result, and by
// two threads at once. The kernel adds arrays of four numbers, so that the overhead dominates.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <semaphore>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/executor.hpp"
#include "heddle/graph.hpp"
#include "heddle/routine.hpp"
#include "heddle/status.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/executor_rows.hpp"
#include "tools/bench/rival_python.hpp"

namespace heddle::bench {
namespace {

const Dims dims{4};

/// The called function.
struct Sum {
  template <class... Nodes>
  Node operator()(const Nodes&... x) const {
    return (... + x);
  }
};

/// An executor that is called with n arrays, and a routine of the same sum.
template <std::size_t n>
class Calls {
 public:
  Calls() {
    for (std::size_t k = 0; k < n; ++k) arguments_.emplace_back(device_, setup_.arrays[k]);
    throw_if_failed(call().wait());
  }

  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] Array call() const { return call(std::make_index_sequence<n>()); }
  void schedule() const { routine_.schedule(); }
  [[nodiscard]] Event submit_nothing() const {
    return device_.submit("task", [] {});
  }

  [[nodiscard]] double time_calls(nanoseconds length, Samples& samples) const {
    return time_host_side(length, samples, device_, [this] { static_cast<void>(call()); });
  }
  [[nodiscard]] double time_schedules(nanoseconds length, Samples& samples) const {
    return time_host_side(length, samples, device_, [this] { schedule(); });
  }
  [[nodiscard]] double time_to_result(nanoseconds length, Samples& samples) const {
    return timed_operations(length, samples, [this] { throw_if_failed(call().wait()); });
  }
  [[nodiscard]] double time_task(nanoseconds length, Samples& samples) const {
    return timed_operations(length, samples, [this] { throw_if_failed(submit_nothing().wait()); });
  }

 private:
  template <std::size_t... k>
  [[nodiscard]] Array call(std::index_sequence<k...> /*each*/) const {
    return executor_(arguments_[k]...);
  }
  [[nodiscard]] Routine link() const {
    Program program("sum");
    const Index i;
    Expr sum = setup_.tensors[0](i);
    for (std::size_t k = 1; k < n; ++k) sum = sum + setup_.tensors[k](i);
    program << (setup_.tensors[n](i) = sum);
    return Context(device_).link(device_.backend().compile(program));
  }

  Device device_ = new_device_on_worker();
  KernelSetup setup_ = call_setup("call", n, dims);
  std::vector<Array> arguments_;
  Executor<Sum> executor_{device_, "sum", Sum()};
  Routine routine_ = link();
};

/// The goal's limit for a call and the wait for its result, in tasks; the gauge gives the rest.
constexpr double tasks_allowed = 1.2;

double beyond_a_task(const Calls<2>& calls) {
  constexpr int rounds = 40;
  constexpr auto length = std::chrono::milliseconds(2);
  Samples beyond, dropped;
  for (int k = 0; k < rounds; ++k) {
    const double called = calls.time_to_result(length, dropped);
    beyond.add(called - tasks_allowed * calls.time_task(length, dropped));
  }
  return beyond.percentile(0.5);
}

/// A thread on the worker's processor, asleep while it has no job. One thread for all slices: a
/// device is fastest for the first thread that calls it repeatedly.
class Helper {
 public:
  Helper() = default;
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  ~Helper() {
    job_ = nullptr;
    go_.release();
  }

  void start(std::function<void()> job) {
    job_ = std::move(job);
    go_.release();
  }
  void wait() { done_.acquire(); }

 private:
  void run() {
    pin_this_thread(worker_processor);
    for (go_.acquire(); job_; go_.acquire()) {
      job_();
      done_.release();
    }
  }

  std::function<void()> job_;
  std::binary_semaphore go_{0}, done_{0};
  std::jthread thread_{[this] { run(); }};
};

/// A device for each of two threads, which run the tasks that they submit.
class InlineCalls {
 public:
  InlineCalls() {
    for (std::size_t k = 0; k < devices_.size(); ++k) {
      for (const HostArray& each : std::span(setup_.arrays).first(2))
        arguments_[k].emplace_back(devices_[k], each);
      calls_.push_back(executor_.on(devices_[k]));
    }
  }

  /// With the given number of threads at once, each on its own processor and device; ns for one
  /// call.
  [[nodiscard]] double time(nanoseconds length, std::size_t threads) {
    std::atomic<std::size_t> ready{0};
    std::array<double, 2> speeds{};
    const auto run = [&](std::size_t k) {
      ++ready;
      while (ready.load() < threads) spin_pause();
      speeds[k] = 1 / timed_loop(length, 256, [&](std::size_t count) {
                    for (std::size_t each = 0; each < count; ++each)
                      static_cast<void>(calls_[k](arguments_[k][0], arguments_[k][1]));
                  });
    };
    if (threads > 1) helper_.start([&run] { run(1); });
    run(0);
    if (threads > 1) helper_.wait();
    return 1 / (speeds[0] + speeds[1]);
  }

 private:
  static std::vector<Device> open() {
    const Unpinned while_starting;
    const Backend backend = Backend::open("sync_" + compiling_backends().front());
    return {new_bound_device(backend, 0), new_bound_device(backend, 1)};
  }

  KernelSetup setup_ = call_setup("call", 2, dims);
  std::vector<Device> devices_ = open();
  Executor<Sum> executor_{devices_[0], "sum", Sum()};
  std::array<std::vector<Array>, 2> arguments_;
  std::vector<ExecutorOn<Sum>> calls_;
  Helper helper_;
};

template <class Made>
Contender contender(const char* name, Kind kind, const MadeOnce<Made>& made,
                    double (Made::*time)(nanoseconds, Samples&) const) {
  return {name, kind, [made, time](nanoseconds length, Samples& samples) {
            return ((*made).*time)(length, samples);
          }};
}

/// Against each framework, called with as many arrays, and against PyTorch's compiled functions.
template <std::size_t n>
void add_frameworks(Against& against, const MadeOnce<Calls<n>>& calls, const char* program,
                    bool compiled) {
  const auto ours = [calls](const KernelSetup&) { return calls->call().template values<float>(); };
  for (const Alternative& each : framework_alternatives()) {
    const auto setup = [](std::string name) {
      return [name = std::move(name)] { return call_setup(name, n, dims); };
    };
    against(framework_contender(each, setup(program), ours));
    if (!compiled || each.name != "PyTorch") continue;
    Alternative again = each;
    again.name += ", compiled";
    against(framework_contender(again, setup(fmt::format("compiled_{}", program)), ours));
  }
}

template <std::size_t n>
void add_host_rows(std::vector<Row>& rows, const MadeOnce<Calls<n>>& calls) {
  const std::string workload = fmt::format("cached call, {} arguments", n);
  Against against(rows, {"calls",
                         workload + ", host",
                         "call",
                         contender("heddle", Kind::heddle, calls, &Calls<n>::time_calls),
                         {}});
  against(contender("heddle, schedule", Kind::heddle, calls, &Calls<n>::time_schedules));
  add_frameworks(against, calls, "call", true);
  rows.push_back(Gauge{"calls", workload + ", allocations", "call", "heddle", Unit::count, [calls] {
                         return allocations_per_call(calls->device(),
                                                     [&] { static_cast<void>(calls->call()); });
                       }});
}

}  // namespace

void add_call_rows(std::vector<Row>& rows) {
  if (compiling_backends().empty()) return;
  const MadeOnce<Calls<2>> two;
  add_host_rows(rows, two);
  add_host_rows(rows, MadeOnce<Calls<16>>());

  const std::string to_result = "call to result, 2 arguments";
  Against against(rows, {"calls",
                         to_result,
                         "call",
                         contender("heddle", Kind::heddle, two, &Calls<2>::time_to_result),
                         {}});
  against(contender("heddle, bare task", Kind::heddle, two, &Calls<2>::time_task));
  add_frameworks(against, two, "awaited_call", false);
  rows.push_back(Gauge{"calls", fmt::format("{}, beyond {} bare tasks", to_result, tasks_allowed),
                       "call", "heddle", Unit::ns, [two] { return beyond_a_task(*two); }});

  const MadeOnce<InlineCalls> inline_calls;
  const auto by_threads = [&](const char* name, std::size_t threads) {
    return Contender{name, Kind::heddle, [inline_calls, threads](nanoseconds length, Samples&) {
                       return inline_calls->time(length, threads);
                     }};
  };
  rows.push_back(Case{"calls", "cached call, 2 arguments, an inline device each", "call",
                      by_threads("heddle, 2 threads", 2), by_threads("heddle, 1 thread", 1)});
}

}  // namespace heddle::bench
