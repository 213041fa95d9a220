// The threads of a round, and its end.
#include "tools/stress/round.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <semaphore>
#include <system_error>
#include <thread>
#include <utility>

#include "tools/stress/fabric.hpp"

namespace heddle::stress {
namespace {

using namespace std::chrono_literals;
using Clock = Event::Clock;

constexpr std::size_t small_trace = 512;  // some events are dropped

class Round {
 public:
  explicit Round(const RoundOptions& options)
      : options_(options), random_(options.seed), fabric_(random_) {}

  /// false: a thread is stuck, and the round must stay alive.
  [[nodiscard]] bool run(RoundResult& result);

 private:
  void produce(Submitter& host, std::uint64_t seed);
  void act(Random& random, Submitter& host);
  void end_threads();
  void give_up(std::exception_ptr why) noexcept;
  void signal(std::uint64_t seed);
  void signal_once(Random& random, std::optional<sched::ExternalTimeline>& timeline);
  void serve_manual();
  void end_late(std::uint64_t seed);
  template <class Body>
  void start_thread(Body body);
  [[nodiscard]] bool join(int count, Clock::time_point deadline);

  const RoundOptions options_;
  Random random_;
  Fabric fabric_;
  std::deque<Submitter> hosts_;
  Tally foreign_;
  std::atomic<bool> hosts_ended_{false}, all_ended_{false}, failed_{false};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;  // guarded by failure_mutex_
  std::vector<std::thread> threads_;
  std::counting_semaphore<> ended_{0};
};

template <class Body>
void Round::start_thread(Body body) try {
  threads_.emplace_back([this, body = std::move(body)] {
    try {
      body();
    } catch (...) {
      give_up(std::current_exception());
    }
    ended_.release();
  });
} catch (const std::system_error& error) {
  throw Error(ErrorCode::unavailable,
              fmt::format("no thread could be started for the stress itself ({}); raise the limits "
                          "on threads and memory",
                          error.code().message()));
}

/// A failure to get a resource, such as memory or a thread, ends the round.
void Round::give_up(std::exception_ptr why) noexcept {
  const std::scoped_lock lock(failure_mutex_);
  if (!failure_) failure_ = std::move(why);
  failed_.store(true);
}

bool Round::join(int count, Clock::time_point deadline) {
  for (int k = 0; k < count; ++k) {
    if (!ended_.try_acquire_until(deadline)) return false;
  }
  return true;
}

void Round::act(Random& random, Submitter& host) {
  const sched::TaskDevice& device = fabric_.target(random).device;
  const auto count_wait = [&](const Status& status) {
    ++host.tally[Count::waits];
    if (status.code() == ErrorCode::deadline) ++host.tally[Count::late_waits];
  };
  switch (random() % 128) {
    case 0:
      ++host.tally[Count::recoveries];
      static_cast<void>(device.recover());
      break;
    case 1:
      ++host.tally[Count::cancels];
      device.cancel_pending();
      break;
    case 3:
      return count_wait(device.await_for(std::chrono::microseconds(random() % 1000)));
    case 4:
      return count_wait(device.await());
    case 2:
    case 5:
      return count_wait(fabric_.draw(random).wait_for(std::chrono::microseconds(random() % 500)));
    case 6:
      return count_wait(device.record().wait());
    case 7:
      if (device.snapshot().to_string().empty()) fabric_.complain("an empty snapshot");
      break;
    case 8:
      return fabric_.reopen(random, host);
    case 9:
    case 10:
    case 11:
      return fabric_.wait_on_device(random, host);
    case 12:
      return fabric_.watch_descriptor(random, host);
    case 13:
    case 14:
      static_cast<void>(fabric_.end_one(random));
      break;
    default:
      fabric_.submit(random, host);
  }
}

void Round::produce(Submitter& host, std::uint64_t seed) {
  Random random(seed);
  for (int k = 0; k < options_.actions && !failed_.load(); ++k) act(random, host);
}

/// Signals late, with a failure, or never.
void Round::signal_once(Random& random, std::optional<sched::ExternalTimeline>& timeline) {
  if (!timeline) timeline.emplace("foreign");
  const Event event = timeline->next();
  fabric_.publish(event);
  if (once_in(4, random)) {
    ++foreign_[Count::foreign_late];
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
  } else {
    std::this_thread::yield();
  }
  if (once_in(32, random)) {
    ++foreign_[Count::foreign_forgotten];
    timeline.reset();
    return;
  }
  const bool fails = once_in(8, random);
  if (fails) ++foreign_[Count::foreign_failed];
  const Status end = fails ? Status(ErrorCode::device_failed, "foreign") : Status();
  if (!timeline->signal(event.ticket(), end).ok()) fabric_.complain("a signal was refused");
}

void Round::signal(std::uint64_t seed) {
  Random random(seed);
  std::optional<sched::ExternalTimeline> timeline;
  while (!hosts_ended_.load()) signal_once(random, timeline);
}

void Round::serve_manual() {
  while (!all_ended_.load()) {
    try {
      static_cast<void>(fabric_.scheduler().run_one(200us));
      static_cast<void>(fabric_.scheduler().poll(100us));
    } catch (...) {
      // and continue: other threads wait for the remaining signals
      give_up(std::current_exception());
    }
    if (!fabric_.has_manual()) std::this_thread::sleep_for(100us);  // the loop above did not wait
  }
}

void Round::end_late(std::uint64_t seed) {
  Random random(seed);
  while (!all_ended_.load()) {
    try {
      const bool ended = fabric_.end_one(random);
      if (!ended || once_in(8, random))
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
    } catch (...) {
      give_up(std::current_exception());  // and continue, as above
    }
  }
}

void Round::end_threads() {
  all_ended_.store(true);
  for (std::thread& thread : threads_) thread.join();
}

bool Round::run(RoundResult& result) {
  const auto deadline = Clock::now() + options_.patience;
  const auto stuck = [&](const char* who) {
    result.stuck = true;
    result.broken = fabric_.take_complaints();
    result.broken.push_back(fmt::format("{} did not end within {} s; devices:{}", who,
                                        std::chrono::duration<double>(options_.patience).count(),
                                        fabric_.describe()));
    return false;
  };
  const int host_count = 1 + static_cast<int>(random_() % 4);
  try {
    start_thread([this, seed = random_()] { signal(seed); });
    start_thread([this] { serve_manual(); });
    start_thread([this, seed = random_()] { end_late(seed); });
    for (int k = 0; k < host_count; ++k)
      start_thread(
          [this, &host = hosts_.emplace_back(), seed = random_()] { produce(host, seed); });
  } catch (...) {
    give_up(std::current_exception());
  }
  const int started = static_cast<int>(threads_.size());
  // All threads except the three that serve the others; if there are none, these three.
  const int serving = std::min(started, 3);
  if (!join(started - serving, deadline)) return stuck("a host");
  hosts_ended_.store(true);
  if (!join(std::min(serving, 1), deadline)) return stuck("the foreign signaller");
  if (failed_.load()) {
    // Tasks access members of this object.
    if (!fabric_.await_devices(deadline)) return stuck("a device");
    end_threads();
    std::rethrow_exception(failure_);
  }
  if (!fabric_.settle(deadline)) return stuck("a device or callback");
  std::vector<const Submitter*> hosts;
  for (const Submitter& host : hosts_) hosts.push_back(&host);
  result.tally = foreign_;
  fabric_.check_all(hosts, result.tally);
  all_ended_.store(true);
  if (!join(2, deadline)) return stuck("poll() or Completion::end()");
  end_threads();
  result.broken = fabric_.take_complaints();
  ++result.tally[Count::rounds];
  return true;
}

}  // namespace

RoundResult run_round(const RoundOptions& options) {
  RoundResult result;
  Random random(options.seed);
  const bool traced = options.trace || once_in(4, random);
  if (traced) {
    TraceOptions trace;
    trace.submits = options.trace || once_in(2, random);
    if (!options.trace) trace.events_max = small_trace;
    start_trace(trace);
  }
  auto round = std::make_unique<Round>(options);
  const bool ended = round->run(result);
  if (traced) {
    ++result.tally[Count::traces];
    Trace trace = stop_trace();
    for (std::string& broken : check(trace)) result.broken.push_back(std::move(broken));
    if (options.trace) result.trace = std::move(trace);
  }
  if (!ended) static_cast<void>(round.release());  // its threads are still running
  return result;
}

}  // namespace heddle::stress
