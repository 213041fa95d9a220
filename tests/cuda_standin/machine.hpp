// State of the GPU stand-in: memory, streams, events, faults. Any thread; functions marked "with
// the lock" require it. tests/driver_rules holds it to the driver's documented rules.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "devices/cuda_driver.hpp"
#include "tests/cuda_standin/further.hpp"
#include "tests/cuda_standin/group.hpp"
#include "tests/cuda_standin/standin.hpp"

namespace heddle::cuda_standin {

using namespace dev::cuda;

/// The limits of a launch.
inline constexpr unsigned threads_max[] = {1024, 1024, 64}, group_threads_max = 1024,
                          groups_max[] = {0x7FFF'FFFF, 65535, 65535}, shared_bytes_max = 48 << 10;

/// The operations of a stream.
struct Progress {
  std::uint64_t asked = 0, ended = 0;
};
/// What an event captured.
struct Record {
  bool ended = false;
};
/// A pool's, which outlives the pool while the pool has allocations.
struct PoolState {
  Ordinal device = 0;
  std::set<Ordinal> devices_with_access{};
  std::size_t used = 0;
  std::uint64_t release_threshold = 0;
};

struct Allocation {
  std::size_t bytes;
  std::shared_ptr<PoolState> pool;
  Stream ordered_by;  ///< the stream that allocates, until it has
  bool freed;         ///< a stream was asked to free it
};

struct Fault {
  std::size_t after;
  Result result;
};

// Objects on the heap, which are never destroyed: a thread of heddle may call the driver while the
// process ends, as it may call NVIDIA's.
// The mutex guards the other variables, and the fields of streams and events.
inline auto& mutex = *new std::mutex;
inline auto& changed = *new std::condition_variable;
inline auto& look = *new Look;
inline auto& faults = *new std::map<std::string, Fault>;
inline auto& calls = *new std::map<std::string, std::size_t>;
inline auto& allocations = *new std::map<Address, Allocation>;
inline auto& host_allocations = *new std::map<void*, std::size_t>;
inline auto& fault = *new std::string;                 // of the last kernel that failed
inline auto& broken = *new std::map<Ordinal, Result>;  // by an error that persists
inline auto& taken = *new std::map<Ordinal, std::size_t>;
inline auto& retained = *new std::map<Ordinal, std::size_t>;
inline auto& random_delay = *new std::mt19937_64(1);
inline auto& streams = *new std::vector<Stream>;
inline auto& legacy_streams = *new std::map<Ordinal, Stream>;
inline auto& ending_streams = *new std::vector<Stream>;  // destroyed
inline bool held = false;
inline std::chrono::milliseconds copy_delay{0};
inline std::size_t handles = 0;

/// Contexts that each thread has pushed. No thread_local: LeakSanitizer crashes on thread_local
/// variables of many libraries.
inline auto& contexts_of = *new std::map<std::thread::id, std::vector<Context>>;
inline std::vector<Context>& contexts() { return contexts_of[std::this_thread::get_id()]; }

inline Ordinal current_device() {
  return static_cast<Ordinal>(reinterpret_cast<std::uintptr_t>(contexts().back())) - 1;
}

/// The result that `function` returns before any work; with the lock.
inline Result enter(const char* function, bool needs_context = true) {
  ++calls[function];
  if (const auto at = faults.find(function); at != faults.end() && at->second.after-- == 0) {
    const Result result = at->second.result;
    faults.erase(at);
    return result;
  }
  if (!needs_context) return success;
  if (contexts().empty()) return invalid_context;
  const auto at = broken.find(current_device());
  return at == broken.end() ? success : at->second;
}

#define ENTER(function, ...)                                                                  \
  const std::lock_guard lock(mutex);                                                          \
  if (const Result entered = enter(#function __VA_OPT__(, ) __VA_ARGS__); entered != success) \
    return entered;

inline bool is_of_gpu(Address data) { return (data & not_of_host) != 0; }
inline void* in_host(Address data) { return reinterpret_cast<void*>(data & ~not_of_host); }

/// Frees what a context that goes left behind, as one that failed does.
void drop_memory(Ordinal device);

/// The allocation that holds the whole range; null without one. With the lock.
inline Allocation* allocation_of(Address data, std::size_t bytes = 0) {
  const auto after = allocations.upper_bound(data);
  if (after == allocations.begin()) return nullptr;
  auto& [at, allocation] = *std::prev(after);
  const bool inside = data - at <= allocation.bytes && bytes <= allocation.bytes - (data - at);
  return inside ? &allocation : nullptr;
}

}  // namespace heddle::cuda_standin

namespace heddle::dev::cuda {

using namespace cuda_standin;

struct EventTag {
  const Ordinal device;
  std::shared_ptr<Record> record{};  ///< the latest; null before the first
};

/// Runs operations in order, on a thread.
struct StreamTag {
  StreamTag(Ordinal of, bool blocks) : device(of), blocking(blocks), thread([this] { run(); }) {}
  /// Not under the lock, which the thread takes.
  ~StreamTag() {
    {
      const std::lock_guard lock(mutex);
      closed = abandoned = true;
    }
    changed.notify_all();
    thread.join();
  }
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] {
        return asked.empty() ? closed : !held || abandoned || broken.contains(device);
      });
      if (asked.empty()) return;
      const auto& first = asked.front();  // a deque: other threads only append
      const bool late = random_delay() % 4 == 0;
      const std::chrono::microseconds delay(random_delay() % 200);
      lock.unlock();
      if (late) std::this_thread::sleep_for(delay);
      const Result result = first();
      lock.lock();
      if (result != success) broken.emplace(device, result);
      asked.pop_front();
      ++progress->ended;
      changed.notify_all();
    }
  }
  const Ordinal device;
  const bool blocking;  ///< work here and in the legacy stream is in the order of the calls
  const std::shared_ptr<Progress> progress = std::make_shared<Progress>();
  Group group;  ///< runs in the stream's thread
  std::deque<std::function<Result()>> asked;
  bool closed = false, abandoned = false;
  std::thread thread;
};

struct PoolTag {
  std::shared_ptr<PoolState> state;
};
struct ModuleTag {
  void* library;
  int file;
};
struct FunctionTag {
  StandinKernel kernel;
  bool meets;  ///< threads of a group wait for one another
};

}  // namespace heddle::dev::cuda

namespace heddle::cuda_standin {

/// The legacy default stream of the current context for null, made by its first use; with the lock.
inline Stream stream_of(Stream stream) {
  if (stream != nullptr) return stream;
  Stream& legacy = legacy_streams[current_device()];
  if (legacy == nullptr) legacy = new StreamTag(current_device(), false);
  return legacy;
}

/// A number of operations of a stream.
using Point = std::pair<std::shared_ptr<const Progress>, std::uint64_t>;

/// The operations that come before the next operation of a stream, beside the stream's own; with
/// the lock.
inline std::vector<Point> before_next(Stream stream) {
  std::vector<Point> before;
  const auto legacy = legacy_streams.find(stream->device);
  if (legacy == legacy_streams.end()) return before;
  const auto add = [&](const StreamTag& each) {
    before.emplace_back(each.progress, each.progress->asked);
  };
  if (stream->blocking) add(*legacy->second);
  if (stream != legacy->second) return before;
  for (const auto* const all : {&streams, &ending_streams}) {
    for (const StreamTag* const each : *all)
      if (each->blocking && each->device == stream->device) add(*each);
  }
  return before;
}

/// Appends `run` to the stream. The result of `run` becomes the stream's error. No operation runs
/// after an error. With the lock.
inline Result ask(Stream to, std::function<Result()> run) {
  Stream const stream = stream_of(to);
  stream->asked.push_back([stream, before = before_next(stream), run = std::move(run)] {
    {
      std::unique_lock waiting(mutex);
      const auto is_broken = [&] { return broken.contains(stream->device); };
      changed.wait(waiting, [&] {
        return is_broken() || std::ranges::all_of(before, [](const Point& point) {
                 return point.first->ended >= point.second;
               });
      });
      if (is_broken()) return broken.at(stream->device);
    }
    return run();
  });
  ++stream->progress->asked;
  changed.notify_all();
  return success;
}

/// Waits until all operations that the stream was asked for have ended; with the lock.
inline Result wait_for(Stream stream, std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<const Progress> progress = stream->progress;
  const Ordinal device = stream->device;
  changed.wait(lock, [&, last = progress->asked] { return progress->ended >= last; });
  const auto at = broken.find(device);
  return at == broken.end() ? success : at->second;
}

/// Whether an operation of the stream may access the range: host memory, or part of an allocation
/// that this stream or its device made, or another device whose memory is accessible. With the
/// lock.
inline bool may_access(const StreamTag& stream, Address data, std::size_t bytes) {
  if (!is_of_gpu(data)) return true;
  const Allocation* const allocation = allocation_of(data, bytes);
  return allocation != nullptr &&
         (allocation->ordered_by == nullptr || allocation->ordered_by == &stream) &&
         (allocation->pool->device == stream.device ||
          allocation->pool->devices_with_access.contains(stream.device));
}

#define HEDDLE_DECLARE(name, symbol, since, parameters) Result symbol parameters;
HEDDLE_CUDA_FUNCTIONS(HEDDLE_DECLARE)
CUDA_STANDIN_FURTHER_FUNCTIONS(HEDDLE_DECLARE)
#undef HEDDLE_DECLARE

}  // namespace heddle::cuda_standin
