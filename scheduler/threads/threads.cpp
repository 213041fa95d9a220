// Starting threads.
#include "scheduler/threads/threads.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <cstring>
#include <system_error>
#include <vector>

#include "heddle/observe.hpp"
#include "heddle/status.hpp"
#include "scheduler/threads/processors.hpp"

namespace heddle::sched {
namespace {

/// Signals are for the host's threads: heddle's threads start with all signals blocked.
class BlockSignals {
 public:
  BlockSignals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

void require_allowed(const std::string& name, unsigned processor) {
  std::string known;
  for (const unsigned allowed : allowed_processors()) {
    if (allowed == processor) return;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", allowed);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("'{}': this process may not use processor {} (it may use {})", name,
                          processor, known));
}

namespace {

/// A kernel mask of one processor; empty for nullopt.
std::vector<unsigned long> mask_of(std::optional<unsigned> processor) {
  if (!processor) return {};
  std::vector<unsigned long> mask(CPU_ALLOC_SIZE(*processor + 1) / sizeof(unsigned long));
  CPU_SET_S(*processor, mask.size() * sizeof(unsigned long),
            reinterpret_cast<cpu_set_t*>(mask.data()));
  return mask;
}

/// Binds the calling thread. The kernel refuses a processor that was taken away after the check.
void bind_to(const std::vector<unsigned long>& mask) {
  const int error = pthread_setaffinity_np(pthread_self(), mask.size() * sizeof(unsigned long),
                                           reinterpret_cast<const cpu_set_t*>(mask.data()));
  if (error != 0)
    log(LogLevel::warn,
        fmt::format("a thread runs unbound, on any processor: {}", strerrordesc_np(error)));
}

}  // namespace

std::thread start_thread(const std::string& name, std::optional<unsigned> processor,
                         std::function<void()> body) {
  const BlockSignals blocked;
  try {
    return std::thread(
        [called = name.substr(0, 15), mask = mask_of(processor), body = std::move(body)] {
          pthread_setname_np(pthread_self(), called.c_str());
          if (!mask.empty()) bind_to(mask);
          body();
        });
  } catch (const std::system_error& e) {
    throw Error(ErrorCode::unavailable,
                fmt::format("'{}': no thread could be started ({}); raise the limit on threads or "
                            "on address space, or use mode inline",
                            name, e.what()));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::unavailable,
                fmt::format("'{}': no memory to start a thread; free some, raise the limit on "
                            "address space, or use mode inline",
                            name));
  }
}

}  // namespace heddle::sched
