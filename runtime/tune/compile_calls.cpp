// The calls of backends that compile programs and tune their schedules.
#include <fmt/format.h>

#include <optional>

#include "heddle/backend.hpp"
#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/compiling.hpp"
#include "runtime/device/tuned.hpp"
#include "runtime/tune/programs.hpp"
#include "runtime/tune/tuning.hpp"

namespace heddle {
namespace {

void require_open(const rt::BackendState& state) {
  throw_if_failed(state.fork_status());
  // acquire: pairs with the release in Backend::finalize().
  if (!state.finalized.load(std::memory_order_acquire)) return;
  throw Error(ErrorCode::failed_precondition,
              fmt::format("backend '{}' was finalised; open another", state.spec.name));
}

}  // namespace

Code Backend::compile(const Program& program, const CompileOptions& options) const {
  require_open(*state_);
  return rt::compile_program(state_, program, options, rt::limits_of(options.timeout));
}

CodeBatch Backend::compile_batch(std::span<const Program> programs,
                                 const BatchOptions& options) const {
  require_open(*state_);
  return rt::compile_programs(state_, programs, options, rt::limits_of(options.each.timeout));
}

PendingCode Backend::compile_async(const Program& program, const CompileOptions& options) const {
  require_open(*state_);
  return rt::start_program(state_, program, options);
}

PendingBatch Backend::compile_batch_async(std::span<const Program> programs,
                                          const BatchOptions& options) const {
  require_open(*state_);
  return rt::start_programs(state_, programs, options);
}

TunedSchedule Backend::tune(const Program& program, const CompileOptions& options) const {
  require_open(*state_);
  return rt::tune(state_, program, options);
}

std::optional<TunedSchedule> Backend::tuned(const Program& program,
                                            const CompileOptions& options) const {
  require_open(*state_);
  const jit::CompileKey key = jit::program_key_of(program, options);
  if (!rt::takes_kept(*state_, options)) return std::nullopt;
  const auto report = state_->tuned->find(key, options.tune.reassociate);
  return report ? std::optional(*report) : std::nullopt;
}

}  // namespace heddle
