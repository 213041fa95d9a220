// Member functions of Buffer and BufferView. Any thread.
#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <utility>

#include "heddle/device.hpp"
#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "jit/value/element.hpp"
#include "runtime/device/allocation.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "runtime/transfer/transfer.hpp"

namespace heddle {
namespace {

void require_bytes(const BufferView& view, const Device& device, std::size_t host_bytes) {
  rt::require_reach(view, *Inside::of(device)->execution);
  if (host_bytes != view.num_bytes()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("host memory of {} bytes for {} (expected {} bytes)", host_bytes,
                            view.to_string(), view.num_bytes()));
  }
}

}  // namespace

Buffer Buffer::allocate(const Device& device, const ArrayType& type) {
  rt::require_open(*Inside::of(device));
  jit::require_dtype("buffer", type.dtype);
  const auto bytes = type.num_bytes();
  if (!bytes) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("buffer {}: extents must be 0 or more and its bytes fit 63 bits",
                            type.to_string()));
  }
  return Inside::make<Buffer>(rt::allocate_zeros(
      *Inside::of(device), static_cast<std::size_t>(*bytes), "a buffer " + type.to_string()));
}

std::size_t Buffer::num_bytes() const noexcept { return state_->bytes; }

bool Buffer::live() const noexcept {
  const std::lock_guard lock(*state_->ledger);
  return state_->memory != nullptr;
}

Buffer Buffer::donate(std::source_location where) const {
  return Inside::make<Buffer>(state_->donate(where));
}

std::string Buffer::to_string() const {
  const std::lock_guard lock(*state_->ledger);
  return fmt::format("buffer of {} bytes on {}{}", num_bytes(), *state_->device,
                     state_->memory != nullptr ? ""
                     : state_->is_promised()   ? " (not given yet)"
                                               : " (donated)");
}

BufferView::BufferView(Buffer buffer, ArrayType type, std::size_t offset)
    : buffer_(std::move(buffer)), type_(std::move(type)), offset_(offset) {
  jit::require_dtype("view", type_.dtype);
  const auto bytes = type_.num_bytes();
  const auto refuse = [&](std::string_view why) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("view {} at byte {} of a buffer: {}", type_.to_string(), offset_, why));
  };
  if (!bytes) refuse("extents must be 0 or more and its bytes fit 63 bits");
  if (offset_ % size_of(type_.dtype) != 0)
    refuse(fmt::format("the offset must be a multiple of {}", size_of(type_.dtype)));
  if (offset_ > buffer_.num_bytes() ||
      static_cast<std::size_t>(*bytes) > buffer_.num_bytes() - offset_)
    refuse(fmt::format("it does not fit its {} bytes", buffer_.num_bytes()));
}

Event BufferView::from_host(const Device& device, std::span<const std::byte> host,
                            std::source_location where) const {
  require_bytes(*this, device, host.size());
  rt::require_writable(*this);
  // Only read: from_host tasks do not write host memory.
  auto* const data = const_cast<std::byte*>(host.data());
  return rt::submit_from_host(*Inside::of(device), *this, {data, host.size(), nullptr}, nullptr,
                              rt::without_events(where));
}

Event BufferView::to_host(const Device& device, std::span<std::byte> host,
                          std::source_location where) const {
  require_bytes(*this, device, host.size());
  return rt::submit_to_host(*Inside::of(device), *this, {host.data(), host.size(), nullptr},
                            nullptr, rt::without_events(where));
}

Event BufferView::copy_from(const Device& device, const BufferView& source,
                            std::source_location where) const {
  rt::require_writable(*this);
  if (source.type() != type_) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("copy of {} into {}: the types must be equal",
                            source.type().to_string(), type_.to_string()));
  }
  return rt::submit_copy(*Inside::of(device), source, *this, nullptr, rt::without_events(where));
}

std::string BufferView::to_string() const {
  return fmt::format("view {} at byte {} of {}", type_.to_string(), offset_, buffer_.to_string());
}

}  // namespace heddle
