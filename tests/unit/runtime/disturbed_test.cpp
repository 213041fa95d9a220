// Cancels and recoveries beside the calls that schedule: what reads never takes a write for granted
// that was left out.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "heddle/heddle.hpp"
#include "heddle/status.hpp"
#include "scheduler/atomic.hpp"
#include "tests/support/seeds.hpp"

namespace heddle {
namespace {

/// "x = number, then kept = x" for each of many tensors on one device, which another thread
/// disturbs meanwhile.
class DisturbedTest : public testing::TestWithParam<std::string_view> {
 protected:
  static constexpr std::size_t pairs = 16;

  DisturbedTest() {
    set_log_hook([](LogLevel, std::string_view) {});  // failures are what this is about
    const Index i;
    Program program("set");
    program << (x(i) = embed(number));
    Context context(device);
    set_ = context.link(backend.compile(program));
    for (std::size_t k = 0; k < pairs; ++k) {
      kept_.emplace_back("kept" + std::to_string(k), i64, std::vector<std::int64_t>{2});
      Program keep("keep" + std::to_string(k));
      keep << (kept_[k](i) = x(i));
      keep_.push_back(set_->context().link(backend.compile(keep)));
    }
    if (GetParam() == "two") std::thread([&] { set_->schedule({0}); }).join();
  }
  ~DisturbedTest() override { set_log_hook({}); }

  /// `disturb` once in each round, sooner or later.
  template <class F>
  void run(const F& disturb) {
    const auto rounds = static_cast<std::int64_t>(
        test::from_environment("HEDDLE_TEST_ROUNDS", 2000 / test::slower));
    std::atomic<std::int64_t> now = 0;
    std::thread other([&] {
      std::minstd_rand random(test::from_environment("HEDDLE_TEST_SEED", 1));
      for (std::int64_t round = 1; round <= rounds; ++round) {
        // relaxed, here and below: carries nothing.
        while (now.load(std::memory_order_relaxed) < round) std::this_thread::yield();
        for (auto turns = random() % 4000; turns > 0; --turns) sched::cpu_relax();
        disturb();
      }
    });
    for (std::int64_t round = 1; round <= rounds; ++round) {
      device.recover();
      now.store(round, std::memory_order_relaxed);  // relaxed: as above
      one_round(round);
    }
    other.join();
    // What nobody disturbs runs whole, whatever went before. On a loaded machine every round before
    // may have been cancelled in time.
    device.recover();
    EXPECT_EQ(one_round(rounds + 1), pairs);
  }
  /// How many pairs ran.
  std::size_t one_round(std::int64_t round) {
    const auto number_of = [&](std::size_t k) {
      return round * static_cast<std::int64_t>(pairs) + static_cast<std::int64_t>(k);
    };
    std::vector<std::optional<Event>> ends(pairs);
    for (std::size_t k = 0; k < pairs; ++k) {
      try {
        set_->schedule({number_of(k)});
        ends[k] = keep_[k].schedule();
      } catch (const Error&) {  // the device is poisoned, or what is read is missing
      }
    }
    std::size_t ran = 0;
    for (std::size_t k = 0; k < pairs; ++k) {
      if (!ends[k] || !ends[k]->wait().ok()) continue;
      ++ran;
      EXPECT_EQ(read(k), std::vector(2, number_of(k)));
    }
    return ran;
  }
  /// However often that is disturbed.
  [[nodiscard]] std::vector<std::int64_t> read(std::size_t k) const {
    while (true) {
      try {
        return keep_[k].context().read<std::int64_t>(kept_[k]);
      } catch (const Error&) {
        device.recover();
      }
    }
  }

  const Backend backend = Backend::open("cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor x{"x", i64, {2}};
  const StaticIndex number{"number", 1 << 20};
  std::optional<Routine> set_;
  std::vector<Tensor> kept_;
  std::vector<Routine> keep_;
};
// Calls of one thread take another way than those of several.
INSTANTIATE_TEST_SUITE_P(Threads, DisturbedTest, testing::Values("one", "two"),
                         [](const auto& threads) { return std::string(threads.param); });

// D9, D10, S12
TEST_P(DisturbedTest, CancelsLeaveNothingStale) {
  run([this] { device.cancel_pending(); });
}

// D9, D10, S11
TEST_P(DisturbedTest, RecoveriesLeaveNothingStale) {
  run([this] {
    device.submit("fails", [] { throw std::runtime_error("broken"); }).wait();
    device.recover();
  });
}

}  // namespace
}  // namespace heddle
