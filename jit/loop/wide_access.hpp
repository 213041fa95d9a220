// Neighbouring elements that the iterations of a lanes loop access, as a GPU's thread accesses
// them: in one piece of at most 16 bytes. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The most bytes that a thread loads or stores at once.
inline constexpr std::int64_t wide_bytes_max = 16;

/// Elements from `first` on, one for each iteration of a lanes loop. Their bytes are a power of
/// two, which divides the distance of `first` from the start of the buffer or the local block.
struct WideAccess {
  bool in_block = false;  ///< of local block `id`; otherwise of buffer `id`
  std::uint32_t id = 0;
  DType type = DType::f32;
  Affine first;  ///< offset in elements
  bool loads = false, stores = false;
  /// `first` in pieces of `count` elements: the number of iterations of the loop.
  [[nodiscard]] Affine piece(std::int64_t count) const;
  /// True if the access covers the element at `offset`, for one iteration of the loop.
  [[nodiscard]] bool covers(bool of_block, std::uint32_t of, const Affine& offset,
                            std::int64_t count) const;
};

/// The type of a local block in addressable memory, or null for any other local.
using BlockTypes = std::function<const ArrayType*(LocalId)>;

/// The wide accesses of a lanes loop from 0 on that obeys its mark. Loads may run before all
/// statements of the loop, and stores after all: a buffer or a block that the loop writes has one
/// wide access, which covers each element that the loop touches there, or none.
[[nodiscard]] std::vector<WideAccess> wide_accesses(const std::vector<BufferDecl>& buffers,
                                                    const Stmt& lanes, const BlockTypes& blocks);

}  // namespace heddle::jit
