// See code/codes.hpp.
#include "jit/code/codes.hpp"

#include <algorithm>

namespace heddle::jit {

std::shared_ptr<const Core> Codes::find(const CompileKey& key) const {
  const std::scoped_lock lock(mutex_);
  const auto at = cores_.find(key);
  return at == cores_.end() ? nullptr : at->second.lock();
}

std::shared_ptr<const Core> Codes::adopt(const CompileKey& key,
                                         const std::shared_ptr<const Core>& made) {
  const std::scoped_lock lock(mutex_);
  if (cores_.size() >= sweep_at_) {  // removes expired entries from time to time
    std::erase_if(cores_, [](const auto& item) { return item.second.expired(); });
    sweep_at_ = std::max(sweep_at_, 2 * cores_.size());
  }
  std::weak_ptr<const Core>& known = cores_[key];
  if (auto core = known.lock()) return core;
  known = made;
  return made;
}

}  // namespace heddle::jit
