// Images and grids of cells.
#include <vector>

#include "tools/bench/cases.hpp"
#include "tools/bench/written.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t image_side = 512, small_side = 384;

/// Weights of five neighbours along an axis, zeros outside.
Node blurred(const Node& x, std::int64_t axis) {
  const double weights[] = {1, 4, 6, 4, 1};
  const Node p =
      pad(x, 0.0, axis == 0 ? std::vector<Padding>{{2, 2}} : std::vector<Padding>{{0, 0}, {2, 2}});
  const std::int64_t extent = x.dims()[static_cast<std::size_t>(axis)];
  Node total = weights[0] / 16 * slice(p, axis, {0, extent});
  for (std::int64_t k = 1; k < 5; ++k) total += weights[k] / 16 * slice(p, axis, {k, k + extent});
  return total;
}

Node edges_of(const Node& x) {
  const Node p = pad(x, 0.0, {{1, 1}, {1, 1}});
  const auto at = [&](std::int64_t i, std::int64_t j) {
    return slice(p, {{i, i + x.dims()[0]}, {j, j + x.dims()[1]}});
  };
  const Node gx = at(0, 2) + 2.0 * at(1, 2) + at(2, 2) - at(0, 0) - 2.0 * at(1, 0) - at(2, 0);
  const Node gy = at(2, 0) + 2.0 * at(2, 1) + at(2, 2) - at(0, 0) - 2.0 * at(0, 1) - at(0, 2);
  return sqrt(gx * gx + gy * gy);
}

Node resized(const Graph& graph, const Node& x) {
  const double scale = double{image_side - 1} / (small_side - 1);
  const Node along = graph.iota({f32, {small_side}}) * scale;
  const Node low = floor(along), share = along - low, place = cast(low, i64);
  const Node above = take(x, place), below = take(x, place + 1);
  const Node rows = above + (below - above) * expand_dims(share, {1});
  const Node left = take(rows, place, 1), right = take(rows, place + 1, 1);
  return left + (right - left) * share;
}

Node steps_to_escape(const Graph& graph, const Node& real, const Node& imaginary) {
  const Node x = expand_dims(real, {0}), y = expand_dims(imaginary, {1});
  Node a = broadcast_to(graph.constant(0.0F), {imaginary.dims()[0], real.dims()[0]});
  Node b = a, steps = a;
  for (int k = 0; k < 50; ++k) {
    steps += cast(a * a + b * b <= 4.0, f32);
    const Node next = a * a - b * b + x;
    b = 2.0 * a * b + y;
    a = next;
  }
  return steps;
}

Node next_generation(const Node& cells) {
  const Node p = pad(cells, 0, {{1, 1}, {1, 1}});
  Node alive = -cells;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 3; ++j)
      alive += slice(p, {{i, i + cells.dims()[0]}, {j, j + cells.dims()[1]}});
  }
  return cast(alive == 3 || (alive == 2 && cells == 1), i32);
}

WrittenInput evenly(double from, double to) {
  return {{f32, {256}}, [=](double, std::int64_t k) {
            return from + (to - from) * static_cast<double>(k) / 255;
          }};
}

}  // namespace

void add_written_images(std::vector<Row>& rows) {
  const WrittenInput image = numbers({image_side, image_side});
  std::vector<WrittenModel> models;
  models.push_back({"blur, 5x5 by axes",
                    "512x512",
                    {image},
                    by_executor([](const Node& x) { return blurred(blurred(x, 0), 1); }),
                    plain::blur});
  models.push_back({"Sobel edges", "512x512", {image}, by_executor(edges_of), plain::sobel, 1e-3});
  models.push_back({"bilinear resize",
                    "512x512 to 384x384",
                    {image},
                    by_executor(resized),
                    plain::resize,
                    1e-3});
  models.push_back({"Mandelbrot, 50 steps",
                    "256x256",
                    {evenly(-2, 1), evenly(-1.5, 1.5)},
                    by_executor(steps_to_escape),
                    plain::mandelbrot,
                    1e-4,
                    0.01});
  models.push_back({"game of life",
                    "512x512",
                    {places({512, 512}, 2, i32)},
                    by_executor(next_generation),
                    plain::game_of_life});
  add_written_rows(rows, "written-images", std::move(models));
}

}  // namespace heddle::bench
