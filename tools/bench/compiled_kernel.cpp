// See compiled_kernel.hpp.
#include "tools/bench/compiled_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/status.hpp"
#include "jit/code.hpp"

namespace heddle::bench {
namespace {

/// A setup with its kernel, at an address that stays.
struct Bound {
  KernelSetup setup;
  CompiledKernel kernel;
  Bound(const std::string& backend, KernelSetup made)
      : setup(std::move(made)), kernel(backend, setup) {}
};

/// Contraction may round a plain sum of n products otherwise: allow for that and no more.
constexpr float relative_difference_max = 1e-4F;

void require_same_results(const Bound& bound, void (*plain)(const KernelSetup&)) {
  const auto result = bound.setup.arrays.back().values<float>();
  std::ranges::fill(result, -1.0F);
  bound.kernel();
  const std::vector<float> generated(result.begin(), result.end());
  std::ranges::fill(result, -1.0F);
  plain(bound.setup);
  for (std::size_t k = 0; k < generated.size(); ++k) {
    if (std::abs(generated[k] - result[k]) <= relative_difference_max * std::abs(result[k]))
      continue;
    throw Error(ErrorCode::internal,
                fmt::format("kernel '{}', element {}: generated code gives {}, the plain loop {}",
                            bound.setup.program.name(), k, generated[k], result[k]));
  }
}

}  // namespace

Tensor KernelSetup::add(const std::string& label, const Dims& dims) {
  tensors.emplace_back(label, f32, dims);
  arrays.push_back(HostArray::uniform({f32, dims}, tensors.size()));
  return tensors.back();
}

CompiledKernel::CompiledKernel(const std::string& backend, const KernelSetup& setup)
    : code_(Backend::open(backend).compile(setup.program)) {
  const jit::CodeData& data = code_.data();
  for (const Tensor& tensor : data.lowered.tensors) {
    const auto at = std::ranges::find(setup.tensors, tensor);
    if (at == setup.tensors.end()) {
      throw Error(ErrorCode::failed_precondition,
                  fmt::format("kernel '{}' needs memory for '{}', which the benchmark did not give",
                              data.name, tensor.label()));
    }
    const HostArray& array = setup.arrays[static_cast<std::size_t>(at - setup.tensors.begin())];
    buffers_.push_back({array.data(), array.num_bytes()});
  }
  arguments_.struct_size = sizeof arguments_;
  arguments_.abi = HEDDLE_KERNEL_ABI;
  arguments_.buffers = buffers_.data();
  arguments_.num_buffers = static_cast<std::uint32_t>(buffers_.size());
  arguments_.num_parts = 1;
  arguments_.status = &status_;
  function_ = data.steps.front().function();
}

std::vector<std::string> compiling_backends() {
  std::vector<std::string> names;
  for (const BackendInfo& info : Backend::list()) {
    if (info.status.ok() && (info.name == "cc" || info.name == "gccjit"))
      names.push_back(info.name);
  }
  return names;
}

Case kernel_case(const std::string& name, const std::string& workload, const std::string& backend,
                 std::size_t calls, const std::function<KernelSetup()>& make,
                 void (*plain)(const KernelSetup&)) {
  const auto bound = [slot = std::make_shared<std::unique_ptr<const Bound>>(), backend, make,
                      plain]() -> const Bound& {
    if (!*slot) {
      *slot = std::make_unique<const Bound>(backend, make());
      require_same_results(**slot, plain);
    }
    return **slot;
  };
  Contender subject{"heddle, " + backend, Kind::heddle,
                    [bound, calls](nanoseconds length, Samples&) {
                      const CompiledKernel& kernel = bound().kernel;
                      return timed_loop(length, calls, [&kernel](std::size_t count) {
                        for (std::size_t k = 0; k < count; ++k) kernel();
                      });
                    }};
  Contender anchor{"plain C++ loop", Kind::limit,
                   [bound, calls, plain](nanoseconds length, Samples&) {
                     const KernelSetup& setup = bound().setup;
                     return timed_loop(length, calls, [&setup, plain](std::size_t count) {
                       for (std::size_t k = 0; k < count; ++k) plain(setup);
                     });
                   }};
  return {name, workload, "call", std::move(subject), std::move(anchor)};
}

}  // namespace heddle::bench
