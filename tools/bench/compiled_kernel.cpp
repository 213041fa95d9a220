// See compiled_kernel.hpp.
#include "tools/bench/compiled_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"
#include "tools/bench/rival_python.hpp"

namespace heddle::bench {
namespace {

Code compile(const std::string& backend, const Program& program, Schedule schedule) {
  CompileOptions options;
  options.schedule = schedule;
  return Backend::open(backend).compile(program, options);
}

/// A setup with its kernel, at a stable address.
struct Bound {
  KernelSetup setup;
  CompiledKernel kernel;
  Bound(const std::string& backend, KernelSetup made)
      : setup(std::move(made)), kernel(backend, setup) {}
};

/// Sums in a different order and different roundings of exp: the tolerance allows for these only.
constexpr float relative_difference_max = 1e-4F;

void require_same_results(const Bound& bound, const Alternative& other, const Prepared& prepared) {
  const auto result = bound.setup.arrays.back().values<float>();
  std::ranges::fill(result, -1.0F);
  bound.kernel();
  const std::vector<float> generated(result.begin(), result.end());
  std::ranges::fill(result, -1.0F);
  prepared.time(1);
  if (prepared.fetch) prepared.fetch();
  double magnitude = 0;  // over all results: single results may be differences of large numbers
  for (const float each : result) magnitude += std::abs(double{each});
  const auto usual = static_cast<float>(magnitude / static_cast<double>(result.size()));
  for (std::size_t k = 0; k < generated.size(); ++k) {
    if (std::abs(generated[k] - result[k]) <=
        relative_difference_max * std::max(usual, std::abs(result[k])))
      continue;
    throw Error(ErrorCode::internal,
                fmt::format("kernel '{}', element {}: generated code gives {}, the {} {}",
                            bound.setup.program.name(), k, generated[k], other.name, result[k]));
  }
}

/// A row's two sides, made when the row first runs.
class Pair {
 public:
  Pair(const KernelWorkload& workload, std::string backend, Alternative other)
      : make_(workload.make), backend_(std::move(backend)), other_(std::move(other)) {}

  const CompiledKernel& kernel() {
    prepare();
    return bound_->kernel;
  }
  double time_other(std::size_t count) {
    prepare();
    return prepared_.time(count);
  }

 private:
  void prepare() {
    if (bound_) return;
    auto bound = std::make_unique<const Bound>(backend_, make_());
    prepared_ = other_.prepare(bound->setup);
    if (other_.same_result) require_same_results(*bound, other_, prepared_);
    bound_ = std::move(bound);
  }

  std::function<KernelSetup()> make_;
  std::string backend_;
  Alternative other_;
  std::unique_ptr<const Bound> bound_;
  Prepared prepared_;
};

Case kernel_case(const KernelWorkload& workload, const std::string& backend,
                 const Alternative& other) {
  const auto pair = std::make_shared<Pair>(workload, backend, other);
  const std::size_t calls = workload.calls;
  Contender subject{"heddle, " + backend, Kind::heddle,
                    [pair, calls](nanoseconds length, Samples&) {
                      const CompiledKernel& kernel = pair->kernel();
                      return timed_loop(length, calls, [&kernel](std::size_t count) {
                        for (std::size_t k = 0; k < count; ++k) kernel();
                      });
                    }};
  Contender anchor{other.name, other.kind, [pair, calls](nanoseconds length, Samples&) {
                     const auto end = Clock::now() + length;
                     double sum = 0;
                     int rounds = 0;
                     do {
                       sum += pair->time_other(calls);
                       ++rounds;
                     } while (Clock::now() < end);
                     return sum / rounds;
                   }};
  return {workload.name,      workload.workload, "call",
          std::move(subject), std::move(anchor), workload.slice};
}

}  // namespace

Tensor KernelSetup::add(const std::string& label, const Dims& dims) {
  tensors.emplace_back(label, f32, dims);
  arrays.push_back(HostArray::uniform({f32, dims}, tensors.size()));
  return tensors.back();
}

void KernelSetup::give(const Tensor& tensor, std::int64_t below) {
  tensors.push_back(tensor);
  if (is_floating(tensor.dtype())) {
    arrays.push_back(HostArray::uniform(tensor.type(), tensors.size()));
    return;
  }
  HostArray numbers(tensor.type());
  const HostArray drawn = HostArray::uniform({f32, tensor.dims()}, tensors.size());
  for (std::int64_t k = 0; k < numbers.num_elements(); ++k)
    numbers.set(k, static_cast<double>(
                       static_cast<std::int64_t>(drawn.at(k) * static_cast<double>(below))));
  arrays.push_back(std::move(numbers));
}

CompiledKernel::CompiledKernel(const std::string& backend, const KernelSetup& setup,
                               Schedule schedule)
    : code_(compile(backend, setup.program, schedule)) {
  const jit::CodeData& data = *Inside::of(code_);
  const auto& entries = data.signature().entries;
  std::vector<heddle_kernel_buffer> buffers;
  for (std::size_t k = 0; k < entries.size(); ++k) {
    const Tensor* const tensor = data.tensor(k);
    const auto at =
        tensor == nullptr ? setup.tensors.end() : std::ranges::find(setup.tensors, *tensor);
    if (at == setup.tensors.end() && entries[k].role != jit::Role::scratch) {
      throw Error(ErrorCode::failed_precondition,
                  fmt::format("kernel '{}' keeps '{}', which the benchmark did not give memory for",
                              data.name, data.label(k)));
    }
    if (at == setup.tensors.end()) scratch_.emplace_back(entries[k].type);
    const HostArray& array =
        at == setup.tensors.end()
            ? scratch_.back()
            : setup.arrays[static_cast<std::size_t>(at - setup.tensors.begin())];
    buffers.push_back({array.data(), array.num_bytes()});
  }
  for (const jit::Step& step : data.core->steps) {
    const auto& kernel = std::get<jit::KernelStep>(step);
    Part& part = parts_.emplace_back();
    for (const std::uint32_t entry : kernel.entries) part.buffers.push_back(buffers[entry]);
    part.arguments.struct_size = sizeof part.arguments;
    part.arguments.abi = HEDDLE_KERNEL_ABI;
    part.arguments.buffers = part.buffers.data();
    part.arguments.num_buffers = static_cast<std::uint32_t>(part.buffers.size());
    part.arguments.num_parts = 1;
    part.arguments.status = &status_;
    throw_if_failed(dev::load_on_host(kernel.unit->image, {}, &part.module));
    part.function = part.module->host_function(kernel.index);
  }
}

std::vector<std::string> compiling_backends() {
  std::vector<std::string> names;
  for (const BackendInfo& info : Backend::list()) {
    if (info.status.ok() && (info.name == "cc" || info.name == "gccjit"))
      names.push_back(info.name);
  }
  return names;
}

Prepared in_process(std::function<void()> call) {
  return {[call = std::move(call)](std::size_t count) {
    const auto start = Clock::now();
    for (std::size_t k = 0; k < count; ++k) call();
    return ns_between(start, Clock::now()) / static_cast<double>(count);
  }};
}

Alternative in_process(const char* name, Kind kind, std::function<void(const KernelSetup&)> run) {
  return {name, kind, [run = std::move(run)](const KernelSetup& setup) {
            return in_process([run, &setup] { run(setup); });
          }};
}

Alternative by_program(const char* name, std::function<KernelSetup()> make, Schedule schedule) {
  const auto prepare = [make = std::move(make), schedule](const KernelSetup& setup) {
    struct Other {
      KernelSetup setup;
      CompiledKernel kernel;
      Other(KernelSetup made, Schedule chosen)
          : setup(std::move(made)), kernel(compiling_backends().front(), setup, chosen) {}
    };
    const auto other = std::make_shared<Other>(make(), schedule);
    Prepared prepared = in_process([other] { other->kernel(); });
    const HostArray target = setup.arrays.back();  // shares its memory
    prepared.fetch = [other, target] {
      std::memcpy(target.data(), other->setup.arrays.back().data(), target.num_bytes());
    };
    return prepared;
  };
  return {name, Kind::limit, prepare};
}

namespace {

std::vector<Alternative> other_compilers(const std::string& backend) {
  std::vector<Alternative> others;
  for (const std::string& other : compiling_backends()) {
    if (other == backend) continue;
    others.push_back({"heddle, " + other, Kind::heddle, [other](const KernelSetup& setup) {
                        const auto kernel = std::make_shared<const CompiledKernel>(other, setup);
                        return in_process([kernel] { (*kernel)(); });
                      }});
  }
  return others;
}

}  // namespace

void add_kernel_rows(std::vector<Row>& rows, const KernelWorkload& workload) {
  for (const std::string& backend : compiling_backends()) {
    const auto add_rows = [&](const std::vector<Alternative>& others) {
      for (const Alternative& each : others) rows.push_back(kernel_case(workload, backend, each));
    };
    add_rows(workload.alternatives);
    add_rows(other_compilers(backend));
    add_rows(framework_alternatives());
  }
}

}  // namespace heddle::bench
