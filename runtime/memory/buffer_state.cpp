// See runtime/memory/buffer_state.hpp.
#include "runtime/memory/buffer_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::rt {

Memory::~Memory() {
  if (gone_ || !block_) return;
  if (!has_last_uses_) {
    std::erase_if(block_->last_uses,
                  [](const Event& use) { return sched::Timeline::has_ended(use); });
  }
  cache_->release(std::move(block_));
}

std::span<const Event> Memory::former_uses() const noexcept {
  return block_ ? std::span<const Event>(block_->last_uses) : std::span<const Event>();
}

void Memory::let_go(const Hazards& uses, bool alone) const noexcept {
  if (!block_) return;
  block_->last_uses.clear();
  try {
    uses.add_under_way(block_->last_uses, cache_->ends_at_once() ? 0 : cache_->timeline());
  } catch (const std::bad_alloc&) {
    gone_ = true;
    return cache_->forget(block_);
  }
  has_last_uses_ = true;
  if (alone) return;
  gone_ = true;
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
  if (memory && !ledger->is_inherited()) memory->let_go(hazards_, memory.use_count() == 1);
  memory = nullptr;
  hazards_.clear();
  loans.clear();
  giver_ = nullptr;
  taken_by_.clear();
  // relaxed: the buffer is not shared any more.
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

bool ranges_overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b,
                    std::size_t b_bytes) noexcept {
  const std::less<> before;
  return a_bytes != 0 && b_bytes != 0 && before(a, b + b_bytes) && before(b, a + a_bytes);
}

namespace {

/// Under the lock. Throws failed_precondition if the buffer is pinned.
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
  to.giver_ = nullptr;               // the launch holds the giver, too
  std::swap(to.hazards_, hazards_);  // a swap, so both lists keep capacity
  to.hazards_.be_former();
  hazards_.clear();
  taken_at_ = where;
}

std::shared_ptr<BufferState> BufferState::next_owner() const {
  auto next =
      std::make_shared<BufferState>(memory, physical, device, ledger, hazards_.of_next_owner());
  next->constant = constant;
  next->constant_id = constant_id;
  // relaxed: the ledger is locked, and orders every store under it.
  next->is_fresh.store(is_fresh.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return next;
}

bool overlap(const BufferView& a, const BufferView& b) noexcept {
  const BufferState& one = *Inside::of(a.buffer());
  const BufferState& other = *Inside::of(b.buffer());
  return one.physical->properties().memory_space == other.physical->properties().memory_space &&
         ranges_overlap(one.data + a.offset(), a.num_bytes(), other.data + b.offset(),
                        b.num_bytes());
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
