// Arrays on a GPU: computations bound by memory, against copies that move as many bytes within the
// GPU's memory; and a matrix product against cuBLAS.
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/graph_ops.hpp"
#include "heddle/routine.hpp"
#include "heddle/status.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/gpu_rows.hpp"
#include "tools/bench/processors.hpp"
#include "tools/bench/rival_cublas.hpp"

namespace heddle::bench {
namespace {

/// A function of arrays on a virtual device, with values for its parameters.
class OnGpu {
 public:
  explicit OnGpu(const std::function<Node(Graph&)>& function) {
    Graph graph("gpu");
    std::vector<Node> results;
    results.push_back(function(graph));
    graph.finish(std::move(results));
    const GraphProgram made = graph.program();
    const Backend backend = open_cuda();
    routine_.emplace(Context(backend.physical_device(0).new_virtual_device())
                         .link(backend.compile(made.program)));
    std::uint64_t seed = 1;
    for (const Tensor& each : made.parameters)
      routine_->context().write<float>(each,
                                       HostArray::uniform(each.type(), seed++).values<float>());
    wait();
  }

  double time(nanoseconds length) {
    return timed_loop(length, gpu_sizes().calls(), [&](std::size_t count) {
      for (std::size_t k = 0; k < count; ++k) routine_->schedule();
      wait();
    });
  }

 private:
  void wait() { routine_->context().device().await(); }

  std::optional<Routine> routine_;
};

/// Copies within the GPU's memory. A copy reads and writes each byte.
class CopiesOnGpu {
 public:
  explicit CopiesOnGpu(std::size_t bytes) : bytes_(bytes), from_(gpu_, bytes), to_(gpu_, bytes) {}

  double time(nanoseconds length) {
    const dev::cuda::Gpu::Current current(*gpu_.gpu());
    return timed_loop(length, gpu_sizes().calls(), [&](std::size_t count) {
      for (std::size_t k = 0; k < count; ++k) {
        gpu_.require(gpu_.driver().copy(to_.address(), from_.address(), bytes_, gpu_.stream()),
                     "cuMemcpyAsync");
      }
      gpu_.wait();
    });
  }

 private:
  const BareGpu gpu_;
  const std::size_t bytes_;
  const BareMemory from_, to_;
};

class ProductsByCublas {
 public:
  ProductsByCublas() : cublas_(gpu_), a_(gpu_, bytes()), b_(gpu_, bytes()), c_(gpu_, bytes()) {
    const dev::cuda::Gpu::Current current(*gpu_.gpu());
    for (const BareMemory* const each : {&a_, &b_}) {
      const HostArray values = HostArray::uniform({f32, {side(), side()}}, 1);
      gpu_.require(
          gpu_.driver().copy(each->address(), reinterpret_cast<dev::cuda::Address>(values.data()),
                             bytes(), gpu_.stream()),
          "cuMemcpyAsync");
      gpu_.wait();
    }
  }

  double time(nanoseconds length) {
    const dev::cuda::Gpu::Current current(*gpu_.gpu());
    return timed_loop(length, gpu_sizes().calls(), [&](std::size_t count) {
      for (std::size_t k = 0; k < count; ++k)
        cublas_.multiply(static_cast<int>(side()), a_, b_, c_);
      gpu_.wait();
    });
  }

 private:
  static std::int64_t side() { return gpu_sizes().product(); }
  static std::size_t bytes() { return static_cast<std::size_t>(side() * side()) * sizeof(float); }

  const BareGpu gpu_;
  const Cublas cublas_;
  const BareMemory a_, b_, c_;
};

/// Made by the first slice that needs it.
using OnGpuLater = std::shared_ptr<std::optional<OnGpu>>;

double time_on_gpu(const OnGpuLater& made, const std::function<Node(Graph&)>& function,
                   nanoseconds length) {
  if (!*made) made->emplace(function);
  return (*made)->time(length);
}

Contender heddle_on_gpu(const OnGpuLater& made, std::function<Node(Graph&)> function) {
  return {"heddle", Kind::heddle,
          [made, function = std::move(function)](nanoseconds length, Samples&) {
            return time_on_gpu(made, function, length);
          }};
}

/// A row whose times do not depend on the machine's processors.
void add_ungauged(std::vector<Row>& rows, const std::string& workload, Contender subject,
                  Contender anchor) {
  Case row{"gpu-arrays", workload, "call", std::move(subject), std::move(anchor)};
  row.gauged = false;
  rows.push_back(std::move(row));
}

/// `arrays`: matrices that the function reads and writes, together.
void add_array_row(std::vector<Row>& rows, const std::string& workload, std::size_t arrays,
                   std::function<Node(Graph&)> function) {
  const auto copies = std::make_shared<std::optional<CopiesOnGpu>>();
  Contender anchor{"device-to-device copy", Kind::limit,
                   [copies, arrays](nanoseconds length, Samples&) {
                     const auto side = static_cast<std::size_t>(gpu_sizes().side());
                     if (!*copies) copies->emplace(arrays * side * side * sizeof(float) / 2);
                     return (*copies)->time(length);
                   }};
  add_ungauged(rows, workload,
               heddle_on_gpu(std::make_shared<std::optional<OnGpu>>(), std::move(function)),
               std::move(anchor));
}

Node matrix(Graph& graph, const char* name) {
  return graph.parameter(name, {f32, {gpu_sizes().side(), gpu_sizes().side()}});
}
Node vector(Graph& graph, const char* name) {
  return graph.parameter(name, {f32, {gpu_sizes().side()}});
}

}  // namespace

void add_gpu_array_rows(std::vector<Row>& rows) {
  add_array_row(rows, "GPU, a + b", 3, [](Graph& g) { return matrix(g, "a") + matrix(g, "b"); });
  add_array_row(rows, "GPU, relu(ab+c)d", 5, [](Graph& g) {
    return relu(matrix(g, "a") * matrix(g, "b") + matrix(g, "c")) * matrix(g, "d");
  });
  add_array_row(rows, "GPU, row sums", 1, [](Graph& g) { return sum(matrix(g, "x"), 1); });
  add_array_row(rows, "GPU, softmax", 2, [](Graph& g) { return softmax(matrix(g, "x")); });
  add_array_row(rows, "GPU, layernorm", 2, [](Graph& g) {
    return layer_norm(matrix(g, "x"), vector(g, "scale"), vector(g, "shift"));
  });
  add_array_row(rows, "GPU, transpose", 2, [](Graph& g) { return transpose(matrix(g, "x")); });

  const auto product = [](Graph& g) {
    const std::int64_t side = gpu_sizes().product();
    return matmul(g.parameter("a", {f32, {side, side}}), g.parameter("b", {f32, {side, side}}));
  };
  const auto made = std::make_shared<std::optional<OnGpu>>();
  rows.push_back(Gauge{"gpu-arrays", "GPU, matmul", "call", "heddle", Unit::ns, [made, product] {
                         return time_on_gpu(made, product, std::chrono::milliseconds(20));
                       }});
  const auto products = std::make_shared<std::optional<ProductsByCublas>>();
  Contender cublas{"cuBLAS", Kind::rival, [products](nanoseconds length, Samples&) {
                     if (!*products) products->emplace();
                     return (*products)->time(length);
                   }};
  add_ungauged(rows, "GPU, matmul", heddle_on_gpu(made, product), std::move(cublas));
}

}  // namespace heddle::bench
