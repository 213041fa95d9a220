// Buffers: memory, views, and moving bytes.
#include <fmt/format.h>

#include <new>

#include "heddle/status.hpp"
#include "runtime/device_state.hpp"

namespace heddle::rt {

BufferState::~BufferState() {
  if (pool && data != nullptr) pool->release(data);
}

void* BufferState::address() const noexcept {
  const std::lock_guard lock(mutex);
  return data;
}

std::shared_ptr<BufferState> allocate(const Execution& execution, std::size_t bytes,
                                      const std::string& what, std::uint64_t tensor) {
  auto buffer = std::make_shared<BufferState>();
  if (Status status = execution.pool->allocate(bytes, &buffer->data, {tensor, what});
      !status.ok()) {
    throw Error(status.code(),
                fmt::format("no memory on {} for {}: {} bytes ({} in use)", execution.name, what,
                            bytes, execution.pool->use().in_use),
                status);
  }
  buffer->pool = execution.pool;
  buffer->physical = execution.physical;
  buffer->bytes = bytes;
  return buffer;
}

Event require_accepted(Event event) {
  if (!event.accepted()) throw Error(event.status());
  return event;
}

void require_reach(const BufferView& view, const Execution& execution) {
  const dev::Properties& owner = view.buffer().state()->physical->properties();
  if (owner.memory_space == execution.physical->properties().memory_space) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} is in memory that {} cannot address; copy it to a buffer of that "
                          "device with BufferView::copy_from",
                          view.to_string(), execution.name));
}

void require_writable(const BufferView& view) {
  const std::string& constant = view.buffer().state()->constant;
  if (constant.empty()) return;
  throw Error(ErrorCode::failed_precondition,
              fmt::format("{} cannot be written: it holds {}, whose host storage devices may be "
                          "reading in place; give it mode hosted(nonconstant) to change it",
                          view.to_string(), constant));
}

namespace {
Status donated() {
  return Status(ErrorCode::failed_precondition,
                "the memory of a buffer was donated before the task that uses it ran");
}
}  // namespace

void zero_fill(const DeviceState& device, const std::shared_ptr<BufferState>& buffer) {
  if (buffer->bytes == 0) return;
  require_accepted(
      device.timeline->submit("zero", [execution = device.execution, buffer]() -> Status {
        return execution->queue->zero(buffer->address(), buffer->bytes);
      }));
}

Event submit_from_host(const sched::Device& timeline, const std::shared_ptr<Execution>& execution,
                       const BufferView& view, HostMemory host,
                       const sched::SubmitOptions& options) {
  const auto task = [execution, view, host = std::move(host)]() -> Status {
    if (host.bytes == 0) return {};
    auto* const data = static_cast<std::byte*>(view.buffer().state()->address());
    if (data == nullptr) return donated();
    Status status = execution->queue->from_host(data + view.offset(), host.data, host.bytes);
    return status.ok() ? execution->queue->synchronize() : status;
  };
  return require_accepted(timeline.submit("from_host", task, options));
}

Event submit_to_host(const sched::Device& timeline, const std::shared_ptr<Execution>& execution,
                     const BufferView& view, HostMemory host, const sched::SubmitOptions& options) {
  const auto task = [execution, view, host = std::move(host)]() -> Status {
    if (host.bytes == 0) return {};
    const auto* const data = static_cast<const std::byte*>(view.buffer().state()->address());
    if (data == nullptr) return donated();
    Status status = execution->queue->to_host(host.data, data + view.offset(), host.bytes);
    return status.ok() ? execution->queue->synchronize() : status;
  };
  return require_accepted(timeline.submit("to_host", task, options));
}

Route route(const BufferState& from, const BufferState& to) noexcept {
  if (&from == &to) return Route::same_buffer;
  return from.physical->properties().memory_space == to.physical->properties().memory_space
             ? Route::same_space
             : Route::staged;
}

Status copy_bytes(dev::Queue& queue, const BufferState& to, std::size_t to_offset,
                  const BufferState& from, std::size_t from_offset, std::size_t bytes) noexcept {
  auto* const target = static_cast<std::byte*>(to.address());
  const auto* const source = static_cast<const std::byte*>(from.address());
  if (bytes == 0) return {};
  if (target == nullptr || source == nullptr) return donated();
  if (route(from, to) != Route::staged)
    return queue.copy(target + to_offset, source + from_offset, bytes);
  try {
    const auto source_queue = from.physical->new_queue();
    const auto stage = std::make_unique<std::byte[]>(bytes);
    Status status = source_queue->to_host(stage.get(), source + from_offset, bytes);
    if (status.ok()) status = source_queue->synchronize();
    if (status.ok()) status = queue.from_host(target + to_offset, stage.get(), bytes);
    if (status.ok()) status = queue.synchronize();  // before the stage goes
    return status;
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, fmt::format("no host memory to stage {} bytes", bytes));
  }
}

}  // namespace heddle::rt

namespace heddle {
namespace {

[[noreturn]] void refuse_donated(const rt::BufferState& buffer) {
  throw Error(ErrorCode::failed_precondition,
              fmt::format("buffer of {} bytes was donated; use the handle that donate() gave",
                          buffer.bytes));
}

void require_live(const BufferView& view) {
  if (!view.buffer().live()) refuse_donated(*view.buffer().state());
}

void require_bytes(const BufferView& view, const Device& device, std::size_t host_bytes) {
  require_live(view);
  rt::require_reach(view, *device.state()->execution);
  if (host_bytes != view.num_bytes()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("host memory of {} bytes for {} (expected {} bytes)", host_bytes,
                            view.to_string(), view.num_bytes()));
  }
}

}  // namespace

Buffer Buffer::allocate(const Device& device, const ArrayType& type) {
  const auto bytes = type.num_bytes();
  if (!bytes) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("buffer {}: extents must be 0 or more and its bytes fit 63 bits",
                            type.to_string()));
  }
  const auto buffer = rt::allocate(*device.state()->execution, static_cast<std::size_t>(*bytes),
                                   "a buffer " + type.to_string());
  rt::zero_fill(*device.state(), buffer);
  return Buffer(buffer);
}

std::size_t Buffer::num_bytes() const noexcept { return state_->bytes; }

bool Buffer::live() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->live;
}

Buffer Buffer::donate() const {
  auto taken = std::make_shared<rt::BufferState>();
  taken->pool = state_->pool;
  taken->physical = state_->physical;
  taken->host = state_->host;
  taken->bytes = state_->bytes;
  taken->constant = state_->constant;
  const std::lock_guard lock(state_->mutex);
  if (!state_->live) refuse_donated(*state_);
  state_->live = false;
  taken->data = std::exchange(state_->data, nullptr);
  return Buffer(std::move(taken));
}

std::string Buffer::to_string() const {
  return fmt::format("buffer of {} bytes on {}{}", num_bytes(), state_->physical->properties().name,
                     live() ? "" : " (donated)");
}

BufferView::BufferView(Buffer buffer, ArrayType type, std::size_t offset)
    : buffer_(std::move(buffer)), type_(std::move(type)), offset_(offset) {
  const auto bytes = type_.num_bytes();
  const bool fits = bytes && offset_ % size_of(type_.dtype) == 0 &&
                    offset_ <= buffer_.num_bytes() &&
                    static_cast<std::size_t>(*bytes) <= buffer_.num_bytes() - offset_;
  if (!fits) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("view {} at byte {} does not fit a buffer of {} bytes (the offset must "
                            "be a multiple of {})",
                            type_.to_string(), offset_, buffer_.num_bytes(), size_of(type_.dtype)));
  }
}

Event BufferView::from_host(const Device& device, std::span<const std::byte> host) const {
  require_bytes(*this, device, host.size());
  rt::require_writable(*this);
  // Only read: from_host tasks do not write host memory.
  auto* const data = const_cast<std::byte*>(host.data());
  return rt::submit_from_host(device.timeline(), device.state()->execution, *this,
                              {data, host.size(), nullptr});
}

Event BufferView::to_host(const Device& device, std::span<std::byte> host) const {
  require_bytes(*this, device, host.size());
  return rt::submit_to_host(device.timeline(), device.state()->execution, *this,
                            {host.data(), host.size(), nullptr});
}

Event BufferView::copy_from(const Device& device, const BufferView& source) const {
  require_live(*this);
  require_live(source);
  rt::require_writable(*this);
  if (source.type() != type_) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("copy of {} into {}: the types must be equal",
                            source.type().to_string(), type_.to_string()));
  }
  return rt::require_accepted(
      device.submit("copy", [execution = device.state()->execution, to = *this, from = source] {
        return rt::copy_bytes(*execution->queue, *to.buffer().state(), to.offset(),
                              *from.buffer().state(), from.offset(), to.num_bytes());
      }));
}

std::string BufferView::to_string() const {
  return fmt::format("view {} at byte {} of {}", type_.to_string(), offset_, buffer_.to_string());
}

}  // namespace heddle
