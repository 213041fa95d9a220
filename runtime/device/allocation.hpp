// Memory of a device for buffers, and which memory a device reaches. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "devices/memory_cache.hpp"
#include "runtime/memory/buffer_state.hpp"

namespace heddle::rt {

struct Execution;

/// Throws invalid_argument when the device cannot address the view: memory of another space.
void require_reach(const BufferView& view, const Execution& execution);
[[nodiscard]] bool reaches(const Execution& execution, const BufferState& buffer) noexcept;

/// A block for that holder, or none for 0 bytes. Throws as allocate_memory().
[[nodiscard]] dev::BlockRef allocate_block(const Execution& execution, std::size_t bytes,
                                           const dev::Holder& holder,
                                           dev::LastUses may_have = dev::LastUses::ordered);
/// Contents undefined. Throws exhausted, naming `what`, the bytes, what bounds them and the largest
/// holders. `tensor`: the id of the one that it is for. Tasks of the device come after what used it
/// before; others that touch it do not, but where it `may_have` no such uses.
[[nodiscard]] std::shared_ptr<const Memory> allocate_memory(
    const Execution& execution, std::size_t bytes, const std::string& what,
    std::uint64_t tensor = 0, dev::LastUses may_have = dev::LastUses::ordered);
/// All that uses the buffer comes after that.
[[nodiscard]] std::shared_ptr<BufferState> allocate(
    const Execution& execution, std::size_t bytes, const std::string& what,
    std::uint64_t tensor = 0, dev::LastUses may_have = dev::LastUses::ordered);
/// A buffer of the array's own memory, for a device that shares it.
[[nodiscard]] std::shared_ptr<BufferState> borrow(const Execution& execution,
                                                  const HostArray& host);

}  // namespace heddle::rt
