// K-means: each iteration assigns points to the nearest centre and moves each centre to the mean of
// its points. An iteration is a traced function; the host decides on the number of iterations.
#include <heddle/heddle.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

using namespace heddle;

constexpr std::int64_t num_points = 600, num_centres = 3;

/// From points [600, 2] and centres [3, 2]: the next centres, the centre of each point, and the
/// mean of the squared distances.
std::tuple<Node, Node, Node> turn(const Graph& graph, const Node& points, const Node& centres) {
  const Node apart = expand_dims(points, {1}) - expand_dims(centres, {0});  // [600, 3, 2]
  const Node distances = sum(apart * apart, {2});
  const Node nearest = argmin(distances, 1);
  // Sums and counts of the points of each centre.
  const Node zero = graph.constant(0.0F), one = graph.constant(1.0F);
  const Node sums = scatter(broadcast_to(zero, {num_centres, 2}), {nearest}, points, Scatter::add);
  const Node counts = scatter(broadcast_to(zero, {num_centres}), {nearest},
                              broadcast_to(one, {num_points}), Scatter::add);
  const Node moved = sums / expand_dims(max(counts, 1.0), {1});
  const Node next = where(expand_dims(counts, {1}) > 0.0, moved, centres);
  return {next, nearest, mean(minimum(distances, {1}))};
}

/// One iteration by plain loops; the graph must give the same values.
std::vector<float> plain_turn(std::span<const float> points, const std::vector<float>& centres) {
  std::vector<float> sums(centres.size());
  std::array<float, num_centres> counts{};
  for (std::size_t i = 0; i < points.size(); i += 2) {
    std::size_t best = 0;
    float least = std::numeric_limits<float>::infinity();
    for (std::size_t k = 0; k < num_centres; ++k) {
      const float x = points[i] - centres[2 * k], y = points[i + 1] - centres[2 * k + 1];
      if (x * x + y * y < least) least = x * x + y * y, best = k;
    }
    sums[2 * best] += points[i];
    sums[2 * best + 1] += points[i + 1];
    counts[best] += 1;
  }
  std::vector<float> next(centres);
  for (std::size_t k = 0; k < num_centres; ++k) {
    if (counts[k] == 0) continue;
    next[2 * k] = sums[2 * k] / counts[k];
    next[2 * k + 1] = sums[2 * k + 1] / counts[k];
  }
  return next;
}

int main() try {
  // Three clouds in a plane.
  const std::array<std::array<float, 2>, num_centres> clouds{{{1, 1}, {5, 2}, {2, 6}}};
  HostArray points = HostArray::uniform({f32, {num_points, 2}}, 7);
  const std::span<float> xy = points.values<float>();
  for (std::size_t i = 0; i < xy.size(); ++i) xy[i] = 5 * xy[i] - 2.5F + clouds[i / 2 % 3][i % 2];
  std::vector<float> centres(xy.begin(), xy.begin() + 2 * num_centres);

  const auto traced =
      trace("turn", turn, ArrayType{f32, {num_points, 2}}, ArrayType{f32, {num_centres, 2}});
  const GraphProgram program = traced.program();
  program.parameters[0].set_host(points, MemoryMode::hosted_constant);

  auto backend = Backend::open();
  auto device = backend.physical_device(0).new_virtual_device();
  Routine run = Context(device).link(backend.compile(program.program));
  double worst = 0;
  std::vector<std::int64_t> nearest, before;
  for (int turns = 1; turns == 1 || nearest != before; ++turns) {
    run.context().write(program.parameters[1], std::span<const float>(centres));
    run.schedule();
    const std::vector<float> wanted = plain_turn(xy, centres);
    centres = run.context().read<float>(program.results[0]);
    for (std::size_t k = 0; k < centres.size(); ++k)
      worst = std::max<double>(worst, std::abs(centres[k] - wanted[k]));
    before = std::exchange(nearest, run.context().read<std::int64_t>(program.results[1]));
    const double distance = run.context().read<float>(program.results[2])[0];
    std::printf("turn %d: mean squared distance %.2f\n", turns, distance);
  }
  std::array<int, num_centres> sizes{};
  for (const std::int64_t k : nearest) ++sizes[static_cast<std::size_t>(k)];
  for (std::size_t k = 0; k < num_centres; ++k)
    std::printf("%d points around (%.2f, %.2f)\n", sizes[k], centres[2 * k], centres[2 * k + 1]);
  std::printf("as plain loops compute it: %s\n", worst < 1e-4 ? "yes" : "no");
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
