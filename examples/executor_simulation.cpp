// A string with loose ends swings for 100,000 steps. Each step writes the next state into the
// memory of its argument: memory use does not grow with the number of steps.
#include <heddle/heddle.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <vector>

using namespace heddle;

constexpr std::int64_t points = 256;
constexpr double pace = 0.5;  // of waves: points per step

// The heights of all points, now and one step before: as nodes, and as arrays.
template <class Leaf>
struct State {
  Leaf now, before;
};
template <class Leaf>
HEDDLE_TREE(State<Leaf>, now, before)

/// Each point is pulled towards its neighbours.
State<Node> step(const Graph& graph, const State<Node>& string) {
  const Node point = graph.iota({i64, {points}});
  // beyond an end the end itself is read: a loose end
  const Node left = take(string.now, point - 1);
  const Node right = take(string.now, point + 1);
  const Node pull = pace * pace * (left + right - 2.0 * string.now);
  return {2.0 * string.now - string.before + pull, string.now};
}

int main() try {
  auto backend = Backend::open();
  auto device = backend.physical_device(0).new_virtual_device();

  // Two and a half waves. Their exact frequency in such steps is known.
  const double wave = 5 * std::numbers::pi / points;             // the phase from point to point
  const double turn = 2 * std::asin(pace * std::sin(wave / 2));  // the phase from step to step
  const auto height = [&](std::size_t point, int steps) {
    return std::cos(wave * (static_cast<double>(point) + 0.5)) * std::cos(turn * steps);
  };
  std::vector<double> now(points), before(points);
  for (std::size_t k = 0; k < points; ++k) now[k] = height(k, 0), before[k] = height(k, -1);

  Executor next(device, step, {.name = "step"});
  State<Array> string{Array(device, now), Array(device, before)};
  double worst = 0;
  for (int steps = 0, told = 10; steps <= 100'000; ++steps) {
    if (steps == told) {
      told *= 10;
      // waits; without reads this thread runs ahead of the device
      now = string.now.values<double>();
      std::printf("after %6d steps: %6.3f %6.3f %6.3f ..., at most %d bytes used\n", steps, now[0],
                  now[1], now[2], static_cast<int>(device.statistics().bytes_peak));
      for (std::size_t k = 0; k < points; ++k)
        worst = std::max(worst, std::abs(now[k] - height(k, steps)));
    }
    string = next(donate(string));
  }
  std::printf("as the formula says: %s\n", worst < 1e-9 ? "yes" : "no");
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
