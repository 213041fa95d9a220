// See executor_record.hpp.
#include "runtime/executor_record.hpp"

#include <functional>
#include <new>
#include <span>

#include "jit/system/inside.hpp"
#include "runtime/buffer_state.hpp"
#include "runtime/execution.hpp"
#include "scheduler/threads/never_destroyed.hpp"

namespace heddle::rt {
namespace {

RunInputs no_inputs() noexcept {
  static sched::NeverDestroyed<const std::function<void(const TracedValue&)>> no_trace;
  return {{}, nullptr, *no_trace};
}

void construct_small(void* to, void* from) noexcept {
  ::new (to) SmallCall(*static_cast<const SmallCall*>(from));
}
void destroy_small(void* callable) noexcept {
  Site& site = *static_cast<SmallCall*>(callable)->site;
  if (site.launches.end()) delete &site;
}
bool run_small(void* callable, Status& failure) {
  const auto& call = *static_cast<const SmallCall*>(callable);
  Site& site = *call.site;
  const SmallKernel& kernel = *site.small;
  heddle_kernel_buffer buffers[SmallKernel::buffers_max];
  for (std::uint32_t k = 0; k < kernel.num_buffers; ++k)
    buffers[k] = {call.data[k], kernel.buffers[k].bytes};
  site.execution->count_launches(1);
  failure = run_kernel(*site.execution, site.loaded.code, *kernel.module, kernel.index,
                       {buffers, kernel.num_buffers}, kernel.parts);
  if (!failure.ok()) return false;
  destroy_small(callable);
  return true;
}

}  // namespace

constexpr sched::TaskOps SmallCall::ops{&construct_small, &run_small, &destroy_small};

CallRecord::CallRecord(Site& site) : site_(site) {
  tables.begin(site_.loaded);
  if (!site_.scratch) return;
  const jit::CodeData& code = *Inside::of(site_.loaded.code);
  tables.helpers = static_cast<std::byte*>(site_.scratch->data) + code.core->scratch.bytes;
  for (std::size_t e = 0; e < tables.entries().size(); ++e) {
    if (code.signature().entries[e].role != jit::Role::scratch) continue;
    tables.entries()[e] = {
        static_cast<std::byte*>(site_.scratch->data) + code.core->scratch.offsets[e],
        static_cast<std::uint64_t>(*code.signature().entries[e].type.num_bytes())};
  }
}

std::unique_ptr<CallRecord> CallRecord::make(Site& site) {
  // No other operation is kept there.
  if (auto* const spare = static_cast<CallRecord*>(site.spares.take()))
    return std::unique_ptr<CallRecord>(spare);
  return std::unique_ptr<CallRecord>(new CallRecord(site));
}

void CallRecord::accepted() noexcept { site_.launches.begin(); }

Status CallRecord::run(Execution& execution) {
  execution.count_launches(1);
  if (const auto plain = plain_kernel(execution, site_.loaded, tables))
    return run_plain(execution, site_.loaded.code, *plain, {});
  return run_.emplace(execution, site_.loaded, tables, no_inputs(), room_).all();
}

Status CallRecord::ended(Execution& /*execution*/, Status status) noexcept {
  return run_ ? run_->ended(std::move(status)) : status;
}

void CallRecord::retire(std::shared_ptr<Execution> /*execution*/) noexcept {
  run_.reset();
  accesses.clear();
  Site& site = site_;
  site.spares.give(*this);  // and may go with the site
  if (site.launches.end()) delete &site;
}

bool CallRecord::run_plain_task(void* callable, Status& failure) {
  CallRecord& record = **static_cast<CallRecord**>(callable);
  failure = record.run(*record.site_.execution);
  if (failure.ok()) record.retire(nullptr);
  return failure.ok();
}

void CallRecord::destroy_plain_task(void* callable) noexcept {
  (*static_cast<CallRecord**>(callable))->retire(nullptr);
}

constexpr sched::TaskOps CallRecord::plain_ops{[](void* to, void* from) noexcept {
                                                 *static_cast<CallRecord**>(to) =
                                                     static_cast<CallRecord*>(from);
                                               },
                                               &run_plain_task, &destroy_plain_task};

}  // namespace heddle::rt
