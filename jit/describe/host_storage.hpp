// HostStorage: the state shared by the copies of a HostArray. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <source_location>
#include <utility>

namespace heddle::jit {

struct HostStorage {
  explicit HostStorage(std::shared_ptr<void> block) : memory(std::move(block)) {}

  const std::shared_ptr<void> memory;
  std::shared_ptr<void> uses;  ///< the runtime's record of uses; null: none so far
  /// the host has reported a write that the runtime has not seen yet
  std::atomic<bool> written{false};
  /// Called where the host reads or writes the array; null: no listener.
  using Look = void (*)(HostStorage& storage, bool writes,
                        const std::source_location& where) noexcept;
  std::atomic<Look> look{nullptr};
};

}  // namespace heddle::jit
