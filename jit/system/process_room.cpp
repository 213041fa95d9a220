// See system/process_room.hpp.
#include "jit/system/process_room.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <exception>
#include <latch>
#include <thread>
#include <vector>

#include "heddle/status.hpp"
#include "scheduler/threads/threads.hpp"

namespace heddle::jit {

void check_process_room(std::size_t processes) {
  std::latch seen(1);
  std::vector<std::thread> threads;
  try {
    threads.reserve(processes);
    while (threads.size() < processes)
      threads.push_back(sched::start_thread("heddle-room", std::nullopt, [&seen] { seen.wait(); }));
  } catch (const std::exception&) {  // counted below
  }
  seen.count_down();
  for (std::thread& thread : threads) thread.join();
  if (threads.size() == processes) return;
  throw Error(ErrorCode::unavailable,
              fmt::format("a compiler needs {} more processes at once, and {} may be started{}",
                          processes, threads.size(), process_room_advice()));
}

std::string process_room_advice() {
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return fmt::format(
      "; the user's limit of processes and threads (ulimit -u) is {}, and a container may have a "
      "lower one (pids.max): end some of them, or have the limit raised",
      known ? std::to_string(limit.rlim_cur) : "none");
}

}  // namespace heddle::jit
