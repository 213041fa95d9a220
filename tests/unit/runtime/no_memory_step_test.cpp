// A training step, of which any allocation fails: of the threads of its devices too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/support/seeds.hpp"
#include "tests/unit/scheduler/allocations.hpp"

namespace heddle {
namespace {

/// What a data-parallel step of two devices makes, with merges by a third, a sum over all, and a
/// routine that takes what it reads. Devices one and two are the same in each.
class TrainingStep {
 public:
  explicit TrainingStep(const std::string& name) : backend_(Backend::open(name)) {
    expected_ = run();  // what is kept from the first time on
    keeps_ = true;
    run();  // so that no code need be compiled or loaded again
    keeps_ = false;
    in_use_ = in_use();
  }

  /// The same without failures: the same bits, and no memory is kept.
  void expect_whole() {
    for (const Device& each : {one_, two_}) {
      EXPECT_TRUE(each.timeline().recover().ok());
      EXPECT_TRUE(each.timeline().await().ok());
    }
    EXPECT_EQ(in_use(), in_use_);
    std::vector<std::vector<float>> values;
    EXPECT_NO_THROW(values = run());
    EXPECT_EQ(values, expected_);
    for (const Device& each : {one_, two_}) EXPECT_TRUE(each.timeline().await().ok());
    EXPECT_EQ(in_use(), in_use_);
  }

  /// Throws what the step does.
  std::vector<std::vector<float>> run() {
    const Device third = backend_.physical_device(0).new_virtual_device();
    const std::vector<Context> contexts{Context(one_), Context(two_)};
    const DataParallel training(contexts, {.gradient = gradient_,
                                           .batch = batch_,
                                           .sums = {slope_, loss_},
                                           .update = update_,
                                           .parameters = {weights_},
                                           .merge_every = 2});
    training.context().write(weights_, std::vector<float>{1, 2, 3, 4});
    training.run(0, 5);
    const Routine adder = Context(third).link(add_);
    throw_if_failed(load_merge(adder, training.context(1), MergeMode::stream).event.wait());
    adder.schedule();
    training.context(1).write(weights_, training.context(0).read<float>(weights_));  // ends a loan
    adder.schedule();
    throw_if_failed(merge(adder, training.context(0), MergeMode::copy).wait());
    throw_if_failed(merge(adder, training.context(1), MergeMode::stream).wait());
    Recording recording("all");
    recording.all_reduce(weights_, std::vector{training.context(0), training.context(1)});
    recording.copy(weights_, training.context(1), adder.context());
    const Replay replay = recording.finish();
    const auto sums = adder.context().read<float>(weights_);
    for (int k = 0; k < 2; ++k) {
      for (const Event& each : replay.run()) throw_if_failed(each.wait());
    }
    const Routine taker = training.context(1).link(take_, {.donate = {weights_}});
    taker.schedule();
    if (keeps_) kept_.push_back(std::make_shared<Kept>(Kept{training, replay, taker}));
    return {sums, adder.context().read<float>(weights_), taker.context().read<float>(taken_),
            training.context().read<float>(loss_)};
  }

  [[nodiscard]] const std::vector<std::vector<float>>& expected() const { return expected_; }

 private:
  struct Kept {
    DataParallel training;
    Replay replay;
    Routine taker;
  };
  [[nodiscard]] Code compiled(const char* name, const std::vector<Statement>& statements) {
    Program program(name);
    for (const Statement& each : statements) program << each;
    return backend_.compile(program);
  }
  [[nodiscard]] std::vector<std::uint64_t> in_use() const {
    return {one_.statistics().bytes_in_use, two_.statistics().bytes_in_use};
  }

  Backend backend_;
  const Device one_ = backend_.physical_device(0).new_virtual_device();
  const Device two_ = backend_.physical_device(0).new_virtual_device();
  const HostArray host_ = HostArray::fill({f32, {5, 4}}, std::vector<double>{3, 1, 4, 1, 5, 9});
  const Tensor data_{"images of the whole run", host_, MemoryMode::hosted_constant};
  const Tensor weights_{"weights that are trained", f32, {4}}, slope_{"their slope", f32, {4}};
  const Tensor loss_{"loss", f32, {}}, taken_{"what takes their place", f32, {4}};
  const StaticIndex batch_{"batch", 5};
  const Index i_{"i"};
  const Code gradient_ = compiled(
      "gradient", {slope_(i_) = data_(batch_, i_) - weights_(i_), loss_() = data_(batch_, 0)});
  const Code update_ = compiled("update", {weights_(i_) += slope_(i_)});
  const Code add_ = compiled("add", {weights_(i_) += merge(weights_)(i_)});
  const Code take_ = compiled("take", {taken_(i_) = weights_(i_) + 1});
  std::vector<std::vector<float>> expected_;
  std::vector<std::uint64_t> in_use_;
  std::vector<std::shared_ptr<Kept>> kept_;
  bool keeps_ = false;
};

/// Of allocation `first` and each `stride`-th one after it: all from there on fail, or that alone.
/// How many times one did.
int fail_each(TrainingStep& step, std::uint64_t first, std::uint64_t stride, bool once) {
  int failed = 0;
  for (std::uint64_t granted = first; granted < 10'000; granted += stride) {
    SCOPED_TRACE((once ? "without allocation " : "without memory from allocation ") +
                 std::to_string(granted));
    bool any = false;
    std::optional<std::vector<std::vector<float>>> values;
    {
      const NoMemoryAnywhere none(granted, once);
      try {
        values = step.run();
      } catch (const Error&) {
      } catch (const std::bad_alloc&) {
      }
      any = none.asked() > granted;
    }
    if (values) {
      EXPECT_EQ(*values, step.expected());  // it did without
    }
    step.expect_whole();
    if (!any || testing::Test::HasFailure()) break;
    ++failed;
  }
  return failed;
}

class NoMemoryStepTest : public testing::TestWithParam<bool> {
 protected:
  // Failures that nobody sees are told, of which there are many here.
  NoMemoryStepTest() { set_log_level(LogLevel::off); }
  ~NoMemoryStepTest() override { set_log_level(LogLevel::warn); }
};
INSTANTIATE_TEST_SUITE_P(Each, NoMemoryStepTest, testing::Bool(),
                         [](const auto& once) { return once.param ? "One" : "AllFromThere"; });

// D3, S9: whichever allocation of a training step fails, and however many after it, it ends, leaves
// nothing behind, and the next one has the bits of the first
TEST_P(NoMemoryStepTest, EndsWherever) {
  TrainingStep step("sync_cc");
  const int failed = fail_each(step, 0, test::slower, GetParam());
  RecordProperty("failed", failed);
  EXPECT_GT(failed, 500 / static_cast<int>(test::slower));
}

// D3, S9: nor do the threads of devices need memory to end
TEST_P(NoMemoryStepTest, EndsWhereverOnThreads) {
  TrainingStep step("cc");
  const int failed = fail_each(step, 3, 11 * test::slower, GetParam());
  RecordProperty("failed", failed);
  EXPECT_GT(failed, 50 / static_cast<int>(test::slower));
}

}  // namespace
}  // namespace heddle
