// Forces, steps of simulations on grids, and a filter.
#include <vector>

#include "tools/bench/cases.hpp"
#include "tools/bench/written.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t cloth_points = 10'000;

Node forces_of_gravity(const Node& p) {
  const Node d = expand_dims(p, {0}) - expand_dims(p, {1});  // [N, N, 3]
  const Node r2 = sum(d * d, 2, {.keep = true}) + 0.01;
  return sum(d / (r2 * sqrt(r2)), 1);
}

Node forces_of_lennard_jones(const Node& p) {
  const Node d = expand_dims(p, {1}) - expand_dims(p, {0});
  const Node r2 = sum(d * d, 2, {.keep = true});
  const Node inverse = where(r2 > 0.0, 1.0 / r2, 0.0);
  const Node sixth = inverse * inverse * inverse;
  return sum(24.0 * (2.0 * sixth * sixth - sixth) * inverse * d, 1);
}

/// The sum of the four neighbours, zeros outside.
Node four_neighbours(const Node& u) {
  const Node p = pad(u, 0.0, {{1, 1}, {1, 1}});
  return slice(p, {{0, -2}, {1, -1}}) + slice(p, {{.start = 2}, {1, -1}}) +
         slice(p, {{1, -1}, {0, -2}}) + slice(p, {{1, -1}, {.start = 2}});
}

Node forces_of_springs(const Graph& graph, const Node& p, const Node& a, const Node& b) {
  const Node d = take(p, b) - take(p, a);
  const Node length = sqrt(sum(d * d, 1, {.keep = true}));
  const Node pull = 10.0 * (length - 0.1) / length * d;
  const Node none = broadcast_to(graph.constant(0.0F), p.dims());
  return scatter(scatter(none, {a}, pull, Scatter::add), {b}, -pull, Scatter::add);
}

std::vector<Node> step_of_kalman(const Node& x, const Node& p, const Node& f, const Node& q,
                                 const Node& h, const Node& r, const Node& z) {
  const Node next = matmul(f, x);
  const Node wide = matmul(matmul(f, p), transpose(f)) + q;
  const Node s = matmul(matmul(h, wide), transpose(h)) + r;
  const Node adjoint = stack({stack({s[1][1], -s[0][1]}), stack({-s[1][0], s[0][0]})});
  const Node inverse = adjoint / (s[0][0] * s[1][1] - s[0][1] * s[1][0]);
  const Node gain = matmul(matmul(wide, transpose(h)), inverse);
  return {next + matmul(gain, z - matmul(h, next)), wide - matmul(matmul(gain, h), wide)};
}

/// `diagonal` and more on the diagonal of n x n numbers, `other` beside it.
WrittenInput near_diagonal(std::int64_t n, double diagonal, double other) {
  return {{f32, {n, n}}, [=](double drawn, std::int64_t k) {
            return k % (n + 1) == 0 ? diagonal + 0.1 * drawn : other;
          }};
}

}  // namespace

void add_written_physics(std::vector<Row>& rows) {
  std::vector<WrittenModel> models;
  models.push_back({"gravity of all pairs",
                    "512 bodies, f32[N,3]",
                    {numbers({512, 3})},
                    by_executor(forces_of_gravity),
                    plain::gravity,
                    1e-3});
  const WrittenInput lattice{{f32, {512, 3}}, [](double drawn, std::int64_t k) {
                               const std::int64_t place[] = {k / 3 / 64, k / 3 / 8 % 8, k / 3 % 8};
                               return 1.1 * static_cast<double>(place[k % 3]) + 0.1 * drawn;
                             }};
  models.push_back({"Lennard-Jones of all pairs",
                    "512 atoms, f32[N,3]",
                    {lattice},
                    by_executor(forces_of_lennard_jones),
                    plain::lennard_jones,
                    1e-2});
  models.push_back({"neighbours by take",
                    "1M",
                    {numbers({1'000'000})},
                    by_executor([](const Graph& graph, const Node& x) {
                      const Node i = graph.iota({i64, x.dims()});
                      return 0.25 * take(x, i - 1) + 0.5 * x + 0.25 * take(x, i + 1);
                    }),
                    plain::neighbours_clamped});
  models.push_back({"neighbours by pad and slices",
                    "1M",
                    {numbers({1'000'000})},
                    by_executor([](const Node& x) {
                      const Node p = pad(x, 0.0, {{1, 1}});
                      return 0.25 * slice(p, 0, {0, -2}) + 0.5 * x + 0.25 * slice(p, 0, {2});
                    }),
                    plain::neighbours_padded});
  models.push_back({"step of heat",
                    "1024x1024",
                    {numbers({1024, 1024})},
                    by_executor([](const Node& u) { return 0.25 * four_neighbours(u); }),
                    plain::heat_step});
  models.push_back({"step of a wave",
                    "512x512",
                    {numbers({512, 512}), numbers({512, 512})},
                    by_executor([](const Node& u, const Node& before) {
                      return 2.0 * u - before + 0.1 * (four_neighbours(u) - 4.0 * u);
                    }),
                    plain::wave_step});
  const WrittenInput from{{i64, {3 * cloth_points}}, [](double, std::int64_t k) {
                            return static_cast<double>(k % cloth_points);
                          }};
  const WrittenInput to{
      {i64, {3 * cloth_points}}, [](double, std::int64_t k) {
        return static_cast<double>((k + 1 + k / cloth_points * 100) % cloth_points);
      }};
  models.push_back({"springs of a cloth",
                    "30000 edges, 10000 points",
                    {numbers({cloth_points, 3}), from, to},
                    by_executor(forces_of_springs),
                    plain::cloth,
                    1e-3});
  models.push_back(
      {"step of a Kalman filter",
       "4 states, 2 seen",
       {numbers({4}), near_diagonal(4, 1, 0.1), near_diagonal(4, 1, 0.05), near_diagonal(4, 0.1, 0),
        numbers({2, 4}), near_diagonal(2, 0.5, 0), numbers({2})},
       by_executor(step_of_kalman),
       plain::kalman_step,
       1e-3});
  add_written_rows(rows, "written-physics", std::move(models));
}

}  // namespace heddle::bench
