// Logging: one level and one hook for the process.
#include "scheduler/observe/log.hpp"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "scheduler/threads/never_destroyed.hpp"
#include "scheduler/threads/process_mutex.hpp"

namespace heddle {
namespace {

enum class Source : std::uint8_t { nobody, environment, program };
struct Level {
  LogLevel level = LogLevel::warn;
  Source source = Source::nobody;
};
std::atomic<Level> level_now{Level{}};
static_assert(std::atomic<Level>::is_always_lock_free);

constinit sched::ProcessMutex hook_mutex;

/// Called with the lock held. Never destroyed: workers may log during exit.
std::shared_ptr<const LogHook>& hook_slot() noexcept {
  static sched::NeverDestroyed<std::shared_ptr<const LogHook>> hook;
  return *hook;
}

constexpr const char* names[] = {"off", "error", "warn", "info", "debug", "trace"};

}  // namespace

Status sched::read_log_level() noexcept {
  // relaxed, here and below: a setting that orders no memory; all of these accesses pair with each
  // other.
  Level seen = level_now.load(std::memory_order_relaxed);
  if (seen.source == Source::program) return {};
  Level wanted{LogLevel::warn, Source::environment};
  Status status;
  if (log_level_from_environment != nullptr) status = log_level_from_environment(wanted.level);
  // A level set by the program meanwhile remains.
  while (seen.source != Source::program &&
         !level_now.compare_exchange_weak(seen, wanted, std::memory_order_relaxed)) {
  }
  return status;
}

void set_log_level(LogLevel level) noexcept {
  // relaxed: pairs with the accesses in read_log_level().
  level_now.store({std::min(level, LogLevel::trace), Source::program}, std::memory_order_relaxed);
}

LogLevel log_level() noexcept {
  // relaxed: pairs with the accesses in read_log_level().
  const Level seen = level_now.load(std::memory_order_relaxed);
  if (seen.source != Source::nobody) return seen.level;
  // No scheduler or backend is open yet, so there is no caller to throw to.
  if (const Status status = sched::read_log_level(); !status.ok())
    sched::log_made(LogLevel::error, [&] { return status.to_string(); });
  // relaxed: pairs with the accesses in read_log_level().
  return level_now.load(std::memory_order_relaxed).level;
}

void set_log_hook(LogHook hook) {
  auto shared = hook ? std::make_shared<const LogHook>(std::move(hook)) : nullptr;
  const std::lock_guard lock(hook_mutex);
  hook_slot() = std::move(shared);
}

void log(LogLevel level, std::string_view text) noexcept {
  level = std::min(level, LogLevel::trace);
  if (level == LogLevel::off || level > log_level()) return;
  try {
    std::shared_ptr<const LogHook> hook;
    {
      const std::lock_guard lock(hook_mutex);
      hook = hook_slot();
    }
    if (hook) {
      (*hook)(level, text);
    } else {
      // One call, so that lines of several threads do not mix; allocates no memory.
      std::fprintf(stderr, "heddle: %s: %.*s\n", names[static_cast<std::size_t>(level)],
                   static_cast<int>(std::min<std::size_t>(text.size(), INT_MAX)), text.data());
    }
  } catch (...) {  // an exception of the hook must not fail a task
  }
}

}  // namespace heddle
