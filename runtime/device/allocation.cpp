// See runtime/device/allocation.hpp.
#include "runtime/device/allocation.hpp"

#include <fmt/format.h>

#include <utility>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/execution.hpp"

namespace heddle::rt {

dev::BlockRef allocate_block(const Execution& execution, std::size_t bytes,
                             const dev::Holder& holder, dev::LastUses may_have) {
  dev::BlockRef block = execution.memory->take_at_hand(bytes, holder, may_have);
  if (block) [[likely]]
    return block;
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
  hazards.reserve();  // enables the fast path for the first use
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

}  // namespace heddle::rt
