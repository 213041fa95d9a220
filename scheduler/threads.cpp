// Starting threads.
#include "scheduler/threads.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <system_error>

#include "heddle/status.hpp"

namespace heddle::sched {
namespace {

/// Signals are for the host's threads: ours start with all of them blocked.
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

void require_allowed(const std::string& name, unsigned processor) {
  std::string known;
  for (const unsigned allowed : allowed_processors()) {
    if (allowed == processor) return;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", allowed);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("thread '{}': this process may not use processor {} (it may use {})",
                          name, processor, known));
}

}  // namespace

std::vector<unsigned> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<unsigned> result;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return result;
  for (unsigned k = 0; k < CPU_SETSIZE; ++k) {
    if (CPU_ISSET(k, &set)) result.push_back(k);
  }
  return result;
}

std::thread start_thread(const std::string& name, std::optional<unsigned> processor,
                         std::function<void()> body) {
  if (processor) require_allowed(name, *processor);
  const BlockSignals blocked;
  try {
    std::thread thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name.substr(0, 15).c_str());
    if (processor) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(*processor, &set);
      pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
    }
    return thread;
  } catch (const std::system_error& e) {
    throw Error(ErrorCode::unavailable,
                fmt::format("'{}': no thread could be started ({}); raise the limit on threads, or "
                            "use mode inline",
                            name, e.what()));
  }
}

}  // namespace heddle::sched
