// See runtime/door/host_uses.hpp.
#include "runtime/door/host_uses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "heddle/tensor.hpp"
#include "jit/describe/host_storage.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/door/accesses.hpp"
#include "runtime/memory/order_watch.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/protocol/lane.hpp"
#include "scheduler/threads/process_mutex.hpp"

namespace heddle::rt {

namespace {

/// Guards the member `uses` of every HostStorage. A process mutex, because forked children use
/// their parents' storage.
constinit sched::ProcessMutex storage_mutex;

/// For backends with Sync::check: reports each conflicting use that is not ordered before the
/// caller's read or write.
void look_here(HostUses& uses, bool writes, const WatchedWork& by) {
  std::vector<WatchedUses::Missing> missing;
  {
    const std::lock_guard lock(uses.ledger);
    throw_if_failed(whole(uses.ledger));
    if (const auto* const watched = uses.hazards.watched_if_any())
      watched->look_here(writes, by, missing);
  }
  for (const WatchedUses::Missing& each : missing) each.tell();
}

/// Called when the host reads or writes a HostArray.
void look_at(jit::HostStorage& storage, bool writes, const std::source_location& where) noexcept
    try {
  if (!sched::Clocks::on()) return;
  std::shared_ptr<HostUses> uses;
  {
    const std::lock_guard lock(storage_mutex);
    uses = std::static_pointer_cast<HostUses>(storage.uses);
  }
  const char* const what = writes ? "write of a HostArray" : "read of a HostArray";
  const std::string who =
      this_task::running() ? fmt::format("task '{}'", this_task::label()) : std::string("the host");
  if (uses) look_here(*uses, writes, {what, who, where});
} catch (...) {  // on a failure, for example no memory, nothing is reported
}

}  // namespace

std::shared_ptr<HostUses> uses_of(const HostArray& host) {
  jit::HostStorage& storage = *Inside::of(host);
  const std::lock_guard lock(storage_mutex);
  // release: pairs with the acquire in HostArray::look().
  if (sched::Clocks::on()) storage.look.store(&look_at, std::memory_order_release);
  if (!storage.uses) storage.uses = std::make_shared<HostUses>();
  auto uses = std::static_pointer_cast<HostUses>(storage.uses);
  // acquire: pairs with the release in set_written(). The code below sees the written values.
  if (storage.written.exchange(false, std::memory_order_acquire)) {
    const std::lock_guard uses_lock(uses->ledger);
    throw_if_failed(whole(uses->ledger));
    uses->hazards.forget_ended();
  }
  return uses;
}

void await_values(const Execution& execution, const HostArray& host, const Tensor& tensor,
                  const std::source_location& where) {
  if (execution.sync == Sync::manual) return;
  const auto uses = uses_of(host);
  if (execution.sync == Sync::check) {
    return look_here(*uses, false,
                     {fmt::format("linking what tensor '{}' begins with", tensor.label()),
                      "the host", where, false, execution.order});
  }
  // Timeline 0: the read comes after the uses of every timeline.
  const Hazards::Next read{0, 0, {0, host.num_bytes()}, Use::read, true};
  while (true) {
    sched::TaskNote note;
    std::optional<Event> broken;
    {
      const std::lock_guard lock(uses->ledger);
      throw_if_failed(whole(uses->ledger));
      broken = uses->hazards.order(read, 0, note);
    }
    if (broken) {
      throw Error(not_written({nullptr, Use::read, &tensor},
                              fmt::format("linking on {}", execution.name), *broken));
    }
    if (note.after.empty()) return;
    for (const sched::Awaited& each : note.after) {
      Status status = each.event.wait();
      if (!sched::Timeline::has_ended(each.event)) throw Error(std::move(status));
    }
  }
}

void note_constant(const Execution& execution, const HostArray& host, const BufferState& buffer,
                   const Tensor& tensor, const std::source_location& where) {
  const auto uses = uses_of(host);
  {
    const std::lock_guard lock(uses->ledger);
    throw_if_failed(whole(uses->ledger));
    std::erase_if(uses->constants, [](const auto& constant) { return constant.memory.expired(); });
    uses->constants.push_back({buffer.constant, buffer.memory});
  }
  await_values(execution, host, tensor, where);
}

Status host_writable(const HostUses& uses, const Access& access) {
  const auto lives = [](const auto& constant) { return !constant.memory.expired(); };
  const auto at = std::ranges::find_if(uses.constants, lives);
  if (at == uses.constants.end()) return {};
  return Status(ErrorCode::failed_precondition,
                fmt::format("{} cannot be written: it is that of {} too, which devices may be "
                            "reading in place; give them storage of their own",
                            name_of(access), at->text));
}

}  // namespace heddle::rt
