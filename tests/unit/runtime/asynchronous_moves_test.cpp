// Moves between devices whose queues run ahead: by another queue than the task's own, or staged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/unit/runtime/asynchronous_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

class AsynchronousMovesTest : public AsynchronousFixture {
 protected:
  /// Three devices that reach no memory but their own, with the tensors.
  [[nodiscard]] std::vector<Context> apart(const std::vector<Tensor>& tensors) const {
    std::vector<Context> contexts;
    for (const Backend& each :
         {open_held(std::make_shared<AsynchronousDevice>()), Backend::open("cc"), backend}) {
      Context context(each.physical_device(0).new_virtual_device());
      for (const Tensor& tensor : tensors) {
        const Buffer memory = Buffer::allocate(context.device(), tensor.type());
        context = context.with(tensor, BufferView(memory, tensor.type()));
      }
      contexts.push_back(context);
    }
    return contexts;
  }
};

// S23, D5: staged moves between two such devices come after what was asked for, and are whole
TEST_F(AsynchronousMovesTest, StagedMovesWaitForBothQueues) {
  const auto other_physical = std::make_shared<AsynchronousDevice>();
  const Backend other_backend = open_held(other_physical);
  const Device other = other_backend.physical_device(0).new_virtual_device();
  for (const std::int64_t count : {4, 3'000'000}) {  // a piece, and three
    const ArrayType array{f32, {count}};
    const BufferView here(Buffer::allocate(device, array), array);
    const BufferView there(Buffer::allocate(other, array), array);
    std::vector<float> values(static_cast<std::size_t>(count)), back(values.size());
    std::iota(values.begin(), values.end(), 0.0F);
    here.from_host(device, std::as_bytes(std::span(values)));
    device.await();
    other.await();
    physical->hold();
    const Event moved = there.copy_from(device, here);
    wait_until_asked(1);
    static_cast<void>(moved.wait_for(20ms));  // nothing was read that could be written
    other_physical->hold();
    physical->resume();
    wait_until_asked(*other_physical, 1);
    static_cast<void>(moved.wait_for(100ms));
    EXPECT_FALSE(moved.done());
    other_physical->resume();
    EXPECT_TRUE(moved.wait().ok());
    EXPECT_TRUE(there.to_host(other, std::as_writable_bytes(std::span(back))).wait().ok());
    EXPECT_EQ(back, values);
  }
}

// S23, D5: and after what the task's own queue was asked for, though it takes no part
TEST_F(AsynchronousMovesTest, StagedMovesOfOthersComeAfterTheirOwn) {
  AsynchronousOptions options;
  options.is_peer = true;
  const auto own_physical = std::make_shared<AsynchronousDevice>(options);
  const auto far_physical = std::make_shared<AsynchronousDevice>();
  const Backend own_backend = open_held(own_physical), far_backend = open_held(far_physical);
  const Device own = own_backend.physical_device(0).new_virtual_device();
  const Device far = far_backend.physical_device(0).new_virtual_device();
  const BufferView first(Buffer::allocate(own, type), type);
  const BufferView second = new_view();
  const BufferView third(Buffer::allocate(far, type), type);
  const std::vector<float> values{9, 8, 7, 6};
  first.from_host(own, std::as_bytes(std::span(values)));
  for (const Device& each : {own, device, far}) each.await();
  own_physical->hold();
  second.copy_from(own, first);                      // by its own queue
  const Event moved = third.copy_from(own, second);  // by those of the others
  wait_until_asked(*own_physical, 1);
  static_cast<void>(moved.wait_for(20ms));
  EXPECT_FALSE(moved.done());
  own_physical->resume();
  EXPECT_TRUE(moved.wait().ok());
  std::vector<float> back(4);
  EXPECT_TRUE(third.to_host(far, std::as_writable_bytes(std::span(back))).wait().ok());
  EXPECT_EQ(back, values);
}

// S23, D5: neither queue knows of the other: one comes after what was asked of the task's own
TEST_F(AsynchronousMovesTest, MovesByAnotherQueueComeAfterTheirOwn) {
  AsynchronousOptions options;
  options.in_host_memory = true;
  const auto near_physical = std::make_shared<AsynchronousDevice>(options);
  const Backend near_backend = open_held(near_physical);
  const Device near = near_backend.physical_device(0).new_virtual_device();
  const BufferView here(Buffer::allocate(near, type), type);
  const BufferView there = new_view();
  near.await();
  device.await();
  near_physical->hold();
  const std::vector<float> values{4, 3, 2, 1};
  here.from_host(near, std::as_bytes(std::span(values)));
  const Event moved = there.copy_from(near, here);
  wait_until_asked(*near_physical, 1);
  EXPECT_FALSE(moved.wait_for(20ms).ok());
  physical->hold();
  near_physical->resume();
  wait_until_asked(1);
  EXPECT_FALSE(moved.wait_for(20ms).ok());
  physical->resume();
  EXPECT_TRUE(moved.wait().ok());
  EXPECT_THAT(read(there), ElementsAre(4, 3, 2, 1));
}

// D10: where devices reach no memory but their own, the root fetches what it adds up, in order
TEST_F(AsynchronousMovesTest, CollectivesOfSeparateMemory) {
  const Tensor t("t", f32, {5}), whole("whole", f32, {15});
  const std::vector<Context> contexts = apart({t, whole});
  std::vector<std::vector<float>> given;
  std::vector<float> sum(5);
  for (const Context& context : contexts) {
    const auto k = static_cast<float>(given.size() + 1);
    given.push_back({k == 2 ? 3 : 1e8f * (k - 2), k, 3, k / 3, 1e-8f});
    context.write(t, given.back());
    for (std::size_t n = 0; n < 5; ++n) sum[n] = k == 1 ? given[0][n] : sum[n] + given.back()[n];
  }
  Recording first;
  first.all_gather(t, whole, contexts);
  first.reduce(t, contexts, 1);
  first.finish().run();
  EXPECT_EQ(contexts[0].read<float>(t), given[0]);
  EXPECT_EQ(contexts[1].read<float>(t), sum);
  EXPECT_EQ(contexts[2].read<float>(t), given[2]);
  contexts[1].write(t, given[1]);
  Recording second;
  second.all_reduce(t, contexts);
  second.reduce_scatter(whole, t, contexts);
  second.broadcast(whole, contexts, 2);
  second.finish().run();
  for (std::size_t k = 0; k < 3; ++k) {
    std::vector<float> thrice = given[k];
    for (float& each : thrice) each = each + each + each;
    EXPECT_EQ(contexts[k].read<float>(t), thrice);
    EXPECT_EQ(contexts[k].read<float>(whole), contexts[0].read<float>(whole));
  }
}

// D10, D20: there, too, each adds up its share of what is large, in order, and all get it
TEST_F(AsynchronousMovesTest, LargeSumsOfSeparateMemory) {
  const Tensor t("t", f32, {5000}), u("u", f32, {3}), none("none", f32, {0});
  const std::vector<Context> contexts = apart({t, u, none});
  std::vector<float> sums(5000);
  for (std::size_t k = 0; k < 3; ++k) {
    std::vector<float> given;
    for (std::size_t n = 0; n < sums.size(); ++n)
      given.push_back(static_cast<float>(k == 1 ? n % 5 : 1000003 * (n % 7 + k)) / 3);
    contexts[k].write(t, given);
    contexts[k].write(u, std::vector<float>(given.begin(), given.begin() + 3));
    for (std::size_t n = 0; n < sums.size(); ++n) sums[n] = k == 0 ? given[n] : sums[n] + given[n];
  }
  Recording recording;
  recording.all_reduce(std::vector{t, none, u}, contexts);
  const Replay replay = recording.finish();
  // Two parts of t are added up, then one of t and u: four moves to whoever adds, two from there.
  EXPECT_EQ(replay.num_recorded(), 4u * (4 + 2));
  replay.run();
  for (const Context& each : contexts) {
    EXPECT_EQ(each.read<float>(t), sums);
    EXPECT_EQ(each.read<float>(u), std::vector<float>(sums.begin(), sums.begin() + 3));
  }
}

// D18: the first device updates alone where others do not reach its memory
TEST_F(AsynchronousMovesTest, DataParallelOfSeparateMemory) {
  const auto far_physical = std::make_shared<AsynchronousDevice>();
  const Backend far_backend = open_held(far_physical);
  const StaticIndex batch("batch", 5);
  const Tensor p("p", f32, {4}), g("g", f32, {4});
  const Tensor data("data", HostArray::range({f32, {5, 4}}), MemoryMode::hosted_constant);
  const Index i, j;
  Program gradient("gradient"), update("update");
  gradient << (g(i) = p(i) + data(batch, i));
  update << (p(j) = p(j) + g(j));
  const DataParallel run(
      std::vector{Context(device), Context(far_backend.physical_device(0).new_virtual_device())},
      {.gradient = backend.compile(gradient),
       .batch = batch,
       .sums = {g},
       .update = backend.compile(update),
       .parameters = {p}});
  std::vector<float> at{1, 2, 3, 4};
  run.context().write(p, at);
  EXPECT_EQ(run.run(0, 5), 3);
  for (std::size_t n = 0; n < 4; ++n) {
    const auto k = static_cast<float>(n);
    at[n] += (at[n] + k) + (at[n] + 4 + k);
    at[n] += (at[n] + 8 + k) + (at[n] + 12 + k);
    at[n] += at[n] + 16 + k;
  }
  for (std::size_t k = 0; k < 2; ++k) EXPECT_EQ(run.context(k).read<float>(p), at) << k;
}

}  // namespace
}  // namespace heddle
