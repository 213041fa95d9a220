// See runtime/context/copies.hpp.
#include "runtime/context/copies.hpp"

#include <fmt/format.h>

#include <utility>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/context/context_state.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/transfer/transfer.hpp"
#include "scheduler/observe/log.hpp"

namespace heddle::rt {

std::shared_ptr<const BufferView> require_source(const Tensor& tensor, const Context& source,
                                                 std::string_view what) {
  if (auto view = find_view(*Inside::of(source), tensor)) return view;
  throw Error(ErrorCode::not_found,
              fmt::format("{} of tensor '{}': the source context '{}' does not hold it", what,
                          tensor.label(), source.label()));
}

CopyPlan plan_copy(const Tensor& tensor, const Context& source, const Context& destination) {
  CopyPlan plan{require_source(tensor, source, "copy"),
                find_view(*Inside::of(destination), tensor)};
  require_open(*Inside::of(destination)->device);
  if (!plan.to) {
    plan.nothing = fmt::format("the destination context '{}' does not hold tensor '{}'",
                               destination.label(), tensor.label());
  } else if (Inside::of(plan.from->buffer()) == Inside::of(plan.to->buffer()) &&
             plan.from->offset() == plan.to->offset()) {
    plan.nothing = "source and destination share their memory";
  } else {
    require_writable(*plan.to);
  }
  return plan;
}

}  // namespace heddle::rt

namespace heddle {

Transfer copy(const Tensor& tensor, const Context& source, const Context& destination,
              const TransferOptions& options, std::source_location where) {
  rt::CopyPlan plan = rt::plan_copy(tensor, source, destination);
  if (!plan.nothing.empty()) return {TransferOutcome::nothing_to_do, {}, std::move(plan.nothing)};
  const auto& device = Inside::of(destination)->device;
  sched::log_made(LogLevel::debug, [&] {
    return fmt::format("copy '{}' from {} to {}", tensor.label(),
                       Inside::of(source)->device->execution->name, device->execution->name);
  });
  Event event =
      rt::submit_copy(*device, *plan.from, *plan.to, &tensor, rt::submit_options(options, where));
  return {TransferOutcome::scheduled, std::move(event), {}};
}

}  // namespace heddle
