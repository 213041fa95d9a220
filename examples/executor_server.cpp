// A server answers requests with any number of points. An executor compiles for each argument
// shape: points are padded to one of three batch sizes, compiled before the server starts.
#include <heddle/heddle.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

using namespace heddle;

/// The nearest place for each point. Results of different points are independent, so padding does
/// not change them.
Node nearest(const Node& places, const Node& points) {
  const Node apart = expand_dims(points, {1}) - expand_dims(places, {0});
  return argmin(sum(apart * apart, {2}));
}

int main() try {
  auto backend = Backend::open();
  auto device = backend.physical_device(0).new_virtual_device();
  const Array places(device, {3, 2}, std::vector<float>{0.2F, 0.2F, 0.8F, 0.3F, 0.4F, 0.9F});

  const Dims batches{4, 16, 64};
  Executor answer(device, nearest, {.name = "answer", .cache_max = batches.size()});
  std::vector<PendingCompiled<Array>> compiling;  // compiles run concurrently
  for (const std::int64_t batch : batches)
    compiling.push_back(answer.compile_async(places, ArrayType{f32, {batch, 2}}));
  // throws the error of a failed compile
  for (const auto& each : compiling) static_cast<void>(each.get());
  const ExecutorStatistics ready = answer.statistics();

  std::uint64_t seed = 0;
  for (const int count : {3, 1, 20, 16, 64, 5, 0, 40, 2, 11}) {
    const HostArray request = HostArray::uniform({f32, {count, 2}}, seed++);
    const HostArray points = padded(request, 0, batches);
    std::vector<std::int64_t> found = answer(places, points).values<std::int64_t>();
    found.resize(static_cast<std::size_t>(count));  // the rest is padding
    std::printf("%2d points in a batch of %2d: %2td %2td %2td are nearest to each place\n", count,
                static_cast<int>(points.type().dims[0]), std::ranges::count(found, 0),
                std::ranges::count(found, 1), std::ranges::count(found, 2));
  }

  const ExecutorStatistics served = answer.statistics();
  std::printf("%d entries, %d misses while it served\n", static_cast<int>(served.entries),
              static_cast<int>(served.misses - ready.misses));
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
