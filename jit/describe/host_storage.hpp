// What copies of a HostArray share. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <source_location>
#include <utility>

namespace heddle::jit {

struct HostStorage {
  explicit HostStorage(std::shared_ptr<void> block) : memory(std::move(block)) {}

  const std::shared_ptr<void> memory;
  std::shared_ptr<void> uses;        ///< what the runtime knows of its uses; null: of none so far
  std::atomic<bool> written{false};  ///< the host says so, and the runtime has not looked since
  /// Called where the host reads or writes it; null: nobody wants to know.
  using Look = void (*)(HostStorage& storage, bool writes,
                        const std::source_location& where) noexcept;
  std::atomic<Look> look{nullptr};
};

}  // namespace heddle::jit
