// See host_uses.hpp.
#include "runtime/host_uses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "heddle/tensor.hpp"
#include "jit/describe/host_storage.hpp"
#include "jit/system/inside.hpp"
#include "runtime/execution.hpp"
#include "runtime/submit.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::rt {

std::shared_ptr<HostUses> uses_of(const HostArray& host) {
  jit::HostStorage& storage = *Inside::of(host);
  const std::lock_guard lock(storage.mutex);
  if (!storage.uses) storage.uses = std::make_shared<HostUses>();
  auto uses = std::static_pointer_cast<HostUses>(storage.uses);
  // acquire: pairs with the release in set_written(): what follows finds what was written.
  if (storage.written.exchange(false, std::memory_order_acquire)) {
    const std::lock_guard uses_lock(uses->ledger);
    uses->hazards.forget_ended();
  }
  return uses;
}

void await_values(const Execution& execution, const HostArray& host, const Tensor& tensor) {
  if (execution.sync != Sync::automatic) return;
  const auto uses = uses_of(host);
  // Of no timeline: it comes after all of them.
  const Hazards::Next read{0, 0, {0, host.num_bytes()}, Use::read, true};
  while (true) {
    sched::TaskNote note;
    std::optional<Event> broken;
    {
      const std::lock_guard lock(uses->ledger);
      broken = uses->hazards.order(read, 0, note);
    }
    if (broken) {
      throw Error(not_written({nullptr, Use::read, &tensor},
                              fmt::format("linking on {}", execution.name), *broken));
    }
    if (note.after.empty()) return;
    for (const sched::Awaited& each : note.after) {
      Status status = each.event.wait();
      if (!each.event.done()) throw Error(std::move(status));
    }
  }
}

void note_constant(const Execution& execution, const HostArray& host, const BufferState& buffer,
                   const Tensor& tensor) {
  const auto uses = uses_of(host);
  {
    const std::lock_guard lock(uses->ledger);
    std::erase_if(uses->constants, [](const auto& constant) { return constant.memory.expired(); });
    uses->constants.push_back({buffer.constant, buffer.memory});
  }
  await_values(execution, host, tensor);
}

Status host_writable(const HostUses& uses, const Tensor& tensor) {
  const auto lives = [](const auto& constant) { return !constant.memory.expired(); };
  const auto at = std::ranges::find_if(uses.constants, lives);
  if (at == uses.constants.end()) return {};
  return Status(ErrorCode::failed_precondition,
                fmt::format("the host storage of tensor '{}' cannot be written: it is that of {} "
                            "too, which devices may be reading in place; give them storage of "
                            "their own",
                            tensor.label(), at->text));
}

}  // namespace heddle::rt
