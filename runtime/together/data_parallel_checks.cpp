// See runtime/together/data_parallel_checks.hpp.
#include "runtime/together/data_parallel_checks.hpp"

#include <algorithm>
#include <set>

#include "heddle/backend.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"
#include "runtime/context/giving.hpp"

namespace heddle::rt {
namespace {

bool has_static(const Code& code, const StaticIndex& index) {
  return std::ranges::count(code.statics(), index) != 0;
}

/// The sum must be written by the gradient, from the values of a single batch.
void check_sum(const Code& gradient, const Tensor& tensor) {
  const jit::CodeData& code = *Inside::of(gradient);
  const auto entry = entry_of(code, tensor);
  require_run(entry && is_stored(code, *entry),
              "'{}' leaves no sum '{}' in memory (expected a tensor that it writes; set_mode("
              "MemoryMode::on_device) keeps one that it also reads)",
              gradient.name(), tensor.label());
  require_run(!code.signature().entries[*entry].reads_before_writing,
              "'{}' reads what was in sum '{}' before (expected the values of one batch, from "
              "nothing: the run adds up)",
              gradient.name(), tensor.label());
}

}  // namespace

void check_devices(std::span<const Context> contexts) {
  require_run(!contexts.empty(), "needs a context at least, one for each device");
  const Device first = contexts[0].device();
  for (std::size_t k = 1; k < contexts.size(); ++k) {
    const Device device = contexts[k].device();
    for (std::size_t before = 0; before < k; ++before) {
      require_run(!(contexts[before].device() == device),
                  "contexts {} and {} are on one device, {}; give each a device of its own", before,
                  k, device.name());
    }
    require_run(device.backend().name() == first.backend().name(),
                "devices {} and {} are of different backends, for which one code is not compiled",
                first.name(), device.name());
  }
}

void check_options(const DataParallelOptions& options) {
  require_run(options.merge_every >= 1, "merge_every is {} (expected 1 round or more)",
              options.merge_every);
  require_run(!options.sums.empty(), "has no sums: name what '{}' computes for a batch",
              options.gradient.name());
  std::set<std::uint64_t> known;
  for (const auto* const list : {&options.sums, &options.parameters}) {
    for (const Tensor& each : *list)
      require_run(known.insert(each.id()).second, "tensor '{}' is listed twice", each.label());
  }
  require_run(has_static(options.gradient, options.batch),
              "'{}' has no static index '{}', which is to say the batch", options.gradient.name(),
              options.batch.label());
  require_run(!has_static(options.update, options.batch),
              "'{}' has the static index '{}', but an update is of several batches",
              options.update.name(), options.batch.label());
  for (const Tensor& each : options.sums) check_sum(options.gradient, each);
}

}  // namespace heddle::rt
