// Device and Hardware handles.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/device/widths.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/modes/opening.hpp"
#include "scheduler/threads/processors.hpp"

namespace heddle {
namespace rt {

Status BackendState::fork_status() const noexcept {
  if (!in_forked_child()) return {};
  return Status(ErrorCode::unavailable, [&] {
    return fmt::format(
        "backend '{}': forked: this process is a child of the one that opened it, and has none of "
        "its threads; open another in the child",
        spec.name);
  });
}

Status open_status(const DeviceState& device) noexcept {
  if (Status forked = device.backend->fork_status(); !forked.ok()) return forked;
  // acquire: pairs with the release in Backend::finalize().
  if (device.backend->finalized.load(std::memory_order_acquire)) {
    return Status(ErrorCode::failed_precondition, [&] {
      return fmt::format("backend '{}' was finalised, and device '{}' with it; open another",
                         device.backend->spec.name, device.execution->name);
    });
  }
  // acquire: pairs with the release in Device::finalize().
  if (device.finalized.load(std::memory_order_acquire)) {
    return Status(ErrorCode::failed_precondition, [&] {
      return fmt::format("device '{}' was finalised; open another", device.execution->name);
    });
  }
  return {};
}

void require_open(const DeviceState& device) {
  if (Status why = open_status(device); !why.ok()) throw Error(std::move(why));
}

void require_well(const DeviceState& device, std::string_view user) {
  const Status failure = device.timeline->status();
  if (failure.ok()) return;
  throw Error(failure.code(),
              fmt::format("{} is refused, as the device has failed; Device::recover() makes it "
                          "usable again",
                          user),
              failure);
}

}  // namespace rt

std::string_view name(Sync sync) noexcept {
  return sync == Sync::automatic ? "automatic" : sync == Sync::manual ? "manual" : "check";
}

const std::string& Device::name() const noexcept { return state_->execution->name; }
int Device::ordinal() const noexcept { return state_->ordinal; }
int Device::subordinal() const noexcept { return state_->subordinal; }
Backend Device::backend() const { return Inside::make<Backend>(state_->backend); }
Hardware Device::physical_device() const {
  return Inside::make<Hardware>(state_->backend, state_->ordinal);
}
const sched::TaskDevice& Device::timeline() const noexcept { return *state_->timeline; }

void Device::await() const {
  rt::require_open(*state_);
  throw_if_failed(timeline().await());
}
void Device::recover() const {
  rt::require_open(*state_);
  throw_if_failed(state_->execution->physical->usable());
  throw_if_failed(timeline().recover());
}
void Device::finalize(std::chrono::nanoseconds timeout) const {
  // release: pairs with the acquire in open_status(). Before the shutdown, so a caller refused by
  // the shutdown finds the reason.
  state_->finalized.store(true, std::memory_order_release);
  const Status status = timeline().shutdown(timeout);
  if (state_->seat) state_->seat->leave();
  if (!state_->backend->in_forked_child()) state_->execution->merge.clear();
  throw_if_failed(status);
}

Event Device::refused(const Event& event) const noexcept {
  // outcome_of() does not mark the failure as seen; a query of the returned event does.
  if (sched::Timeline::outcome_of(event).code() != ErrorCode::unavailable) return event;
  Status why = rt::open_status(*state_);
  return why.ok() ? event : sched::Timeline::refused(std::move(why));
}

DeviceStatistics Device::statistics() const noexcept {
  const rt::Execution& execution = *state_->execution;
  const dev::MemoryUse memory = execution.memory->use();
  // relaxed: statistics; pair with the additions in tasks.
  constexpr auto order = std::memory_order_relaxed;
  return {memory.in_use,
          memory.peak,
          memory.cached,
          execution.launches.load(order),
          execution.copies.load(order),
          execution.merges_copied.load(order),
          execution.merges_streamed.load(order),
          execution.parts.load(order)};
}

std::vector<TensorMemory> Device::memory() const {
  std::vector<TensorMemory> result;
  for (dev::MemoryHolder& holder : state_->execution->memory->holders())
    result.push_back({std::move(holder.label), holder.in_use, holder.peak});
  return result;
}

void Device::trim() const noexcept { state_->execution->memory->trim(); }

std::string Device::to_string() const {
  const DeviceStatistics s = statistics();
  return fmt::format(
      "device {}: {} launches, {} copies, {} merges copied, {} streamed, {} bytes in use (peak {})",
      name(), s.launches, s.copies, s.merges_copied, s.merges_streamed, s.bytes_in_use,
      s.bytes_peak);
}

std::string Hardware::name() const { return fmt::format("{}:{}", backend_->spec.name, ordinal_); }

Backend Hardware::backend() const { return Inside::make<Backend>(backend_); }

namespace {

sched::DeviceOptions timeline_options(const rt::BackendState& backend,
                                      const rt::DeviceState& device) {
  const SchedulerOptions& scheduling = backend.options.scheduling;
  sched::DeviceOptions options = scheduling.device;
  options.name = device.execution->name;
  options.mode = backend.options.mode.value_or(backend.spec.mode);
  if (device.execution->queue->runs_ahead()) options.in_flight = rt::Stream::in_flight_max;
  if (scheduling.pin_workers && !options.processor && options.mode == sched::Mode::threaded) {
    const std::vector<unsigned> allowed = sched::allowed_processors();
    const auto place = static_cast<std::size_t>(device.ordinal * std::max(1, backend.width));
    if (!allowed.empty()) options.processor = allowed[place % allowed.size()];
  }
  return options;
}

}  // namespace

Device Hardware::new_virtual_device() const {
  throw_if_failed(backend_->fork_status());
  const std::lock_guard lock(backend_->mutex);
  // acquire: pairs with the release in Backend::finalize().
  if (backend_->finalized.load(std::memory_order_acquire)) {
    throw Error(ErrorCode::failed_precondition,
                fmt::format("backend '{}' was finalised; open another", backend_->spec.name));
  }
  const auto ordinal = static_cast<std::size_t>(ordinal_);
  auto state = std::make_shared<rt::DeviceState>();
  state->backend = backend_;
  state->ordinal = ordinal_;
  state->subordinal = backend_->opened[ordinal];
  state->execution = std::make_shared<rt::Execution>();
  state->execution->name =
      fmt::format("{}:{}.{}", backend_->spec.name, ordinal_, state->subordinal);
  state->execution->shared_name = std::make_shared<const std::string>(state->execution->name);
  state->execution->physical = backend_->physical[ordinal];
  state->execution->sync = backend_->options.sync.value_or(Sync::automatic);
  state->execution->order = backend_->order;
  if (Status status = rt::Stream::open(state->execution->physical, &state->execution->queue);
      !status.ok()) {
    throw Error(status.code(), "no queue for device " + state->execution->name, status);
  }
  rt::take_helpers(*backend_, ordinal_, *state->execution);
  if (backend_->teams) state->seat.emplace(backend_->teams, static_cast<std::uint32_t>(ordinal_));
  const sched::DeviceOptions options = timeline_options(*backend_, *state);
  state->timeline.emplace(
      sched::Opening::open(backend_->scheduler, options, state->execution->helpers));
  dev::MemoryCacheOptions memory{state->execution->name, state->timeline->id(), {}};
  memory.ends_at_once = options.mode == sched::Mode::inline_;
  if (const auto most = backend_->options.bytes_max)
    memory.own = {*most, std::make_shared<const std::string>(
                             "BackendOptions::bytes_max or HEDDLE_BYTES_MAX")};
  state->execution->memory =
      std::make_shared<dev::MemoryCache>(backend_->pool_of(*state->execution->physical),
                                         state->execution->physical, std::move(memory));
  if (state->execution->queue->runs_ahead())
    sched::HardwareQueue::give(*state->timeline, state->execution->queue);
  std::erase_if(backend_->devices, [](const rt::BackendState::Opened& device) {
    return device.execution.expired() && device.timeline.expired();
  });
  backend_->devices.push_back({state->execution, sched::DeviceCore::of(*state->timeline)});
  ++backend_->opened[ordinal];
  return Inside::make<Device>(std::move(state));
}

}  // namespace heddle
