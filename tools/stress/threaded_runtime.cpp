// See threaded_runtime.hpp.
#include "tools/stress/threaded_runtime.hpp"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "tools/stress/runtime_hosts.hpp"
#include "tools/stress/soak.hpp"
#include "tools/stress/tally.hpp"

namespace heddle::stress {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// Hosts are threads; one thread at a time accesses shared state.
class ThreadStage final : public Stage {
 public:
  ThreadStage(const Backend& backend, std::shared_ptr<const RuntimePrograms> programs,
              std::uint64_t seed)
      : backend_(backend.name()), programs_(std::move(programs)), numbers_(seed) {
    // In some rounds no step fails: failures often hide other bugs.
    if (draw(4) != 0) one_failure_in_ = std::uint64_t{1} << draw(4);
  }

  [[nodiscard]] const std::string& backend() const noexcept override { return backend_; }
  [[nodiscard]] Scheduler& scheduler() noexcept override { return scheduler_; }
  [[nodiscard]] const RuntimePrograms& programs() const noexcept override { return *programs_; }
  [[nodiscard]] std::uint64_t draw(std::uint64_t bound) override { return numbers_() % bound; }
  /// While hosts sleep for long, devices are idle.
  void sleep_for(std::chrono::nanoseconds time) override {
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(time, 50us));
  }
  void fail(std::string why) override {
    if (broken_.empty()) broken_ = std::move(why);
  }
  [[nodiscard]] bool has_threads() const noexcept override { return true; }
  void hold() override { mutex_.lock(); }
  void let_go() noexcept override { mutex_.unlock(); }

  [[nodiscard]] const std::string& broken() const noexcept { return broken_; }
  void calm() noexcept {
    one_failure_in_.store(0, std::memory_order_relaxed);  // relaxed: a number without ordering
  }
  /// Called on a device's thread, which must not wait for the stage.
  Status step_between() {
    // relaxed, here and below: numbers without ordering.
    const std::uint64_t one_in = one_failure_in_.load(std::memory_order_relaxed);
    const std::uint64_t step = steps_.fetch_add(1, std::memory_order_relaxed);
    if (one_in == 0 || step % one_in != one_in - 1) return {};
    failures_.fetch_add(1, std::memory_order_relaxed);  // likewise
    return Status(ErrorCode::device_failed, "planted by the host");
  }
  [[nodiscard]] std::uint64_t failures() const noexcept {
    return failures_.load(std::memory_order_relaxed);  // relaxed: for the report
  }

 private:
  const std::string backend_;
  const std::shared_ptr<const RuntimePrograms> programs_;
  std::mutex mutex_;
  Scheduler scheduler_;
  std::mt19937_64 numbers_;
  std::string broken_;
  std::atomic<std::uint64_t> one_failure_in_{0}, steps_{0}, failures_{0};
};

/// One round, kept alive by its threads.
class ThreadedRound : public std::enable_shared_from_this<ThreadedRound> {
 public:
  ThreadedRound(const ThreadedOptions& options, const Backend& backend,
                std::shared_ptr<const RuntimePrograms> programs, std::uint64_t seed)
      : options_(options),
        stage_(backend, std::move(programs), seed),
        world_(stage_, {}, options.planted),
        hosts_(world_) {
    set_host_step([this] { return stage_.step_between(); });
  }

  /// false: the round is stuck.
  bool run() {
    const Clock::time_point end = Clock::now() + options_.round_max;
    std::thread thread([self = shared_from_this()] {
      self->act();
      const std::lock_guard lock(self->mutex_);
      self->over_ = true;
      self->changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, end, [&] { return over_; })) {
      thread.detach();
      return false;
    }
    lock.unlock();
    thread.join();
    set_host_step({});
    return true;
  }
  [[nodiscard]] const std::string& broken() const noexcept { return stage_.broken(); }
  [[nodiscard]] std::vector<Seen> seen() const {
    return {{"works accepted", world_.accepted},
            {"refused", world_.refused},
            {"hosts", num_hosts_},
            {"devices", num_devices_},
            {"failures of steps", stage_.failures()},
            {"values compared", compared_},
            {"donations", hosts_.donated},
            {"merges", hosts_.merged},
            {"replays", hosts_.replayed},
            {"tensors shared", hosts_.shared},
            {"cancels", hosts_.cancelled},
            {"things finalised", hosts_.finalized}};
  }

 private:
  void act() {
    {
      const Held held(stage_);
      hosts_.begin(options_.devices ? *options_.devices : 2 + stage_.draw(3));
    }
    run_hosts();
    await_devices();
    stage_.calm();
    const Held held(stage_);
    if (stage_.broken().empty()) hosts_.read_all();
    if (stage_.broken().empty()) {
      if (std::string broken = world_.check(); !broken.empty()) stage_.fail(broken);
    }
    compared_ = world_.model().compared();
    num_devices_ = world_.seats().size();
    world_.have([&] {  // devices end with their last handle
      hosts_.end();
      world_.close();
    });
  }
  void run_hosts() {
    std::vector<std::uint64_t> actions;
    {
      const Held held(stage_);
      actions.resize(options_.hosts ? *options_.hosts : 2 + stage_.draw(3));
      for (std::uint64_t& each : actions) each = 100 + stage_.draw(900);
    }
    num_hosts_ = actions.size();
    std::vector<std::thread> threads;
    for (const std::uint64_t count : actions) {
      threads.emplace_back([this, count] {
        const Held held(stage_);
        for (int links = 0; links < 3; ++links) hosts_.link();
        for (std::uint64_t k = 0; k < count && stage_.broken().empty(); ++k) hosts_.act();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  /// Tasks may have submitted further work, on any device.
  void await_devices() {
    const auto& seats = world_.seats();
    while (!std::ranges::all_of(seats, [](const auto& seat) { return seat->device.is_idle(); }))
      std::this_thread::sleep_for(100us);
  }

  const ThreadedOptions options_;
  ThreadStage stage_;
  World world_;
  RuntimeHosts hosts_;
  std::uint64_t compared_ = 0, num_hosts_ = 0, num_devices_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
};

void add_seen(std::vector<Seen>& all, const std::vector<Seen>& more) {
  if (all.empty()) all = std::vector(more.size(), Seen{"", 0});
  for (std::size_t k = 0; k < more.size(); ++k)
    all[k] = {more[k].what, all[k].times + more[k].times};
}

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

/// Bytes in use: the allocator keeps ever more memory freed by ended threads, in fragments.
std::uint64_t bytes_used() {
  ::malloc_trim(0);
  return resident_bytes();
}

}  // namespace

std::string ThreadedResult::to_string() const {
  std::string text = fmt::format("{} rounds, {:.0f} works/s in {:.1f} s\n", rounds,
                                 static_cast<double>(works()) / time.count(), time.count());
  for (const Seen& each : seen)
    text += fmt::format("{}{} {}", &each == &seen.front() ? "" : ", ", each.times, each.what);
  text += "\nresident: ";
  if (warm_bytes == 0) return text + mebibytes(end_bytes);
  const double grown = 100 * (static_cast<double>(end_bytes) / static_cast<double>(warm_bytes) - 1);
  return text + fmt::format("{} when warm, {} at the end ({:+.2f} %)", mebibytes(warm_bytes),
                            mebibytes(end_bytes), grown);
}

ThreadedResult run_threaded(const Backend& backend, const ThreadedOptions& options) {
  ThreadedResult result;
  const auto programs = std::make_shared<const RuntimePrograms>(make_programs(backend));
  const auto start = Clock::now();
  std::chrono::duration<double> next_line = progress_pause;
  const auto over = [&] {
    if (options.stop != nullptr && options.stop->load()) return true;
    if (options.works_max != 0 && result.works() >= options.works_max) return true;
    return options.length && result.time >= *options.length;
  };
  for (std::uint64_t seed = options.seed; !over(); ++seed) {
    const auto round = std::make_shared<ThreadedRound>(options, backend, programs, seed);
    ++result.rounds;
    result.last_seed = seed;
    result.stuck = !round->run();
    result.time = Clock::now() - start;
    if (result.stuck) {
      result.broken = fmt::format("a round did not end within {} s", options.round_max.count());
      static auto* const kept = new std::vector<std::shared_ptr<ThreadedRound>>();
      kept->push_back(round);  // its threads continue
      return result;
    }
    add_seen(result.seen, round->seen());
    result.broken = round->broken();
    if (!result.broken.empty()) break;
    if (result.warm_bytes == 0 && result.time >= options.warm) result.warm_bytes = bytes_used();
    if (options.progress && result.time >= next_line) {
      next_line += progress_pause;
      options.progress(fmt::format("{:6.0f} s  {} works in {} rounds, seed {}, {}",
                                   result.time.count(), result.works(), result.rounds, seed,
                                   mebibytes(bytes_used())));
    }
  }
  result.end_bytes = bytes_used();
  return result;
}

}  // namespace heddle::stress
