// Kernels as users run them, from schedule to event, on one processor and on all processors: the
// table of programs and shapes at the end is the main result. Rivals have as many threads.
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/routine.hpp"
#include "heddle/status.hpp"
#include "tools/bench/against.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/limit_kernels.hpp"
#include "tools/bench/processors.hpp"
#include "tools/bench/programs.hpp"
#include "tools/bench/rival_openblas.hpp"
#include "tools/bench/rival_python.hpp"

namespace heddle::bench {
namespace {

struct Shape {
  std::string label;
  std::function<KernelSetup()> make;
  std::optional<BlasProduct> product{};
  std::size_t copied =
      0;  ///< floats whose copy moves as many bytes; 0: it is not memory that counts
};

Shape product(int m, int n, int k) {
  const BlasProduct shape{m, n, k};
  return {fmt::format("matmul {}x{}x{}", m, k, n), [shape] { return product_of(shape); }, shape};
}
template <class Make>
Shape matrix(const char* name, Make make, std::int64_t rows, std::int64_t columns,
             std::size_t moved = 0) {
  return {fmt::format("{} {}x{}", name, rows, columns),
          [=] { return make(rows, columns); },
          {},
          moved * static_cast<std::size_t>(rows * columns) / 2};
}
template <class Make>
Shape vector(const char* name, Make make, std::int64_t count, std::size_t moved = 0) {
  return {fmt::format("{} {}", name, count),
          [=] { return make(count); },
          {},
          moved * static_cast<std::size_t>(count) / 2};
}

/// Usual sizes, and odd sizes.
std::vector<Shape> shapes() {
  return {
      product(512, 512, 512),
      product(1024, 1024, 1024),
      product(777, 333, 1111),
      matrix("softmax", softmax_of, 1000, 1000),
      matrix("softmax", softmax_of, 4000, 1000),
      matrix("layernorm", layernorm_of, 1000, 768),
      matrix("layernorm", layernorm_of, 4000, 768),
      vector("gelu", gelu_of, 1'000'000),
      vector("relu(ab+c)d", elementwise_of, 1'000'000),
      vector("relu(ab+c)d", elementwise_of, 16'000'000, 5),
      matrix("transpose", transpose_of, 1000, 1000),
      matrix("column sums", column_sums_of, 1000, 1000),
      {"conv2d 64 to 64, 56x56", [] { return convolution_of(64, 64, 56, 56); }},
      product(1023, 2049, 129),
      product(100, 50, 3000),
      matrix("softmax", softmax_of, 333, 4097),
      matrix("layernorm", layernorm_of, 517, 1999),
      vector("gelu", gelu_of, 77'777),
      vector("relu(ab+c)d", elementwise_of, 77'777),
      matrix("transpose", transpose_of, 777, 1333),
      matrix("column sums", column_sums_of, 3001, 257),
      matrix("row sums", row_sums_of, 257, 3001),
      {"conv2d 48 to 96, 29x31", [] { return convolution_of(48, 96, 29, 31); }},
  };
}

/// A program on a device of `width` processors, with its own values.
class Whole {
 public:
  Whole(KernelSetup setup, int width)
      : setup_(std::move(setup)), backend_(open(width)), context_(bind()), routine_(link()) {
    run();
  }

  void run() const { throw_if_failed(routine_.schedule().wait()); }
  [[nodiscard]] std::vector<float> result() const {
    return context_.read<float>(setup_.tensors.back());
  }

 private:
  static Backend open(int width) {
    BackendOptions options;
    options.name = compiling_backends().front();
    options.mode = sched::Mode::threaded;
    options.width = width;
    if (width == 1) {
      options.scheduling.device.processor = static_cast<unsigned>(
          processors()[static_cast<std::size_t>(worker_processor) % processors().size()]);
    }
    return Backend::open(options);
  }
  [[nodiscard]] Context bind() const {
    const Unpinned while_starting;
    const Device device = backend_.physical_device(0).new_virtual_device();
    Context context(device);
    for (std::size_t k = 0; k < setup_.tensors.size(); ++k) {
      const ArrayType& type = setup_.tensors[k].type();
      context = context.with(setup_.tensors[k], {Buffer::allocate(device, type), type});
      context.write<float>(setup_.tensors[k], setup_.arrays[k].values<float>());
    }
    return context;
  }
  [[nodiscard]] Routine link() const { return context_.link(backend_.compile(setup_.program)); }

  KernelSetup setup_;
  Backend backend_;
  Context context_;
  Routine routine_;
};

class WholeOnce {
 public:
  WholeOnce(const Shape& shape, int width) : make_(shape.make), width_(width) {}
  Whole& operator*() {
    if (!made_) {
      const Unpinned while_starting;
      made_.emplace(make_(), width_);
    }
    return *made_;
  }

 private:
  std::function<KernelSetup()> make_;
  int width_;
  std::optional<Whole> made_;
};

Contender ours(const std::string& name, const std::shared_ptr<WholeOnce>& whole) {
  return {name, Kind::heddle, [whole](nanoseconds length, Samples& samples) {
            const Whole& its = **whole;
            return timed_operations(length, samples, [&its] { its.run(); });
          }};
}

/// The kernel, called as a function on this thread.
Contender kernel_alone(const Shape& shape) {
  struct Alone {
    KernelSetup setup;
    CompiledKernel kernel;
    explicit Alone(KernelSetup made)
        : setup(std::move(made)), kernel(compiling_backends().front(), setup) {}
  };
  const auto made = std::make_shared<std::unique_ptr<Alone>>();
  return {"kernel alone", Kind::limit, [made, make = shape.make](nanoseconds length, Samples&) {
            if (!*made) *made = std::make_unique<Alone>(make());
            return timed_loop(length, 1, [&](std::size_t) { (*made)->kernel(); });
          }};
}

/// A copy past the caches that moves as many bytes, with the given number of threads.
Contender copying(std::size_t count, int threads) {
  struct Arrays {
    std::vector<float> from, to;
  };
  const auto made = std::make_shared<std::optional<Arrays>>();
  return {"copy", Kind::limit, [=](nanoseconds length, Samples&) {
            const std::size_t each = count / static_cast<std::size_t>(threads) / 64 * 64;
            const std::size_t all = each * static_cast<std::size_t>(threads);
            if (!*made)
              made->emplace(std::vector<float>(all + 16, 1), std::vector<float>(all + 16));
            const auto aligned = [](std::vector<float>& in) {
              return in.data() + (64 - reinterpret_cast<std::uintptr_t>(in.data()) % 64) % 64 / 4;
            };
            float* const from = aligned((*made)->from);
            float* const to = aligned((*made)->to);
            std::atomic<int> round{0}, done{0};
            std::vector<std::jthread> helpers;
            for (int k = 1; k < threads; ++k) {
              helpers.emplace_back([&, k] {
                pin_this_thread(k);
                const auto at = static_cast<std::size_t>(k) * each;
                for (int next = 1;; ++next) {
                  while (round.load() >= 0 && round.load() < next) spin_pause();
                  if (round.load() < 0) return;
                  limit_copy(each, from + at, to + at);
                  done.fetch_add(1);
                }
              });
            }
            const double ns = timed_loop(length, 1, [&](std::size_t) {
              round.fetch_add(1);
              limit_copy(each, from, to);
              while (done.load() < (threads - 1) * round.load()) spin_pause();
            });
            round.store(-1);
            return ns;
          }};
}

/// Each framework starts once for all rows of a width: a start takes seconds.
struct Rivals {
  int threads;
  std::vector<Alternative> frameworks = framework_alternatives(threads);
};

void add_shape(std::vector<Row>& rows, const Shape& shape, const Rivals& rivals,
               const std::string& column) {
  const auto whole = std::make_shared<WholeOnce>(shape, rivals.threads);
  Case row{"whole", fmt::format("{}, {}", shape.label, column), "call", ours("heddle", whole), {}};
  row.line = shape.label;
  row.column = column;
  Against against(rows, std::move(row));
  if (rivals.threads == 1) {
    against(kernel_alone(shape));
  } else {
    against(ours("heddle, one processor", std::make_shared<WholeOnce>(shape, 1)));
  }
  const auto result = [whole](const KernelSetup&) { return (**whole).result(); };
  for (const Alternative& each : rivals.frameworks) {
    against(framework_contender(each, shape.make, result));
    if (each.name != "PyTorch") continue;
    Alternative compiled = each;
    compiled.name += ", compiled";
    against(framework_contender(
        compiled, [make = shape.make] { return compiled_form(make()); }, result));
  }
  if (shape.product) {
    const Alternative blas = openblas(*shape.product, rivals.threads);
    against(framework_contender(blas, shape.make, result));
  }
  if (shape.copied > 0) against(copying(shape.copied, rivals.threads));
}

}  // namespace

void add_whole_rows(std::vector<Row>& rows) {
  if (compiling_backends().empty()) return;
  const auto all = static_cast<int>(processors().size());
  for (const int threads : {1, all}) {
    if (threads == 1 && all == 1) continue;
    const Rivals rivals{threads};
    const std::string column = threads == 1 ? "1 processor" : fmt::format("{} processors", threads);
    for (const Shape& each : shapes()) add_shape(rows, each, rivals, column);
  }
}

}  // namespace heddle::bench
