// Device and PhysicalDevice handles.
#include <fmt/format.h>

#include "heddle/status.hpp"
#include "runtime/backend_state.hpp"

namespace heddle {

const std::string& Device::name() const noexcept { return state_->execution->name; }
int Device::ordinal() const noexcept { return state_->ordinal; }
int Device::subordinal() const noexcept { return state_->subordinal; }
std::string Device::backend() const { return state_->backend->spec.name; }
const sched::Device& Device::timeline() const noexcept { return *state_->timeline; }

void Device::await() const { throw_if_failed(timeline().await()); }
void Device::recover() const { throw_if_failed(timeline().recover()); }
void Device::finalize(std::chrono::nanoseconds timeout) const {
  throw_if_failed(timeline().shutdown(timeout));
}

DeviceStatistics Device::statistics() const noexcept {
  const rt::Execution& execution = *state_->execution;
  const dev::MemoryUse memory = execution.pool->use();
  // relaxed: numbers for people; they pair with the counts in tasks.
  constexpr auto order = std::memory_order_relaxed;
  return {memory.in_use,
          memory.peak,
          memory.cached,
          execution.launches.load(order),
          execution.copies.load(order),
          execution.merges_copied.load(order),
          execution.merges_streamed.load(order)};
}

std::vector<TensorMemory> Device::memory() const {
  std::vector<TensorMemory> result;
  for (dev::MemoryHolder& holder : state_->execution->pool->holders())
    result.push_back({std::move(holder.label), holder.in_use, holder.peak});
  return result;
}

std::string Device::to_string() const {
  const DeviceStatistics s = statistics();
  return fmt::format(
      "device {}: {} launches, {} copies, {} merges copied, {} streamed, {} bytes in use (peak {})",
      name(), s.launches, s.copies, s.merges_copied, s.merges_streamed, s.bytes_in_use,
      s.bytes_peak);
}

std::string PhysicalDevice::name() const {
  return fmt::format("{}:{}", backend_->spec.name, ordinal_);
}

Device PhysicalDevice::new_virtual_device() const {
  const std::lock_guard lock(backend_->mutex);
  if (backend_->finalized) {
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
  state->execution->physical = backend_->physical[ordinal];
  state->execution->queue = state->execution->physical->new_queue();
  dev::MemoryPoolOptions memory{state->execution->name, {}};
  if (const auto most = backend_->options.bytes_max)
    memory.own = {*most, "BackendOptions::bytes_max or HEDDLE_BYTES_MAX"};
  state->execution->pool =
      std::make_shared<dev::MemoryPool>(state->execution->physical, std::move(memory));
  sched::DeviceOptions options;
  options.name = state->execution->name;
  options.mode = backend_->spec.mode;
  options.spin = backend_->options.spin;
  options.capacity = backend_->options.queue_size.value_or(options.capacity);
  state->timeline.emplace(backend_->scheduler.new_device(std::move(options)));
  ++backend_->opened[ordinal];
  return Device(std::move(state));
}

}  // namespace heddle
