// What a donation costs does not grow with those before it.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "heddle/heddle.hpp"
#include "jit/system/inside.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/protocol/lane.hpp"
#include "scheduler/tuning.hpp"
#include "tests/support/failure.hpp"

namespace heddle {
namespace {

/// How many uses of former owners the next use comes after, on a device that had none.
std::size_t awaited(rt::BufferState& buffer) {
  sched::TaskNote note;
  const std::lock_guard lock(*buffer.ledger);
  const rt::Range all{0, buffer.bytes};
  static_cast<void>(buffer.hazards().order({0, 0, all, rt::Use::read, false}, 1, note));
  return note.after.size();
}

// D17, S25: donated again and again after a use that failed, each time on another device: an owner
// comes after nothing, and is told of few
TEST(DonationCostTest, IsTheSameAfterAnyNumberOfFailures) {
  const Backend backend = Backend::open("sync_cc");
  const ArrayType type{f32, {4}};
  const Tensor t("t", type.dtype, type.dims);
  Index i;
  Program p("add");
  p << (t(i) += 1);
  CompileOptions traced;
  traced.trace_values = true;
  const Code code = backend.compile(p, traced);
  ScheduleOptions failing;
  failing.contain = true;
  failing.trace = [](const TracedValue&) { throw std::runtime_error("broken sensor"); };
  Buffer buffer = Buffer::allocate(backend.physical_device(0).new_virtual_device(), type);
  std::size_t causes = 0;
  for (int round = 0; round < 200; ++round) {
    const Device device = backend.physical_device(0).new_virtual_device();
    buffer = buffer.donate();
    ASSERT_EQ(awaited(*Inside::of(buffer)), 0u) << "round " << round;
    const Status status = failure([&] {
      throw_if_failed(Context(device)
                          .with(t, BufferView(buffer, type))
                          .link(code)
                          .schedule({}, failing)
                          .wait());
    });
    ASSERT_FALSE(status.ok());
    causes = std::max(causes, status.causes());
    EXPECT_EQ(status.root().message(), "broken sensor");
  }
  EXPECT_LE(causes, sched::tuning::causes_max + 1);
}

}  // namespace
}  // namespace heddle
