// State of the GPU stand-in: memory, streams, events, faults. Any thread; functions marked "with
// the lock" require it.
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
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "devices/cuda_driver.hpp"
#include "tests/cuda_standin/group.hpp"
#include "tests/cuda_standin/standin.hpp"

namespace heddle::cuda_standin {

using namespace dev::cuda;

inline constexpr Result invalid_value = 1, invalid_context = 201, illegal_address = 700;
inline constexpr std::size_t device_bytes = std::size_t{1} << 30;

/// How often an event was recorded, and how many records its streams have passed.
struct Reached {
  std::uint64_t recorded = 0, passed = 0;
};

struct Allocation {
  std::size_t bytes;
  Ordinal device;
};

struct Fault {
  std::size_t after;
  Result result;
};

inline std::mutex mutex;  // guards the variables below, and the fields of streams and events
inline std::condition_variable changed;
inline Look look;
inline std::map<std::string, Fault> faults;
inline std::map<std::string, std::size_t> calls;
inline std::map<Address, Allocation> allocations;
inline std::string fault;                 // of the last kernel that failed
inline std::map<Ordinal, Result> broken;  // by an error that persists
inline std::map<Ordinal, std::size_t> taken;
inline std::mt19937_64 random_delay(1);
inline std::vector<Stream> streams;
inline bool held = false;
inline std::size_t handles = 0;

/// Contexts that each thread has pushed. No thread_local: LeakSanitizer crashes on thread_local
/// variables of many libraries.
inline std::map<std::thread::id, std::vector<Context>> contexts_of;
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

/// GPU memory is out of the host's reach: GPU addresses have an extra bit, and with that bit no
/// address belongs to the host.
inline constexpr Address not_of_host = Address{1} << 47U;
inline void* in_host(Address data) { return reinterpret_cast<void*>(data & ~not_of_host); }

/// True where the range is host memory, or lies entirely in one allocation.
inline bool may_touch(Address data, std::size_t bytes) {
  if ((data & not_of_host) == 0) return true;
  const auto after = allocations.upper_bound(data);
  if (after == allocations.begin()) return false;
  const auto& [at, allocation] = *std::prev(after);
  return data - at <= allocation.bytes && bytes <= allocation.bytes - (data - at);
}

}  // namespace heddle::cuda_standin

namespace heddle::dev::cuda {

using namespace cuda_standin;

struct EventTag {
  std::shared_ptr<Reached> reached = std::make_shared<Reached>();
};

/// Runs operations in order, on a thread.
struct StreamTag {
  explicit StreamTag(Ordinal of) : device(of), thread([this] { run(); }) {}
  ~StreamTag() {
    {
      const std::lock_guard lock(mutex);
      closed = true;
    }
    changed.notify_all();
    thread.join();
  }
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(
          lock, [&] { return closed || (!asked.empty() && (!held || broken.contains(device))); });
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
      changed.notify_all();
    }
  }
  const Ordinal device;
  Group group;  ///< runs in the stream's thread
  std::deque<std::function<Result()>> asked;
  bool closed = false;
  std::thread thread;
};

struct PoolTag {
  Ordinal device;
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

/// Appends `run` to the stream. The result of `run` becomes the stream's error. No operation runs
/// after an error.
inline Result ask(Stream stream, std::function<Result()> run) {
  stream->asked.push_back([stream, run = std::move(run)] {
    {
      const std::lock_guard lock(mutex);
      if (const auto at = broken.find(stream->device); at != broken.end()) return at->second;
    }
    return run();
  });
  changed.notify_all();
  return success;
}

inline Result touch(Address data, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  return may_touch(data, bytes) ? success : illegal_address;
}

#define HEDDLE_DECLARE(name, symbol, since, parameters) Result symbol parameters;
HEDDLE_CUDA_FUNCTIONS(HEDDLE_DECLARE)
#undef HEDDLE_DECLARE

}  // namespace heddle::cuda_standin
