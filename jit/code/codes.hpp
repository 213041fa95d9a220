// Codes: what one compiler made of programs, as long as somebody holds it, found by program_key()
// before anything is lowered. Any thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "jit/cache/key.hpp"
#include "jit/code/core.hpp"

namespace heddle::jit {

class Codes {
 public:
  /// Null: nobody holds one.
  [[nodiscard]] std::shared_ptr<const Core> find(const CompileKey& key) const;
  /// The one that others find from here on: `made`, or what another thread made meanwhile.
  [[nodiscard]] std::shared_ptr<const Core> adopt(const CompileKey& key,
                                                  const std::shared_ptr<const Core>& made);

 private:
  mutable std::mutex mutex_;
  std::map<CompileKey, std::weak_ptr<const Core>> cores_;  // guarded by mutex_
  std::size_t sweep_at_ = 64;                              // guarded by mutex_
};

}  // namespace heddle::jit
