// What copies of a HostArray share. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace heddle::jit {

struct HostStorage {
  explicit HostStorage(std::shared_ptr<void> block) : memory(std::move(block)) {}

  const std::shared_ptr<void> memory;
  std::mutex mutex;                  // guards what follows
  std::shared_ptr<void> uses;        ///< what the runtime knows of its uses; null: of none so far
  std::atomic<bool> written{false};  ///< the host says so, and the runtime has not looked since
};

}  // namespace heddle::jit
