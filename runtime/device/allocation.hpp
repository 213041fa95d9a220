// Allocates a device's memory for buffers, and checks a device's reach. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "devices/memory_cache.hpp"
#include "runtime/memory/buffer_state.hpp"

namespace heddle::rt {

struct Execution;

/// Throws invalid_argument if the device cannot address the view's memory space.
void require_reach(const BufferView& view, const Execution& execution);
[[nodiscard]] bool reaches(const Execution& execution, const BufferState& buffer) noexcept;

/// A block for `holder`, or null for 0 bytes. Throws like allocate_memory().
[[nodiscard]] dev::BlockRef allocate_block(const Execution& execution, std::size_t bytes,
                                           const dev::Holder& holder,
                                           dev::LastUses may_have = dev::LastUses::ordered);
/// Memory with undefined contents. Throws exhausted, naming `what`, the bytes, the bound in effect
/// and the largest holders. `tensor`: id of the tensor that gets the memory. Tasks of the device
/// run after the block's former uses. Users on other devices are not ordered, unless `may_have`
/// excludes uses in progress.
[[nodiscard]] std::shared_ptr<const Memory> allocate_memory(
    const Execution& execution, std::size_t bytes, const std::string& what,
    std::uint64_t tensor = 0, dev::LastUses may_have = dev::LastUses::ordered);
/// A buffer with new memory; every use of the buffer is ordered after the block's former uses.
[[nodiscard]] std::shared_ptr<BufferState> allocate(
    const Execution& execution, std::size_t bytes, const std::string& what,
    std::uint64_t tensor = 0, dev::LastUses may_have = dev::LastUses::ordered);
/// A buffer in the array's host memory, for a device that shares host memory.
[[nodiscard]] std::shared_ptr<BufferState> borrow(const Execution& execution,
                                                  const HostArray& host);

}  // namespace heddle::rt
