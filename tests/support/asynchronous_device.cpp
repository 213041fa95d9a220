// See asynchronous_device.hpp.
#include "tests/support/asynchronous_device.hpp"

#include <array>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/backend.hpp"

namespace heddle {
namespace {

struct Line;

/// An entry of a queue: an operation; or a wait for a mark of a second queue; or (neither) a
/// request to report that the earlier entries have ended.
struct Asked {
  std::function<void()> run{};
  std::uint64_t number = 0;
  std::shared_ptr<const Line> awaited{};
};

/// A queue as the device sees it.
struct Line {
  explicit Line(dev::Completions& by) : told(&by) {}
  dev::Completions* const told;
  std::deque<Asked> asked;
  bool busy = false;         // a thread runs the first entry
  Status failed;             // the first failure since the last mark
  std::uint64_t passed = 0;  // the last mark that the queue has reached
};

struct Notice {
  std::shared_ptr<Line> line;
  std::uint64_t number;
  Status status;
};

constexpr std::size_t queues_at_once = 2;

}  // namespace

class AsynchronousDevice::Engine {
 public:
  explicit Engine(AsynchronousOptions options)
      : delay_max_(options.delay_max), random_(options.seed) {
    for (std::size_t k = 0; k < queues_at_once; ++k) threads_[k] = std::thread([this] { run(); });
    threads_.back() = std::thread([this] { tell(); });
  }
  /// May be called in the last call of `told`.
  static void close(std::shared_ptr<Engine> engine) {
    {
      const std::lock_guard lock(engine->mutex_);
      engine->closed_ = true;
      engine->held_ = false;
      engine->asked_last_ = engine->resumed_ = nullptr;
    }
    engine->changed_.notify_all();
    for (std::thread& thread : engine->threads_) {
      if (thread.get_id() != std::this_thread::get_id()) {
        thread.join();
      } else {
        engine->kept_ = engine;  // until that thread ends
        thread.detach();
      }
    }
  }

  void hold(bool held) {
    {
      const std::lock_guard lock(mutex_);
      held_ = held;
      resumed_ = nullptr;
    }
    changed_.notify_all();
  }
  void fail_issue(std::size_t after) {
    const std::lock_guard lock(mutex_);
    refused_in_ = after + 1;
  }
  void resume_last() {
    {
      const std::lock_guard lock(mutex_);
      resumed_ = asked_last_;
    }
    changed_.notify_all();
  }
  void fail_record(std::size_t after) {
    const std::lock_guard lock(mutex_);
    record_refused_in_ = after + 1;
  }
  void refuse_waits() {
    const std::lock_guard lock(mutex_);
    refuses_waits_ = true;
  }
  std::size_t waits() {
    const std::lock_guard lock(mutex_);
    return waits_;
  }
  void fail_next_end(std::size_t after) {
    const std::lock_guard lock(mutex_);
    broken_in_ = after + 1;
  }
  void lose() {
    const std::lock_guard lock(mutex_);
    lost_ = true;
  }
  std::size_t pending() {
    const std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const auto& line : lines_) {
      for (const Asked& asked : line->asked) sum += asked.run ? 1 : 0;
    }
    return sum;
  }

  std::shared_ptr<Line> open(dev::Completions& completions) {
    const std::lock_guard lock(mutex_);
    return lines_.emplace_back(std::make_shared<Line>(completions));
  }
  void close(const std::shared_ptr<Line>& line) {
    std::unique_lock lock(mutex_);
    // The owner that drops the queue has not kept the memory of its operations.
    for (const Asked& asked : line->asked) {
      if (!asked.awaited) std::abort();
    }
    std::erase(lines_, line);
    std::erase_if(notices_, [&](const Notice& notice) { return notice.line == line; });
    if (std::this_thread::get_id() == threads_.back().get_id()) return;
    changed_.wait(lock, [&] { return told_now_ != line; });
  }
  /// Drops every entry of the queue without a report.
  Status refuse_record(Line& line, std::uint64_t number, std::unique_lock<std::mutex>& lock) {
    changed_.wait(lock, [&] { return !line.busy; });
    line.asked.clear();
    line.passed = number;
    changed_.notify_all();
    return Status(ErrorCode::device_failed, "the asynchronous device takes no mark");
  }
  Status ask(const std::shared_ptr<Line>& to, Asked asked) {
    Line& line = *to;
    {
      std::unique_lock lock(mutex_);
      if (asked.awaited) {
        if (refuses_waits_) return Status(ErrorCode::unavailable, "no queue waits for another");
        ++waits_;
      } else if (!asked.run && record_refused_in_ != 0 && --record_refused_in_ == 0) {
        return refuse_record(line, asked.number, lock);
      }
      if (asked.run) {
        if (lost_) return Status(ErrorCode::device_failed, "the asynchronous device is lost");
        if (refused_in_ != 0 && --refused_in_ == 0)
          return Status(ErrorCode::device_failed, "the asynchronous device takes nothing");
        asked_last_ = to;
      }
      line.asked.push_back(std::move(asked));
    }
    changed_.notify_all();
    return {};
  }

 private:
  /// A random queue whose next entry can begin; null: no queue is ready.
  std::shared_ptr<Line> choose() {
    std::vector<std::shared_ptr<Line>> ready;
    for (const auto& line : lines_) {
      if (line->busy || line->asked.empty()) continue;
      const Asked& first = line->asked.front();
      if (first.awaited && first.awaited->passed < first.number) continue;
      if (!held_ || !first.run || line == resumed_) ready.push_back(line);
    }
    return ready.empty() ? nullptr : ready[random_() % ready.size()];
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      std::shared_ptr<Line> line;
      changed_.wait(lock, [&] { return (line = choose()) != nullptr || closed_; });
      if (line == nullptr) return;
      run_first_of(line, lock);
      changed_.notify_all();
    }
  }

  void run_first_of(const std::shared_ptr<Line>& line, std::unique_lock<std::mutex>& lock) {
    Asked& asked = line->asked.front();  // a deque: other threads only append
    if (asked.run) {
      const bool late = random_() % 4 == 0;
      const std::chrono::microseconds delay(random_() %
                                            static_cast<std::uint64_t>(delay_max_.count() + 1));
      line->busy = true;
      lock.unlock();
      if (late) std::this_thread::sleep_for(delay);
      lock.lock();
      const bool fails = broken_in_ != 0 && --broken_in_ == 0;
      if ((fails || lost_) && line->failed.ok()) {
        line->failed = Status(ErrorCode::device_failed, lost_ ? "the asynchronous device is lost"
                                                              : "the asynchronous device broke");
      }
      if (!fails && !lost_) {
        lock.unlock();
        asked.run();
        lock.lock();
      }
      line->busy = false;
    } else if (!asked.awaited) {
      line->passed = asked.number;
      notices_.push_back({line, asked.number, std::exchange(line->failed, {})});
    }
    line->asked.pop_front();
  }

  void tell() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !notices_.empty() || closed_; });
      if (notices_.empty()) break;
      Notice notice = std::move(notices_.front());
      notices_.pop_front();
      // Some notices are delivered together.
      while (notice.status.ok() && !notices_.empty() && notices_.front().line == notice.line &&
             notices_.front().status.ok() && random_() % 2 == 0) {
        notice.number = notices_.front().number;
        notices_.pop_front();
      }
      told_now_ = notice.line;
      lock.unlock();
      notice.line->told->ended(notice.number, std::move(notice.status));
      lock.lock();
      told_now_ = nullptr;
      changed_.notify_all();
    }
    lock.unlock();
    const auto last = std::move(kept_);
  }

  const std::chrono::microseconds delay_max_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::mt19937_64 random_;
  bool refuses_waits_ = false, held_ = false, lost_ = false, closed_ = false;
  std::size_t refused_in_ = 0, record_refused_in_ = 0, broken_in_ = 0, waits_ = 0;
  std::shared_ptr<Line> asked_last_, resumed_;  // for an operation; the queue that is not held
  std::shared_ptr<Line> told_now_;
  std::vector<std::shared_ptr<Line>> lines_;
  std::deque<Notice> notices_;
  std::shared_ptr<Engine> kept_;
  std::array<std::thread, queues_at_once + 1> threads_;
};

namespace {

class AsynchronousQueue final : public dev::Queue {
 public:
  AsynchronousQueue(std::shared_ptr<AsynchronousDevice::Engine> engine, std::shared_ptr<Line> line)
      : engine_(std::move(engine)), line_(std::move(line)) {}
  ~AsynchronousQueue() override { engine_->close(line_); }
  AsynchronousQueue(const AsynchronousQueue&) = delete;
  AsynchronousQueue& operator=(const AsynchronousQueue&) = delete;

  Status zero(void* data, std::size_t bytes) noexcept override {
    return engine_->ask(line_, {[=] { std::memset(data, 0, bytes); }});
  }
  Status from_host(void* data, const void* host, std::size_t bytes) noexcept override {
    return copy(data, host, bytes);
  }
  Status to_host(void* host, const void* data, std::size_t bytes) noexcept override {
    return copy(host, data, bytes);
  }
  Status copy(void* to, const void* from, std::size_t bytes) noexcept override {
    return engine_->ask(line_, {[=] { std::memcpy(to, from, bytes); }});
  }
  Status launch(const dev::Module& module, std::size_t kernel,
                const heddle_kernel_args& args) noexcept override {
    return engine_->ask(line_, {[run = module.host_function(kernel), args] { run(&args); }});
  }
  Status record(std::uint64_t number) noexcept override {
    return engine_->ask(line_, {.number = number});
  }
  Status wait(const dev::Mark& mark) noexcept override {
    const auto& other = static_cast<const AsynchronousQueue&>(*mark.queue);
    return engine_->ask(line_, {.number = mark.number, .awaited = other.line_});
  }

 private:
  const std::shared_ptr<AsynchronousDevice::Engine> engine_;
  const std::shared_ptr<Line> line_;
};

}  // namespace

/// The domain's threads end with the last device.
struct AsynchronousDevice::Domain {
  explicit Domain(AsynchronousOptions options) : engine(std::make_shared<Engine>(options)) {}
  ~Domain() { Engine::close(engine); }
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;
  const std::shared_ptr<Engine> engine;
};

AsynchronousDevice::AsynchronousDevice(AsynchronousOptions options,
                                       const AsynchronousDevice* of_domain)
    : is_peer_(options.is_peer),
      domain_(of_domain != nullptr ? of_domain->domain_ : std::make_shared<Domain>(options)),
      engine_(domain_->engine) {
  properties_.name = "asynchronous";
  if (!options.in_host_memory) properties_.memory_space = reinterpret_cast<std::uintptr_t>(this);
  properties_.completion_domain = reinterpret_cast<std::uintptr_t>(engine_.get());
}
AsynchronousDevice::~AsynchronousDevice() = default;

void AsynchronousDevice::hold() { engine_->hold(true); }
void AsynchronousDevice::resume() { engine_->hold(false); }
void AsynchronousDevice::fail_issue(std::size_t after) { engine_->fail_issue(after); }
void AsynchronousDevice::resume_last() { engine_->resume_last(); }
void AsynchronousDevice::fail_record(std::size_t after) { engine_->fail_record(after); }
void AsynchronousDevice::refuse_waits() { engine_->refuse_waits(); }
std::size_t AsynchronousDevice::waits() const { return engine_->waits(); }
void AsynchronousDevice::fail_next_end(std::size_t after) { engine_->fail_next_end(after); }
void AsynchronousDevice::lose() { engine_->lose(); }
std::size_t AsynchronousDevice::pending() const { return engine_->pending(); }

Status AsynchronousDevice::allocate(std::size_t bytes, void** data) noexcept {
  // Larger than any allocation that tests expect to succeed.
  *data = bytes > std::size_t{1} << 34 ? nullptr : std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (*data == nullptr) return Status(ErrorCode::exhausted, "the asynchronous device is full");
  if (bytes <= std::size_t{1} << 24) std::memset(*data, 0xA5, bytes);
  return {};
}
void AsynchronousDevice::release(void* data, std::size_t /*bytes*/) noexcept { std::free(data); }

Status AsynchronousDevice::new_queue(dev::Completions& completions,
                                     std::unique_ptr<dev::Queue>* queue) noexcept {
  return dev::make_queue<AsynchronousQueue>(queue, engine_, engine_->open(completions));
}

bool AsynchronousDevice::is_peer_of(const PhysicalDevice& other) const noexcept {
  return is_peer_ && dynamic_cast<const AsynchronousDevice*>(&other) != nullptr;
}

void register_asynchronous(const std::string& name, AsynchronousOptions options, sched::Mode mode) {
  register_backend({name, "cc", mode, [options] {
                      const auto first = std::make_shared<AsynchronousDevice>(options);
                      const auto second =
                          std::make_shared<AsynchronousDevice>(options, first.get());
                      return std::vector<std::shared_ptr<dev::PhysicalDevice>>{first, second};
                    }});
}

}  // namespace heddle
