// Which devices of a data-parallel run update: results are those of a first device that updates
// alone, whatever the update uses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heddle/heddle.hpp"

namespace heddle {
namespace {

class UpdatingTest : public testing::Test {
 protected:
  using Values = std::vector<std::int64_t>;
  static constexpr std::int64_t num_batches = 25, width = 3;
  static constexpr std::size_t num_devices = 3;

  UpdatingTest() {
    gradient << (g(i) = data(batch, i) - p(i) * w(i));
    for (std::size_t k = 0; k < num_devices; ++k)
      devices.push_back(backend.physical_device(0).new_virtual_device());
  }
  [[nodiscard]] DataParallelOptions options() const {
    return {.gradient = backend.compile(gradient),
            .batch = batch,
            .sums = {g},
            .update = backend.compile(update),
            .parameters = {p}};
  }
  [[nodiscard]] static std::vector<Context> contexts_of(const std::vector<Device>& on) {
    return {on.begin(), on.end()};
  }
  /// On the first device; `w` on all.
  void begin(std::vector<Context> contexts, const std::vector<Tensor>& tensors) const {
    for (const Tensor& each : tensors) contexts[0].write(each, Values{5, 6, 7});
    for (const Context& each : contexts) each.write(w, Values{1, 2, 1});
  }
  /// Routine by routine, as DataParallel says: the parameters of each device, after all batches.
  [[nodiscard]] std::vector<Values> by_hand(std::vector<Context> contexts,
                                            const std::vector<Tensor>& tensors) const {
    std::vector<Routine> gradients;
    for (Context& each : contexts) {
      gradients.push_back(each.link(backend.compile(gradient)));
      each = gradients.back().context();
    }
    const Routine last = contexts[0].link(backend.compile(update));
    contexts[0] = last.context();
    begin(contexts, tensors);
    for (std::int64_t first = 0; first < num_batches; first += num_devices) {
      Values sum(width);
      for (std::size_t k = 1; k < num_devices; ++k)
        contexts[k].write(p, contexts[0].read<std::int64_t>(p));
      for (std::size_t k = 0; k < num_devices; ++k) {
        const auto number = first + static_cast<std::int64_t>(k);
        if (number >= num_batches) break;
        gradients[k].schedule({{batch, number}});
        const auto own = contexts[k].read<std::int64_t>(g);
        for (std::size_t n = 0; n < own.size(); ++n) sum[n] += own[n];
      }
      contexts[0].write(g, sum);
      last.schedule();
    }
    return std::vector<Values>(num_devices, contexts[0].read<std::int64_t>(p));
  }
  [[nodiscard]] std::vector<Values> by_driver(const std::vector<Context>& contexts,
                                              const std::vector<Tensor>& tensors) const {
    const DataParallel run(contexts, options());
    std::vector<Context> linked;
    for (std::size_t k = 0; k < num_devices; ++k) linked.push_back(run.context(k));
    begin(linked, tensors);
    run.run(0, num_batches);
    return parameters(run);
  }
  [[nodiscard]] std::vector<Values> parameters(const DataParallel& run) const {
    std::vector<Values> all;
    for (std::size_t k = 0; k < num_devices; ++k)
      all.push_back(run.context(k).read<std::int64_t>(p));
    return all;
  }
  /// `tensors`: what the first device has at the beginning.
  void expect_as_by_hand(const std::vector<Tensor>& tensors) const {
    EXPECT_EQ(by_driver(contexts_of(devices), tensors), by_hand(contexts_of(devices), tensors));
  }

  const Backend backend = Backend::open("cc");
  const StaticIndex batch{"batch", num_batches};
  const Tensor p{"p", i64, {width}}, g{"g", i64, {width}}, w{"w", i64, {width}},
      v{"v", i64, {width}};
  const Tensor data{"data", HostArray::range({i64, {num_batches, width}}),
                    MemoryMode::hosted_constant};
  const Index i, j;
  Program gradient{"gradient"}, update{"update"};
  std::vector<Device> devices;
};

// D18: what updates read besides is the first device's for all, from the start of a run
TEST_F(UpdatingTest, StateIsTheFirstDevices) {
  const Tensor scale("scale", i64, {width});
  update << (v(j) = v(j) - g(j) * scale(j)) << (p(j) = p(j) + v(j));
  expect_as_by_hand({p, v, scale});
}

// D18: and after each on_update, which may change it
TEST_F(UpdatingTest, OnUpdateMayChangeTheState) {
  update << (v(j) = v(j) + g(j)) << (p(j) = p(j) + v(j));
  std::vector<DataParallel> runs;
  for (const std::int64_t every : {1, 3}) {
    const DataParallel& run = runs.emplace_back(contexts_of(devices), options());
    std::vector<Context> linked;
    for (std::size_t k = 0; k < num_devices; ++k) linked.push_back(run.context(k));
    begin(linked, {p, v});
    const auto change = [&](const DataParallelProgress& now) {
      if (now.updates % 3 == 0) run.context().write(v, Values{1, now.updates, 3});
      return true;
    };
    EXPECT_EQ(run.run(0, num_batches, {.on_update = change, .report_every = every}), 9);
    EXPECT_EQ(run.context(2).read<std::int64_t>(v), (Values{1, 9, 3})) << every;
  }
  EXPECT_EQ(parameters(runs[0]), parameters(runs[1]));
  EXPECT_EQ(parameters(runs[0])[0], parameters(runs[0])[2]);
}

// D18: all devices update, each its own state
TEST_F(UpdatingTest, EachDeviceUpdates) {
  update << (v(j) = v(j) + g(j)) << (p(j) = p(j) + v(j));
  const DataParallel run(contexts_of(devices), options());
  run.context().write(v, Values{1, 2, 3});
  run.run(0, num_batches);
  const auto first = run.context().read<std::int64_t>(v);
  for (std::size_t k = 1; k < num_devices; ++k)
    EXPECT_EQ(run.context(k).read<std::int64_t>(v), first);
}

// D18: devices without a batch update, too
TEST_F(UpdatingTest, DevicesMayHaveNoBatch) {
  update << (v(j) = v(j) + g(j)) << (p(j) = p(j) + v(j));
  const DataParallel run(contexts_of(devices), options());
  run.context().write(p, Values{1, 2, 3});
  run.run(0, 1);
  const auto first = run.context().read<std::int64_t>(p);
  for (std::size_t k = 1; k < num_devices; ++k)
    EXPECT_EQ(run.context(k).read<std::int64_t>(p), first);
}

// D18: the first device's gradient leaves what its update reads: others have something else there
TEST_F(UpdatingTest, ReadsWhatTheGradientLeaves) {
  const Tensor own("own", i64, {width});
  gradient << (own(i) = data(batch, i) * 3);
  update << (p(j) = p(j) + g(j) + own(j));
  expect_as_by_hand({p});
}

TEST_F(UpdatingTest, GradientsMayWriteParameters) {
  gradient << (p(i) = p(i) + 1);
  update << (p(j) = p(j) - g(j));
  expect_as_by_hand({p});
}

// D18: what is no parameter is each device's own
TEST_F(UpdatingTest, WritesWhatGradientsReadButNoParameter) {
  update << (p(j) = p(j) - g(j)) << (w(j) = w(j) + 1);
  expect_as_by_hand({p});
}

// D18: where devices have their parameters in one place, these are updated once
TEST_F(UpdatingTest, ParametersInOnePlace) {
  update << (p(j) = p(j) - g(j));
  const auto shared = [&] {
    std::vector<Context> contexts = contexts_of(devices);
    const BufferView view(Buffer::allocate(devices[0], p.type()), p.type());
    for (Context& each : contexts) each = each.with(p, view);
    return contexts;
  };
  EXPECT_EQ(by_driver(shared(), {p}), by_hand(contexts_of(devices), {p}));
}

// D18: a device that lacks room for what updates keep has the parameters of the first one
TEST_F(UpdatingTest, OthersMayHaveNoRoom) {
  BackendOptions bounded;
  bounded.name = "cc";
  bounded.bytes_max = std::uint64_t{1} << 20;
  const Backend small = Backend::open(bounded);
  const Tensor moments("moments", f32, {1 << 16});
  const Index m;
  update << (p(j) = p(j) - g(j)) << (moments(m) = moments(m) + 1);
  std::vector<Context> contexts;
  std::vector<Buffer> kept;
  for (std::size_t k = 0; k < num_devices; ++k) {
    contexts.emplace_back(small.physical_device(0).new_virtual_device());
    if (k == 1) kept.push_back(Buffer::allocate(contexts[1].device(), {u8, {900'000}}));
  }
  DataParallelOptions all = options();
  all.gradient = small.compile(gradient);
  all.update = small.compile(update);
  const DataParallel run(contexts, all);
  for (std::size_t k = 0; k < num_devices; ++k) run.context(k).write(w, Values{1, 2, 1});
  run.context().write(p, Values{5, 6, 7});
  run.run(0, num_batches);
  EXPECT_EQ(parameters(run), by_hand(contexts_of(devices), {p}));
}

}  // namespace
}  // namespace heddle
