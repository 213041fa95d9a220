// See runtime/executor/result_cells.hpp.
#include "runtime/executor/result_cells.hpp"

#include <utility>

#include "jit/system/inside.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"

namespace heddle::rt {
namespace {

struct EndBuffer {
  void operator()(BufferState* buffer) const noexcept { buffer->end(); }
};
/// Drops the device, as a task may keep the memory, and with the memory the cell: a task must never
/// hold the device that runs the task.
struct EndArray {
  void operator()(ArrayState* array) const noexcept {
    Inside::rebind(array->view, std::shared_ptr<BufferState>());
    array->device = Inside::make<Device>(std::shared_ptr<DeviceState>());
    array->event = Event();
  }
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
  auto memory = std::allocate_shared<const Memory>(Allocator<Memory>(*this, 0), execution.memory,
                                                   std::move(block), bytes);
  std::size_t begun = 1;
  try {
    make_buffer(execution);
    buffer_->begin(std::move(memory));
    return begin_handles(device, type, begun);
  } catch (...) {
    if (buffer_) buffer_->hazards().clear();
    for (; begun < parts; ++begun) end_part();
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
    for (; begun < parts; ++begun) end_part();
    throw;
  }
}

/// Starts two of the parts: the buffer and the array.
std::shared_ptr<ArrayState> ResultCell::begin_handles(const Device& device, const ArrayType& type,
                                                      std::size_t& begun) {
  std::shared_ptr<BufferState> buffer(&*buffer_, EndBuffer(), Allocator<char>(*this, 1));
  begun = 2;
  if (!array_) {
    array_.emplace(
        ArrayState{device, BufferView(Inside::make<Buffer>(std::move(buffer)), type), Event()});
  } else {
    array_->device = device;
    Inside::rebind(array_->view, std::move(buffer));
  }
  return {&*array_, EndArray(), Allocator<char>(*this, 2)};
}

void ResultCell::end_part() noexcept {
  // acq_rel: pairs with itself: uses of the parts come before the reuse of the cell. acquire: pairs
  // with that release, where the caller has the last part.
  if (left_.load(std::memory_order_acquire) != 1 &&
      left_.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  ResultCells& cells = of_;
  cells.given_.push(*this);  // the cell may go with the pool
  if (cells.cells_.end()) delete &cells;
}

void ResultCells::LetGo::operator()(ResultCells* cells) const noexcept {
  if (cells->cells_.let_go()) delete cells;
}

ResultCell& ResultCells::take() {
  if (ours_ == nullptr) ours_ = given_.take_all();
  ResultCell* const cell = ours_ != nullptr ? ours_ : new ResultCell(*this);
  if (ours_ != nullptr) ours_ = cell->next;
  cells_.begin();
  return *cell;
}

void ResultCells::put_back(ResultCell& cell) noexcept {
  cell.next = ours_;
  ours_ = &cell;
  static_cast<void>(cells_.end());  // never the last, as the pool's owner calls
}

ResultCells::~ResultCells() {
  for (ResultCell* cell = given_.take_all(); cell != nullptr;)
    delete std::exchange(cell, cell->next);
  for (ResultCell* cell = ours_; cell != nullptr;) delete std::exchange(cell, cell->next);
}

}  // namespace heddle::rt
