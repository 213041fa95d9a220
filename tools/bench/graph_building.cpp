// What graphs cost before they run: tracing and lowering many nodes, compiling equal layers.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "heddle/backend.hpp"
#include "heddle/graph_ops.hpp"
#include "heddle/trace.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/processors.hpp"
#include "tools/bench/transformer_block.hpp"

namespace heddle::bench {
namespace {

constexpr std::size_t traced_nodes = 10'000;

/// Products, norms and elementwise operations up to the given number of nodes.
Node deep(const Node& x) {
  Node y = x;
  for (int k = 0; k < 2'200; ++k) {
    const Node scaled = tanh(y * (1 + 1e-3 * k)) + x;
    y = k % 10 == 0 ? softmax(matmul(scaled, transpose(x))) : scaled;
  }
  return y;
}

double tracing() {
  const auto start = Clock::now();
  const auto traced = trace("deep", deep, ArrayType{f32, {64, 64}});
  static_cast<void>(traced.program());
  const double ns = ns_between(start, Clock::now());
  if (traced.graph().num_nodes() < traced_nodes) throw std::logic_error("too few nodes");
  return ns;
}

/// The given number of blocks, one after another, without operations in between: equal layers.
Program blocks(int count) {
  const Graph g(fmt::format("blocks_{}", count));
  Node x = g.parameter("x", {f32, {block_tokens, block_width}});
  for (int k = 0; k < count; ++k) x = transformer_block(g, x);
  g.finish({x});
  return g.program().program;
}

/// Without a cache, so that each compilation is complete.
Backend uncached(const std::string& name) {
  BackendOptions options;
  options.name = name;
  options.cache = false;
  return Backend::open(options);
}

Case layers_case(const std::string& compiler) {
  const auto slot = std::make_shared<std::optional<Backend>>();
  const auto compile = [compiler, slot](int count) {
    return [compiler, slot, count](nanoseconds length, Samples&) {
      const Unpinned unpinned;
      if (!*slot) slot->emplace(uncached(compiler));
      return timed_loop(length, 1,
                        [&](std::size_t) { static_cast<void>((*slot)->compile(blocks(count))); });
    };
  };
  return {"layers",
          fmt::format("twelve transformer blocks, {}", compiler),
          "compile",
          {"heddle", Kind::heddle, compile(12)},
          {"one block", Kind::limit, compile(1)}};
}

}  // namespace

void add_tracing_rows(std::vector<Row>& rows) {
  rows.push_back(Gauge{"tracing", fmt::format("trace and lower {} nodes", traced_nodes), "graph",
                       "heddle", Unit::ns, tracing});
}

void add_layers_rows(std::vector<Row>& rows) {
  for (const std::string& compiler : compiling_backends()) rows.push_back(layers_case(compiler));
}

}  // namespace heddle::bench
