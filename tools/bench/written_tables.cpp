// Groups of tables, graphs of edges, texts: places come from data.
#include <limits>
#include <vector>

#include "tools/bench/cases.hpp"
#include "tools/bench/written.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t entries = 100'000, groups = 64;
constexpr std::int64_t graph_edges = 100'000, graph_nodes = 10'000;
constexpr std::int64_t trigrams = 4096;

Node all_of(const Graph& graph, float value, std::int64_t count) {
  return broadcast_to(graph.constant(value), {count});
}

std::vector<Node> aggregates(const Graph& graph, const Node& of, const Node& x) {
  const Node zero = all_of(graph, 0, groups);
  const float infinity = std::numeric_limits<float>::infinity();
  return {scatter(zero, {of}, all_of(graph, 1, entries), Scatter::add),
          scatter(zero, {of}, x, Scatter::add), scatter(zero, {of}, x * x, Scatter::add),
          scatter(all_of(graph, infinity, groups), {of}, x, Scatter::minimum),
          scatter(all_of(graph, -infinity, groups), {of}, x, Scatter::maximum)};
}

/// The number of times that each place below `count` occurs.
Node occurrences(const Graph& graph, const Node& of, std::int64_t count) {
  return scatter(broadcast_to(graph.constant(0), {count}), {of},
                 broadcast_to(graph.constant(1), of.dims()), Scatter::add);
}

std::vector<Node> level_of_search(const Graph& graph, const Node& from, const Node& to,
                                  const Node& frontier, const Node& visited) {
  const Node none = broadcast_to(graph.constant(false), frontier.dims());
  const Node reached = scatter(none, {to}, take(frontier, from), Scatter::maximum);
  return {reached && !visited, reached || visited};
}

Node row_of_distances(const Graph& graph, const Node& before, const Node& letters,
                      const Node& letter) {
  const Node inserted = before + 1;
  const Node changed = slice(before, 0, {0, -1}) + cast(letters != letter, i32);
  const Node best =
      concatenate({slice(inserted, 0, {0, 1}), min(slice(inserted, 0, {.start = 1}), changed)});
  // The least of best(k) + j - k over k <= j.
  const Node j = graph.iota({i32, before.dims()});
  return j - cummax(j - best);
}

}  // namespace

void add_written_tables(std::vector<Row>& rows) {
  const std::vector<WrittenInput> table{places({entries}, groups), numbers({entries})};
  const WrittenInput ends = places({graph_edges}, graph_nodes);
  std::vector<WrittenModel> models;
  models.push_back(
      {"group sums by one_hot", "100000 in 64 groups", table,
       by_executor([](const Node& of, const Node& x) { return matmul(x, one_hot(of, groups)); }),
       plain::group_sums, 1e-3});
  models.push_back({"group sums by scatter", "100000 in 64 groups", table,
                    by_executor([](const Graph& graph, const Node& of, const Node& x) {
                      return scatter(all_of(graph, 0, groups), {of}, x, Scatter::add);
                    }),
                    plain::group_sums, 1e-3});
  models.push_back({"five aggregates by scatter", "100000 in 64 groups", table,
                    by_executor(aggregates), plain::five_aggregates, 1e-3});
  models.push_back({"histogram",
                    "1M in 256",
                    {numbers({1'000'000})},
                    by_executor([](const Graph& graph, const Node& x) {
                      return occurrences(graph, cast(x * 256.0, i64), 256);
                    }),
                    plain::histogram});
  models.push_back({"step of page rank",
                    "100000 edges, 10000 pages",
                    {ends, ends, numbers({graph_nodes}), numbers({graph_nodes}, 1, 20)},
                    by_executor([](const Graph& graph, const Node& from, const Node& to,
                                   const Node& rank, const Node& degree) {
                      const Node sent = take(rank / degree, from);
                      const Node got =
                          scatter(all_of(graph, 0, graph_nodes), {to}, sent, Scatter::add);
                      return 0.15 / graph_nodes + 0.85 * got;
                    }),
                    plain::page_rank_step,
                    1e-3});
  const WrittenInput tenth{{bool_, {graph_nodes}},
                           [](double drawn, std::int64_t) { return drawn < 0.1 ? 1.0 : 0.0; }};
  models.push_back({"level of a breadth-first search",
                    "100000 edges, 10000 nodes",
                    {ends, ends, tenth, tenth},
                    by_executor(level_of_search),
                    plain::search_level});
  models.push_back({"round of connected components",
                    "100000 edges, 10000 nodes",
                    {ends, ends, places({graph_nodes}, graph_nodes, i32)},
                    by_executor([](const Node& from, const Node& to, const Node& label) {
                      const Node there = scatter(label, {to}, take(label, from), Scatter::minimum);
                      return scatter(there, {from}, take(label, to), Scatter::minimum);
                    }),
                    plain::components_round});
  models.push_back({"count of trigrams",
                    "200000 letters",
                    {places({200'000}, 27, u8)},
                    by_executor([](const Graph& graph, const Node& text) {
                      const Node x = cast(text, i32);
                      const Node hash = ((slice(x, 0, {0, -2}) * 31 + slice(x, 0, {1, -1})) * 31 +
                                         slice(x, 0, {.start = 2})) %
                                        trigrams;
                      return occurrences(graph, hash, trigrams);
                    }),
                    plain::count_of_trigrams});
  models.push_back({"row of edit distances",
                    "4096 letters",
                    {{{i32, {4097}}, [](double, std::int64_t k) { return double(k); }},
                     places({4096}, 26, i32),
                     one_number(5, i32)},
                    by_executor(row_of_distances),
                    plain::edit_distance_row});
  add_written_rows(rows, "written-tables", std::move(models));
}

}  // namespace heddle::bench
