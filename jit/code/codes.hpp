// Codes: the cores made by one compiler, while any code uses them, found by program_key() before
// lowering. Any thread.
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
  /// Null where no code uses such a core.
  [[nodiscard]] std::shared_ptr<const Core> find(const CompileKey& key) const;
  /// Publishes `made`, unless a different thread published a core meanwhile; returns the published
  /// core.
  [[nodiscard]] std::shared_ptr<const Core> adopt(const CompileKey& key,
                                                  const std::shared_ptr<const Core>& made);

 private:
  mutable std::mutex mutex_;
  std::map<CompileKey, std::weak_ptr<const Core>> cores_;  // guarded by mutex_
  std::size_t sweep_at_ = 64;                              // guarded by mutex_
};

}  // namespace heddle::jit
