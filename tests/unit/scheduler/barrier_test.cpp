// Which barriers there are. meson test "scheduler without membarrier" runs all this without.
#include "scheduler/barrier.hpp"

#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace heddle::sched {
namespace {

// S2: cheap ones where the kernel can make the others pass a fence, full fences elsewhere
TEST(BarrierTest, AsymmetricWhereThereIsMembarrier) {
  prepare_barriers();
  const long there = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  const bool expedited = there > 0 && (there & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
  EXPECT_EQ(barrier::asymmetric, expedited);
}

}  // namespace
}  // namespace heddle::sched
