// The heavy barrier, and whether there is one.
#include "scheduler/barrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

namespace heddle::sched {
namespace barrier {
bool asymmetric = false;
}
namespace {

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

}  // namespace

void prepare_barriers() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    barrier::asymmetric = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  });
}

void heavy_barrier() noexcept {
  if (barrier::asymmetric) membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

}  // namespace heddle::sched
