// See runtime/executor/result_cells.hpp.
#include "runtime/executor/result_cells.hpp"

#include <mutex>
#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/device/inherited_uses.hpp"

namespace heddle::rt {
namespace {

struct EndBuffer {
  void operator()(BufferState* buffer) const noexcept { buffer->end(); }
};

}  // namespace

void ResultCell::make_buffer(const Execution& execution) {
  if (buffer_) return;
  buffer_.emplace(execution.physical, execution.shared_name, execution.ledger);
  buffer_->hazards().reserve();
}

std::shared_ptr<ArrayState> ResultCell::begin(const Device& device, const ArrayType& type,
                                              dev::BlockRef block, std::size_t bytes) {
  const Execution& execution = *Inside::of(device)->execution;
  // relaxed: no other thread has a part yet.
  left_.store(parts, std::memory_order_relaxed);
  auto memory = std::allocate_shared<const Memory>(
      Allocator<Memory>(*this, memory_part),
      std::shared_ptr<dev::MemoryCache>(std::shared_ptr<void>(), of_.memory_.get()),  // of the pool
      std::move(block), bytes);
  std::size_t begun = 1;
  try {
    make_buffer(execution);
    buffer_->begin(std::move(memory));
    return begin_handles(device, type, begun);
  } catch (...) {
    if (buffer_) buffer_->hazards().clear();
    for (; begun < parts; ++begun) end_part(begun);
    throw;
  }
}

std::shared_ptr<ArrayState> ResultCell::begin_promised(const Device& device, const ArrayType& type,
                                                       std::shared_ptr<const BufferState> giver) {
  // relaxed: no other thread has a part yet.
  left_.store(parts - 1, std::memory_order_relaxed);  // the memory is the giver's
  std::size_t begun = 1;
  try {
    make_buffer(*Inside::of(device)->execution);
    buffer_->begin_promised(std::move(giver));
    return begin_handles(device, type, begun);
  } catch (...) {
    for (; begun < parts; ++begun) end_part(begun);
    throw;
  }
}

/// Starts two of the parts: the buffer and the array.
std::shared_ptr<ArrayState> ResultCell::begin_handles(const Device& device, const ArrayType& type,
                                                      std::size_t& begun) {
  std::shared_ptr<BufferState> buffer(&*buffer_, EndBuffer(), Allocator<char>(*this, buffer_part));
  begun = 2;
  if (!array_) {
    array_.emplace(
        ArrayState{device, BufferView(Inside::make<Buffer>(std::move(buffer)), type), Event()});
  } else {
    array_->device = device;
    Inside::rebind(array_->view, std::move(buffer));
  }
  return {&*array_, EndArray{this}, Allocator<char>(*this, array_part)};
}

/// Drops the device, as a task may keep the memory, and with the memory the cell: a task must never
/// hold the device that runs the task.
void ResultCell::end_array() noexcept {
  // relaxed, twice: pairs with the load in end_part(), which looks for its own thread's number.
  ends_array_.store(sched::thread_number(), std::memory_order_relaxed);
  Inside::rebind(array_->view, std::shared_ptr<BufferState>());
  ends_array_.store(sched::no_thread_number, std::memory_order_relaxed);
  array_->device = Inside::make<Device>(std::shared_ptr<DeviceState>());
}

void ResultCell::end_part(std::size_t part) noexcept {
  if (part != array_part) {
    // relaxed: only the calling thread writes its number.
    const std::uint64_t ends_array = ends_array_.load(std::memory_order_relaxed);
    if (ends_array != sched::no_thread_number && ends_array == sched::known_thread_number()) {
      ++ended_with_array_;
      return;
    }
  }
  const std::uint32_t ended = part == array_part ? 1 + std::exchange(ended_with_array_, 0) : 1;
  // acq_rel: pairs with itself: uses of the parts come before the reuse of the cell. acquire: pairs
  // with that release, where the caller has the last parts.
  if (left_.load(std::memory_order_acquire) != ended &&
      left_.fetch_sub(ended, std::memory_order_acq_rel) != ended)
    return;
  of_.give(*this);
}

void ResultCells::LetGo::operator()(ResultCells* cells) const noexcept {
  {
    const std::lock_guard lock(cells->mutex_);
    cells->is_over_ = true;
  }
  if (is_torn(cells->mutex_, cells->cells_)) return;
  if (cells->cells_.let_go()) delete cells;
}

ResultCell& ResultCells::take() {
  const std::lock_guard lock(mutex_);
  mutex_.claim();
  if (ours_ == nullptr) ours_ = given_.take_all();
  ResultCell* const cell = ours_ != nullptr ? ours_ : new ResultCell(*this);
  if (ours_ != nullptr) ours_ = cell->next;
  cells_.begin();
  return *cell;
}

/// The thread that takes the cells keeps them without a locked access.
void ResultCells::give(ResultCell& cell) noexcept {
  if (mutex_.try_lock_alone()) {
    const std::lock_guard lock(mutex_, std::adopt_lock);
    if (!is_over_) {
      cell.next = ours_;
      ours_ = &cell;
      cells_.take_back();
      return;
    }
  }
  given_.push(cell);
  if (cells_.end(sched::thread_number())) delete this;
}

ResultCells::~ResultCells() {
  for (ResultCell* cell = given_.take_all(); cell != nullptr;)
    delete std::exchange(cell, cell->next);
  for (ResultCell* cell = ours_; cell != nullptr;) delete std::exchange(cell, cell->next);
}

}  // namespace heddle::rt
