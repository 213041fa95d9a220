// Logging: one level and one hook for the process.
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "heddle/observe.hpp"

namespace heddle {
namespace {

std::atomic<LogLevel> level_now{LogLevel::warn};

std::mutex& hook_mutex() {
  static auto* const mutex = new std::mutex();  // never destroyed: workers may log during exit
  return *mutex;
}

std::shared_ptr<const LogHook>& hook_slot() {
  static auto* const hook = new std::shared_ptr<const LogHook>();
  return *hook;
}

constexpr const char* names[] = {"off", "error", "warn", "info", "debug", "trace"};

}  // namespace

void set_log_level(LogLevel level) noexcept {
  // relaxed: a setting; pairs with the load below, and orders nothing.
  level_now.store(level, std::memory_order_relaxed);
}

LogLevel log_level() noexcept {
  // relaxed: see set_log_level().
  return level_now.load(std::memory_order_relaxed);
}

void set_log_hook(LogHook hook) {
  auto shared = hook ? std::make_shared<const LogHook>(std::move(hook)) : nullptr;
  const std::lock_guard lock(hook_mutex());
  hook_slot() = std::move(shared);
}

void log(LogLevel level, std::string_view text) noexcept {
  if (level == LogLevel::off || level > log_level()) return;
  try {
    std::shared_ptr<const LogHook> hook;
    {
      const std::lock_guard lock(hook_mutex());
      hook = hook_slot();
    }
    if (hook) {
      (*hook)(level, text);
    } else {
      const std::string line = std::string("heddle: ") + names[static_cast<std::size_t>(level)] +
                               ": " + std::string(text) + "\n";
      std::fwrite(line.data(), 1, line.size(), stderr);
    }
  } catch (...) {  // a hook's own trouble must not become a task's
  }
}

}  // namespace heddle
