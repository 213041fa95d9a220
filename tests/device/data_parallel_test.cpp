// Data-parallel runs on each backend.
#include <functional>
#include <numeric>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr std::int64_t num_batches = 17, num_devices = 3, every = 2, width = 5;

class BatchSharingTest : public Conformance {
 protected:
  BatchSharingTest() {
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] = static_cast<float>((k % 4 == 0 ? 100003 : 1) * (k + 1)) / 3;
  }
  [[nodiscard]] DataParallel make() const {
    std::vector<Context> contexts;
    for (int k = 0; k < num_devices; ++k)
      contexts.emplace_back(backend.physical_device(0).new_virtual_device());
    const HostArray host = HostArray::of<float>({num_batches, width}, values);
    const Tensor data("data", host, MemoryMode::hosted_constant);
    Program gradient("gradient"), update("update");
    const Index i, j;
    gradient << (g(i) = data(batch, i) - p(i)) << (n() = data(batch, 0));
    update << (p(j) = p(j) - g(j));
    return DataParallel(contexts, {.gradient = backend.compile(gradient),
                                   .batch = batch,
                                   .sums = {g, n},
                                   .update = backend.compile(update),
                                   .parameters = {p},
                                   .merge_every = every});
  }
  /// Expected sums: each device adds its own batches, and the first device adds the devices' sums.
  [[nodiscard]] std::vector<float> expected(std::vector<float> at) const {
    for (std::int64_t first = 0; first < num_batches; first += num_devices * every) {
      const std::vector<float> before = at;
      for (std::size_t element = 0; element < at.size(); ++element) {
        float sum = 0;
        for (std::int64_t k = first; k < first + num_devices && k < num_batches; ++k) {
          float own = 0;
          for (std::int64_t b = k; b < first + num_devices * every && b < num_batches;
               b += num_devices)
            own += values[static_cast<std::size_t>(b * width) + element] - before[element];
          sum += own;
        }
        at[element] = before[element] - sum;
      }
    }
    return at;
  }

  const Tensor p{"p", f32, {width}}, g{"g", f32, {width}}, n{"n", f32, {}};
  const StaticIndex batch{"batch", num_batches};
  std::vector<float> values = std::vector<float>(num_batches * width);
};
HEDDLE_CONFORMANCE_SUITE(BatchSharingTest);

// O52, D10: results have the bits of plain loops, in repeated runs, on all devices
TEST_P(BatchSharingTest, HasTheBitsOfLoops) {
  const DataParallel run = make();
  std::vector<float> at{1, 2, 3, 4, 5};
  run.context().write(p, at);
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(run.run(0, num_batches), 3);
    at = expected(at);
    for (std::size_t k = 0; k < num_devices; ++k) EXPECT_EQ(run.context(k).read<float>(p), at);
  }
}

// O52, S10, S11: a device failure ends a run, and the next run gives the results of the first
TEST_P(BatchSharingTest, EndsWithAFailure) {
  const DataParallel run = make();
  const Device bad = run.context(1).device();
  const auto fail = [&](const DataParallelProgress&) {
    bad.submit("bad", [] { return Status(ErrorCode::internal, "spoilt"); });
    return true;
  };
  const Status status = failure([&] { run.run(0, num_batches, {.on_update = fail}); });
  EXPECT_THAT(text(status), HasSubstr("as " + bad.name() + " failed"));
  EXPECT_THAT(text(status), HasSubstr("spoilt"));
  const std::vector<float> at{5, 4, 3, 2, 1};
  for (std::size_t k = 0; k < num_devices; ++k) run.context(k).device().recover();
  run.context().write(p, at);
  run.run(0, num_batches);
  EXPECT_EQ(run.context(2).read<float>(p), expected(at));
}

}  // namespace
}  // namespace heddle
