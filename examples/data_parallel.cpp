// Four devices fit a line to points by gradient descent. Each device computes the gradient of a
// batch; the gradients are summed, and each device updates its own line by the sum. The program
// contains no wait: tasks on each device run after the tasks whose output they read.
#include <heddle/heddle.hpp>

#include <cstdio>
#include <vector>

using namespace heddle;

int main() try {
  auto backend = Backend::open();
  std::vector<Context> contexts;
  for (int k = 0; k < 4; ++k)
    contexts.emplace_back(backend.physical_device(0).new_virtual_device());

  HostArray xs = HostArray::uniform({f32, {176}}, 7), ys({f32, {176}});
  for (int k = 0; k < 176; ++k) ys.set(k, 3 * xs.at(k) - 1);
  Tensor x("x", xs, MemoryMode::hosted_constant), y("y", ys, MemoryMode::hosted_constant);
  Tensor slope("slope", f32, {}), offset("offset", f32, {});
  Tensor d_slope("d_slope", f32, {}), d_offset("d_offset", f32, {}), loss("loss", f32, {});

  // 16 points per batch; the third round has a batch for three devices only
  StaticIndex batch("batch", 11);
  Index n(16);
  Tensor error("error", f32, {16});
  Program gradient("gradient"), update("update");
  gradient << (error(n) = slope() * x(16 * batch + n) + offset() - y(16 * batch + n));
  gradient << (d_slope() = sum(error(n) * x(16 * batch + n)));
  gradient << (d_offset() = sum(error(n))) << (loss() = sum(error(n) * error(n)));
  update << (slope() -= 0.02 * d_slope()) << (offset() -= 0.02 * d_offset());

  DataParallel fit(contexts, {.gradient = backend.compile(gradient),
                              .batch = batch,
                              .sums = {d_slope, d_offset, loss},
                              .update = backend.compile(update),
                              .parameters = {slope, offset}});
  bool fits = false;
  const auto look = [&](const DataParallelProgress& now) {
    fits = *now.loss < 1e-6;
    return !fits;  // true: continue
  };
  int epochs = 0;
  for (; !fits && epochs < 1000; ++epochs) fit.run(0, 11, {.on_update = look, .loss = loss});

  std::printf("y = %.2f x %+.2f after %d epochs\n", fit.context().read<float>(slope)[0],
              fit.context().read<float>(offset)[0], epochs);
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
