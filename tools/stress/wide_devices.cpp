// See wide_devices.hpp.
#include "tools/stress/wide_devices.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "heddle/heddle.hpp"
#include "tools/stress/soak.hpp"
#include "tools/stress/tally.hpp"

namespace heddle::stress {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// A computation, with inputs and the results at width 1.
struct WideWork {
  GraphProgram program;
  std::vector<std::vector<float>> given;
  Code code;
  std::vector<float> wanted{};
};

std::vector<float> compute(const WideWork& work, const Device& device) {
  const Routine routine = Context(device).link(work.code);
  for (std::size_t k = 0; k < work.given.size(); ++k)
    routine.context().write(work.program.parameters[k], work.given[k]);
  routine.schedule();
  return routine.context().read<float>(work.program.results[0]);
}

BackendOptions options_of(const std::string& backend) {
  BackendOptions options;
  options.name = backend;
  options.oversubscribed = true;
  options.kernels = KernelProfile{.part_bytes = 4096};
  return options;
}

class WideWorks {
 public:
  explicit WideWorks(const std::string& backend) : narrow_(open(backend)) {
    add({{200, 200}, {200, 200}}, [](auto& x) { return matmul(x[0], x[1]); });
    add({{200, 300}}, [](auto& x) { return softmax(x[0]); });
    add({{200, 1000}}, [](auto& x) { return sum(x[0], {0}); });
    add({{300, 300}}, [](auto& x) { return transpose(exp(x[0])) + x[0]; });
    add({{2, 4, 40, 40}, {8, 4, 3, 3}}, [](auto& x) { return conv(x[0], x[1]); });
    add({{96, 96}, {96, 96}}, [](auto& x) { return matmul(x[0], softmax(matmul(x[0], x[1]))); });
  }
  [[nodiscard]] const std::vector<WideWork>& all() const noexcept { return all_; }

 private:
  static Backend open(const std::string& backend) {
    BackendOptions options = options_of(backend);
    options.width = 1;
    return Backend::open(std::move(options));
  }
  template <class Function>
  void add(const std::vector<Dims>& dims, const Function& function) {
    const Graph graph("wide");
    std::vector<Node> nodes;
    for (const Dims& each : dims) nodes.push_back(graph.parameter("x", {f32, each}));
    graph.finish({function(nodes)});
    GraphProgram program = graph.program();
    std::mt19937 random(static_cast<unsigned>(all_.size()));
    std::vector<std::vector<float>> given;
    for (const Tensor& each : program.parameters) {
      given.emplace_back(static_cast<std::size_t>(*each.type().num_elements()));
      for (float& value : given.back()) value = static_cast<float>(random() % 1000) * 0.001F - 0.5F;
    }
    Code code = narrow_.compile(program.program);
    all_.push_back({std::move(program), std::move(given), std::move(code)});
    all_.back().wanted = compute(all_.back(), narrow_.physical_device(0).new_virtual_device());
  }

  const Backend narrow_;
  std::vector<WideWork> all_;
};

/// Affinity masks of the process's threads: removes processors and gives them back. Processors
/// outside the process's own mask are not used. One thread.
class Masks {
 public:
  Masks() {
    CPU_ZERO(&allowed_);
    if (::sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) CPU_ZERO(&allowed_);
  }
  ~Masks() { give_back(); }
  Masks(const Masks&) = delete;
  Masks& operator=(const Masks&) = delete;

  /// Removes processors from each thread except `spared`, with probability 1/2. Returns the number
  /// of changed threads.
  template <class Random>
  std::uint64_t take(Random& random, const std::set<pid_t>& spared) {
    std::uint64_t taken = 0;
    for (const pid_t thread : threads()) {
      if (spared.contains(thread)) continue;
      cpu_set_t mine, left;
      CPU_ZERO(&left);
      if (random() % 2 == 0 || ::sched_getaffinity(thread, sizeof mine, &mine) != 0) continue;
      for (unsigned k = 0; k < CPU_SETSIZE; ++k) {
        if (CPU_ISSET(k, &allowed_) && random() % 2 == 0) CPU_SET(k, &left);
      }
      if (CPU_COUNT(&left) == 0 || CPU_EQUAL(&left, &mine)) continue;
      // An ended thread has no mask.
      if (::sched_setaffinity(thread, sizeof left, &left) != 0) continue;
      before_.try_emplace(thread, mine);
      ++taken;
    }
    return taken;
  }
  void give_back() {
    for (const auto& [thread, mask] : before_)
      static_cast<void>(::sched_setaffinity(thread, sizeof mask, &mask));
    before_.clear();
  }

 private:
  static std::vector<pid_t> threads() {
    std::vector<pid_t> found;
    std::error_code unreadable;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", unreadable)) {
      const std::string name = entry.path().filename().string();
      pid_t thread = 0;
      if (std::from_chars(name.data(), name.data() + name.size(), thread).ec == std::errc())
        found.push_back(thread);
    }
    return found;
  }

  cpu_set_t allowed_;
  std::map<pid_t, cpu_set_t> before_;
};

/// One round, kept alive by its threads.
class WideRound {
 public:
  WideRound(std::string backend, std::shared_ptr<const WideWorks> works, std::uint64_t seed)
      : backend_(std::move(backend)), works_(std::move(works)), random_(seed) {}

  void act() {
    const Backend backend = Backend::open(drawn_options());
    {
      const std::uint64_t count = 1 + draw(3);
      std::latch here(static_cast<std::ptrdiff_t>(count) + 1);
      const auto keep_mine = [&] {
        {
          const std::lock_guard lock(mutex_);
          spared_.insert(::gettid());
        }
        here.count_down();
      };
      std::vector<std::jthread> hosts, others;
      others.emplace_back([&, seed = random_()] {
        keep_mine();
        guarded([&] { open_and_close(backend, seed); });
      });
      for (std::uint64_t left = count; left > 0; --left) {
        hosts.emplace_back([&, seed = random_()] {
          keep_mine();
          guarded([&] { compare(backend, seed); });
        });
      }
      here.wait();
      others.emplace_back([&, seed = random_()] { guarded([&] { take_and_give_back(seed); }); });
      hosts.clear();  // joins
      // relaxed: a flag without ordering.
      over_.store(true, std::memory_order_relaxed);
    }
  }
  /// The round has ended.
  [[nodiscard]] const std::string& broken() const noexcept { return broken_; }
  [[nodiscard]] std::vector<Seen> seen() const {
    // relaxed, here and below: numbers for the report.
    constexpr auto order = std::memory_order_relaxed;
    return {{"results compared", compared_.load(order)},
            {"parts", parts_.load(order)},
            {"devices opened", opened_.load(order)},
            {"masks made smaller", taken_.load(order)}};
  }

 private:
  using Random = std::mt19937_64;
  [[nodiscard]] std::uint64_t draw(std::uint64_t bound) { return random_() % bound; }

  BackendOptions drawn_options() {
    BackendOptions options = options_of(backend_);
    options.scheduling.pin_workers = draw(4) == 0;
    const int width = static_cast<int>(2 + draw(7));
    switch (draw(5)) {
      case 0:
        options.width = width_automatic;
        break;
      case 1:
        options.width = width;
        break;
      case 2:
        options.mode = sched::Mode::pooled;
        options.scheduling.workers = static_cast<unsigned>(width);
        break;
      default: {
        SchedulerOptions own;
        own.width = static_cast<unsigned>(width);
        own.oversubscribed = true;
        own.pin_workers = std::exchange(options.scheduling.pin_workers, false);
        options.scheduler = Scheduler(std::move(own));
        if (draw(2) == 0) options.mode = sched::Mode::pooled;
        break;
      }
    }
    return options;
  }

  void compare(const Backend& backend, std::uint64_t seed) {
    Random random(seed);
    const auto physical = static_cast<std::uint64_t>(backend.num_physical_devices());
    const Device device =
        backend.physical_device(static_cast<int>(random() % physical)).new_virtual_device();
    for (std::uint64_t left = 5 + random() % 20; left > 0 && !broke(); --left) {
      const std::size_t number = random() % works_->all().size();
      const WideWork& work = works_->all()[number];
      const std::vector<float> found = compute(work, device);
      if (std::memcmp(found.data(), work.wanted.data(), found.size() * sizeof(float)) != 0)
        fail(fmt::format("work {} differs from width 1 on {}", number, device.name()));
      compared_.fetch_add(1, std::memory_order_relaxed);  // relaxed: for the report
    }
    parts_.fetch_add(device.statistics().parts, std::memory_order_relaxed);  // likewise
  }
  void open_and_close(const Backend& backend, std::uint64_t seed) {
    Random random(seed);
    const auto physical = static_cast<std::uint64_t>(backend.num_physical_devices());
    while (!is_over()) {
      const Device device =
          backend.physical_device(static_cast<int>(random() % physical)).new_virtual_device();
      const auto end = Clock::now() + std::chrono::microseconds(random() % 2000);
      const Event busy = device.submit("busy", [end] {
        while (Clock::now() < end) {
        }
      });
      if (random() % 2 == 0) throw_if_failed(busy.wait());
      opened_.fetch_add(1, std::memory_order_relaxed);  // relaxed: for the report
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
    }
  }
  void take_and_give_back(std::uint64_t seed) {
    Random random(seed);
    Masks masks;
    while (!is_over()) {
      taken_.fetch_add(masks.take(random, spared_),
                       std::memory_order_relaxed);  // relaxed: for the report
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      if (random() % 2 == 0) masks.give_back();
    }
  }

  template <class Work>
  void guarded(const Work& work) noexcept try {
    work();
  } catch (const std::exception& error) {
    fail(error.what());
  }
  void fail(std::string why) {
    const std::lock_guard lock(mutex_);
    if (broken_.empty()) broken_ = std::move(why);
  }
  [[nodiscard]] bool broke() {
    const std::lock_guard lock(mutex_);
    return !broken_.empty();
  }
  [[nodiscard]] bool is_over() const noexcept {
    return over_.load(std::memory_order_relaxed);  // guards nothing
  }

  const std::string backend_;
  const std::shared_ptr<const WideWorks> works_;
  Random random_;
  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> compared_{0}, parts_{0}, opened_{0}, taken_{0};
  std::mutex mutex_;
  std::string broken_;
  /// The threads that open devices: a bound device may only be opened on processors that the thread
  /// may use. Constant once the threads run.
  std::set<pid_t> spared_;
};

/// Whether the round ended in time.
bool run_round(const std::shared_ptr<WideRound>& round, std::chrono::seconds most) {
  auto ended = std::make_shared<std::promise<void>>();
  auto when = ended->get_future();
  std::thread thread([round, ended] {
    round->act();
    ended->set_value();
  });
  const bool in_time = when.wait_for(most) == std::future_status::ready;
  in_time ? thread.join() : thread.detach();
  return in_time;
}

}  // namespace

std::string WideResult::to_string() const {
  std::string text = fmt::format("{} rounds in {:.1f} s\n", rounds, time.count());
  for (const Seen& each : seen)
    text += fmt::format("{}{} {}", &each == &seen.front() ? "" : ", ", each.times, each.what);
  return text;
}

WideResult run_wide(const WideOptions& options) {
  WideResult result;
  const auto works = std::make_shared<const WideWorks>(options.backend);
  const auto start = Clock::now();
  std::chrono::duration<double> next_line = progress_pause;
  const auto over = [&] {
    if (options.stop != nullptr && options.stop->load()) return true;
    if (options.works_max != 0 && result.compared() >= options.works_max) return true;
    return options.length && result.time >= *options.length;
  };
  for (std::uint64_t seed = options.seed; !over(); ++seed) {
    const auto round = std::make_shared<WideRound>(options.backend, works, seed);
    ++result.rounds;
    result.last_seed = seed;
    result.stuck = !run_round(round, options.round_max);
    result.time = Clock::now() - start;
    if (result.stuck) {
      result.broken = fmt::format("a round did not end within {} s", options.round_max.count());
      return result;
    }
    const std::vector<Seen> more = round->seen();
    if (result.seen.empty()) result.seen = std::vector(more.size(), Seen{"", 0});
    for (std::size_t k = 0; k < more.size(); ++k)
      result.seen[k] = {more[k].what, result.seen[k].times + more[k].times};
    result.broken = round->broken();
    if (!result.broken.empty()) break;
    if (options.progress && result.time >= next_line) {
      next_line += progress_pause;
      options.progress(fmt::format("{:6.0f} s  {} results in {} rounds, seed {}",
                                   result.time.count(), result.compared(), result.rounds, seed));
    }
  }
  return result;
}

}  // namespace heddle::stress
