// Batches in parts, which several threads compile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/support/failure.hpp"
#include "tests/unit/runtime/async_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class AsyncBatchTest : public AsyncCompileTest {};

// Issue 4.6, S13: the threads that help with a batch may end after it
TEST_F(AsyncBatchTest, ClosingEndsABatchThatHangs) {
  hang();
  const Backend backend = Backend::open(options());
  std::vector<Program> programs;
  for (int k = 0; k < 16; ++k) programs.push_back(adder("p" + std::to_string(k), x_, k));
  const PendingBatch pending = backend.compile_batch_async(programs);
  wait_until_it_hangs();
  static_cast<void>(failure([&] { backend.finalize(1ms); }));
  EXPECT_EQ(failure([&] { static_cast<void>(pending.get()); }).root().code(), ErrorCode::cancelled);
}

// Issue 4.6: parts at once, results in order, progress one by one
TEST_F(AsyncBatchTest, BatchesTellTheirProgress) {
  const Backend backend = Backend::open(options());
  std::vector<Program> programs;
  for (int k = 0; k < 11; ++k) programs.push_back(adder("p" + std::to_string(k), x_, k));
  BatchOptions batch;
  std::vector<std::string> names;
  batch.progress = [&](const CompileProgress& progress) {
    EXPECT_EQ(progress.done, names.size() + 1);
    EXPECT_EQ(progress.total, 10u);
    names.push_back(progress.name);
  };
  batch.occupancy = [](const std::string&, std::size_t position) { return position != 3; };
  const CodeBatch codes = backend.compile_batch_async(programs, batch).get();
  std::ranges::sort(names);
  EXPECT_EQ(names.size(), 10u);
  EXPECT_EQ(std::ranges::unique(names).begin(), names.end());
  const Device device = backend.physical_device(0).new_virtual_device();
  Context context(device);
  for (int k = 0; k < 11; ++k) {
    const auto& code = codes[static_cast<std::size_t>(k)];
    ASSERT_EQ(code.has_value(), k != 3);
    if (!code) continue;
    EXPECT_EQ(code->name(), "p" + std::to_string(k));
    const Routine run = context.link(*code);
    run.schedule();
    context = run.context();
  }
  EXPECT_EQ(context.read<std::int32_t>(x_)[0], 55 - 3);
}

// Issue 4.6: the first error in order, whatever the threads do
TEST_F(AsyncBatchTest, TheFirstErrorInOrderWins) {
  const Backend backend = Backend::open(options());
  std::vector<Program> programs;
  for (int k = 0; k < 20; ++k)
    programs.push_back(adder((k == 9  ? "bad_first"
                              : k > 9 ? "bad_later"
                                      : "good") +
                                 std::string(static_cast<std::size_t>(k), 'x'),
                             x_, k));
  for (int round = 0; round < 5; ++round) {
    const Status status = failure([&] { static_cast<void>(backend.compile_batch(programs)); });
    EXPECT_EQ(status.code(), ErrorCode::compile_failed);
    EXPECT_THAT(status.to_string(), HasSubstr("no such luck with bad_first"));
  }
}

// Issue 4.6: the callback may compile, and wait for it; while it does, other threads compile on
TEST_F(AsyncBatchTest, AProgressCallbackMayCompileAndWaitForTheOthers) {
  const Backend backend = Backend::open(options());
  std::vector<Program> programs;
  for (int k = 0; k < 16; ++k) programs.push_back(adder("p" + std::to_string(k), x_, k));
  BatchOptions batch;
  std::atomic<bool> inside{false};
  std::vector<std::size_t> order;
  batch.progress = [&](const CompileProgress& progress) {
    EXPECT_FALSE(inside.exchange(true)) << "one call at a time";
    order.push_back(progress.done);
    if (progress.done == 1) {
      // All other parts end while this call goes on, where there is a thread for them.
      while (available_processors() > 1 && backend.compile_counters().compiled < 4)
        std::this_thread::yield();
      BatchOptions inner;
      inner.progress = [&](const CompileProgress& nested) { EXPECT_EQ(nested.total, 2u); };
      const std::vector<Program> two{adder("q0", x_, 100), adder("q1", x_, 101)};
      EXPECT_EQ(backend.compile_batch(two, inner).size(), 2u);
      EXPECT_EQ(backend.compile_async(adder("r", x_, 102)).get().name(), "r");
    }
    inside = false;
  };
  static_cast<void>(backend.compile_batch(programs, batch));
  std::vector<std::size_t> expected(16);
  std::iota(expected.begin(), expected.end(), 1u);
  EXPECT_EQ(order, expected);
}

// Issue 4.6: what a progress callback throws reaches the caller
TEST_F(AsyncBatchTest, AThrowingProgressFailsTheBatch) {
  const Backend backend = Backend::open(options());
  const std::vector<Program> programs{adder("a", x_, 1), adder("b", x_, 2)};
  BatchOptions batch;
  int calls = 0;
  batch.progress = [&calls](const CompileProgress&) {
    ++calls;
    throw std::runtime_error("enough");
  };
  EXPECT_THROW(static_cast<void>(backend.compile_batch(programs, batch)), std::runtime_error);
  EXPECT_EQ(calls, 1) << "it is called no more";
  EXPECT_THROW(static_cast<void>(backend.compile_batch_async(programs, batch).get()),
               std::runtime_error);
}

}  // namespace
}  // namespace heddle
