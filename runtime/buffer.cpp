// Buffers: memory, its holders, views.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "jit/value/element.hpp"
#include "runtime/buffer_state.hpp"
#include "runtime/device_state.hpp"
#include "runtime/execution.hpp"
#include "runtime/submit.hpp"
#include "runtime/transfer.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::rt {

Memory::~Memory() {
  if (gone_ || !block_) return;
  std::erase_if(block_->last_uses,
                [](const Event& use) { return sched::Timeline::has_ended(use); });
  cache_->release(block_);
}

std::span<const Event> Memory::former_uses() const noexcept {
  return block_ ? std::span<const Event>(block_->last_uses) : std::span<const Event>();
}

void Memory::let_go(const Hazards& uses) const noexcept {
  gone_ = true;
  if (!block_) return;
  block_->last_uses.clear();
  try {
    uses.add_under_way(block_->last_uses, cache_->timeline());
  } catch (const std::bad_alloc&) {
    return cache_->forget(block_);
  }
  cache_->release(block_);
}

BufferState::BufferState(std::shared_ptr<const Memory> block,
                         std::shared_ptr<dev::PhysicalDevice> physical_device,
                         std::shared_ptr<const std::string> device_name,
                         std::shared_ptr<Ledger> guard, Hazards former)
    : physical(std::move(physical_device)),
      device(std::move(device_name)),
      data(static_cast<std::byte*>(block->data)),
      bytes(block->bytes),
      borrowed(block->host.has_value()),
      ledger(std::move(guard)),
      memory(std::move(block)),
      hazards_(std::move(former)) {}

BufferState::BufferState(std::shared_ptr<dev::PhysicalDevice> physical_device,
                         std::shared_ptr<const std::string> device_name,
                         std::shared_ptr<Ledger> guard)
    : physical(std::move(physical_device)),
      device(std::move(device_name)),
      ledger(std::move(guard)) {}

BufferState::~BufferState() { end(); }

void BufferState::begin(std::shared_ptr<const Memory> given) {
  data = static_cast<std::byte*>(given->data);
  bytes = given->bytes;
  hazards_.begin_after(given->former_uses(), {0, bytes}, given->timeline());
  memory = std::move(given);
}

void BufferState::begin_promised(std::shared_ptr<const BufferState> giver) noexcept {
  data = giver->data;
  bytes = giver->bytes;
  giver_ = std::move(giver);
}

void BufferState::end() noexcept {
  if (memory && !ledger->is_inherited()) memory->let_go(hazards_);
  memory = nullptr;
  hazards_.clear();
  loans.clear();
  giver_ = nullptr;
  taken_by_.clear();
  // relaxed: nobody knows it any more.
  is_fresh.store(false, std::memory_order_relaxed);
}

BufferState::BufferState(std::shared_ptr<const BufferState> giver, std::string promise)
    : physical(giver->physical),
      device(giver->device),
      data(giver->data),
      bytes(giver->bytes),
      borrowed(false),
      ledger(giver->ledger),
      giver_(std::move(giver)),
      promise_(std::move(promise)) {}

std::string BufferState::absence() const {
  if (is_promised()) return promise_;
  if (!taken_by_.empty() && taken_at_.line() == 0) return "was donated: " + taken_by_;
  return fmt::format(
      "was donated: taken in '{}' ({}:{}); use {}", taken_at_.function_name(),
      taken_at_.file_name(), taken_at_.line(),
      taken_by_.empty() ? "the buffer that donate() gave there" : taken_by_ + ", which has it now");
}

bool ended_well(const Event& event) noexcept {
  return sched::Timeline::has_ended(event) && sched::Timeline::outcome_of(event).ok();
}

namespace {

/// Under the lock.
void require_unpinned(const BufferState& buffer, const std::source_location& where) {
  if (buffer.pins == 0) return;
  throw Error(
      ErrorCode::failed_precondition,
      fmt::format("a buffer of {} bytes on {} cannot be donated in '{}' ({}:{}) while another "
                  "thread submits a replay that uses it; donate it before Replay::run(), or "
                  "after it returned",
                  buffer.bytes, *buffer.device, where.function_name(), where.file_name(),
                  where.line()));
}

}  // namespace

std::shared_ptr<BufferState> BufferState::donate(std::source_location where) {
  const std::lock_guard lock(*ledger);
  throw_if_failed(whole(*ledger));
  if (!memory) {
    throw Error(ErrorCode::failed_precondition,
                fmt::format("a buffer of {} bytes on {} cannot be donated: it {}", bytes, *device,
                            absence()));
  }
  require_unpinned(*this, where);
  auto next = next_owner();
  memory = nullptr;
  taken_at_ = where;
  taken_by_.clear();
  return next;
}

void BufferState::prepare_hand_over(std::string_view taker, const std::source_location& where) {
  require_unpinned(*this, where);
  taken_by_ = taker;
}

void BufferState::hand_over(BufferState& to, const std::source_location& where) noexcept {
  to.memory = std::exchange(memory, nullptr);
  to.giver_ = nullptr;               // the launch has it, too
  std::swap(to.hazards_, hazards_);  // so that each keeps room for some
  to.hazards_.be_former();
  hazards_.clear();
  taken_at_ = where;
}

std::shared_ptr<BufferState> BufferState::next_owner() const {
  auto next =
      std::make_shared<BufferState>(memory, physical, device, ledger, hazards_.of_next_owner());
  next->constant = constant;
  next->constant_id = constant_id;
  // relaxed: the ledger is locked.
  next->is_fresh.store(is_fresh.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return next;
}

dev::BlockRef allocate_block(const Execution& execution, std::size_t bytes,
                             const dev::Holder& holder, dev::LastUses may_have) {
  dev::BlockRef block;
  if (Status status = execution.memory->allocate(bytes, &block, holder, may_have); !status.ok()) {
    throw Error(status.code(),
                fmt::format("no memory on {} for {}: {} bytes ({} in use)", execution.name,
                            holder.second, bytes, execution.memory->use().in_use),
                status);
  }
  return block;
}

std::shared_ptr<const Memory> allocate_memory(const Execution& execution, std::size_t bytes,
                                              const std::string& what, std::uint64_t tensor,
                                              dev::LastUses may_have) {
  dev::BlockRef block = allocate_block(execution, bytes, {tensor, what}, may_have);
  try {
    return std::make_shared<Memory>(execution.memory, block, bytes);
  } catch (...) {
    execution.memory->release(std::move(block));
    throw;
  }
}

std::shared_ptr<BufferState> allocate(const Execution& execution, std::size_t bytes,
                                      const std::string& what, std::uint64_t tensor,
                                      dev::LastUses may_have) {
  auto memory = allocate_memory(execution, bytes, what, tensor, may_have);
  Hazards hazards;
  hazards.reserve();  // the first use of it, too, may be a plain one
  hazards.begin_after(memory->former_uses(), {0, bytes});
  return std::make_shared<BufferState>(std::move(memory), execution.physical, execution.shared_name,
                                       execution.ledger, std::move(hazards));
}

std::shared_ptr<BufferState> borrow(const Execution& execution, const HostArray& host) {
  return std::make_shared<BufferState>(std::make_shared<Memory>(host), execution.physical,
                                       execution.shared_name, execution.ledger);
}

bool reaches(const Execution& execution, const BufferState& buffer) noexcept {
  return buffer.physical->properties().memory_space ==
         execution.physical->properties().memory_space;
}

void require_reach(const BufferView& view, const Execution& execution) {
  if (reaches(execution, *Inside::of(view.buffer()))) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} is in memory that {} cannot address; copy it to a buffer of that "
                          "device with BufferView::copy_from",
                          view.to_string(), execution.name));
}

void require_writable(const BufferView& view) {
  const std::string& constant = Inside::of(view.buffer())->constant;
  if (constant.empty()) return;
  throw Error(ErrorCode::failed_precondition,
              fmt::format("{} cannot be written: it holds {}, whose host storage devices may be "
                          "reading in place; give it mode hosted(nonconstant) to change it",
                          view.to_string(), constant));
}

}  // namespace heddle::rt

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
