// Size classes, bounds and accounting of device memory.
#include "devices/memory_pool.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>

namespace heddle::dev {
namespace {

constexpr std::size_t smallest = 64;
/// Holders that are remembered though they have nothing any more.
constexpr std::size_t holders_max = 1024;
/// More is refused by every device, and rounding it up would overflow.
constexpr std::size_t bytes_max = std::numeric_limits<std::size_t>::max() / 4;

std::size_t round_up(std::size_t bytes, std::size_t step) noexcept {
  return (bytes + step - 1) / step * step;
}

}  // namespace

MemoryPool::MemoryPool(std::shared_ptr<PhysicalDevice> device, MemoryPoolOptions options)
    : device_(std::move(device)), options_(std::move(options)), accounts_(accounts_of(*device_)) {
  if (options_.own.source)
    accounts_.push_back(std::make_shared<MemoryAccount>([own = options_.own] { return own; }));
  try {
    for (const auto& account : accounts_) account->join(*this);
  } catch (...) {
    leave();
    throw;
  }
}

MemoryPool::~MemoryPool() {
  leave();
  trim();
}

void MemoryPool::leave() noexcept {
  for (const auto& account : accounts_) account->leave(*this);
}

std::size_t MemoryPool::size_class(std::size_t bytes) noexcept {
  if (bytes <= smallest) return smallest;
  if (bytes > bytes_max) return bytes;
  return round_up(bytes, std::max(smallest, std::bit_ceil(bytes) / 8));
}

Status MemoryPool::allocate(std::size_t bytes, void** data, const Holder& holder) noexcept {
  *data = nullptr;
  if (bytes == 0) return {};
  try {
    return allocate_block(bytes, data, holder);
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, "no host memory to keep account of a block");
  }
}

Status MemoryPool::allocate_block(std::size_t bytes, void** data, const Holder& holder) {
  std::size_t size = size_class(bytes);
  *data = take_cached(size);
  if (*data == nullptr) {
    Status status = take_fresh(size, data);
    const std::size_t least = bytes > bytes_max ? bytes : round_up(bytes, smallest);
    if (!status.ok() && least < size) {
      size = least;
      status = take_fresh(size, data);
    }
    if (!status.ok()) return status;
  }
  try {
    note(*data, bytes, size, holder);
  } catch (...) {
    give_back(*data, size);
    *data = nullptr;
    throw;
  }
  return {};
}

void* MemoryPool::take_cached(std::size_t size) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = free_.find(size);
  if (at == free_.end() || at->second.empty()) return nullptr;
  void* const data = at->second.back();
  at->second.pop_back();
  use_.cached -= size;
  return data;
}

Status MemoryPool::take_fresh(std::size_t size, void** data) {
  const MemoryAccount* bound = take_from_accounts(size);
  if (bound != nullptr) {
    bound->trim();
    bound = take_from_accounts(size);
  }
  if (bound != nullptr) return Status(ErrorCode::exhausted, bound->refusal(size));
  Status status = device_->allocate(size, data);
  if (!status.ok()) {
    trim_all();
    status = device_->allocate(size, data);
  }
  if (status.ok()) return status;
  for (const auto& account : accounts_) account->give_back(size);
  // The host has no more, though the bounds would allow it: it helps to name the largest holders.
  if (status.code() != ErrorCode::exhausted || accounts_.empty()) return status;
  return Status(ErrorCode::exhausted, accounts_.front()->refusal(size), std::move(status));
}

/// The account that has no room; null when all have.
MemoryAccount* MemoryPool::take_from_accounts(std::size_t size) noexcept {
  for (auto at = accounts_.begin(); at != accounts_.end(); ++at) {
    if ((*at)->take(size)) continue;
    MemoryAccount* const bound = at->get();
    while (at != accounts_.begin()) (*--at)->give_back(size);
    return bound;
  }
  return nullptr;
}

void MemoryPool::trim_all() noexcept {
  trim();
  for (const auto& account : accounts_) account->trim();
}

void MemoryPool::give_back(void* data, std::size_t size) noexcept {
  device_->release(data, size);
  for (const auto& account : accounts_) account->give_back(size);
}

void MemoryPool::note(void* data, std::size_t bytes, std::size_t size, const Holder& holder) {
  const std::lock_guard lock(mutex_);
  const auto at = holders_.try_emplace(holder).first;
  blocks_.emplace(data, Block{bytes, size, at});
  Count& count = at->second;
  count.in_use += bytes;
  count.peak = std::max(count.peak, count.in_use);
  use_.in_use += bytes;
  use_.peak = std::max(use_.peak, use_.in_use);
}

void MemoryPool::release(void* data) noexcept {
  if (data == nullptr) return;
  std::size_t size = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto at = blocks_.find(data);
    const Block block = at->second;
    blocks_.erase(at);
    use_.in_use -= block.bytes;
    block.holder->second.in_use -= block.bytes;
    if (block.holder->second.in_use == 0 && holders_.size() > holders_max)
      holders_.erase(block.holder);
    size = block.size;
    if (size == size_class(block.bytes)) {
      try {
        free_[size].push_back(data);
        use_.cached += size;
        return;
      } catch (...) {  // no memory to remember it by: it goes back
      }
    }
  }
  give_back(data, size);
}

MemoryUse MemoryPool::use() const noexcept {
  const std::lock_guard lock(mutex_);
  return use_;
}

std::vector<MemoryHolder> MemoryPool::holders() const {
  std::vector<MemoryHolder> result;
  {
    const std::lock_guard lock(mutex_);
    result.reserve(holders_.size());
    for (const auto& [holder, count] : holders_)
      result.push_back({holder.second, count.in_use, count.peak});
  }
  // Equal ones by name, so that two looks at the same use say the same.
  std::ranges::sort(result, [](const MemoryHolder& a, const MemoryHolder& b) {
    return a.in_use != b.in_use ? a.in_use > b.in_use : a.label < b.label;
  });
  return result;
}

void MemoryPool::trim() noexcept {
  std::map<std::size_t, std::vector<void*>> cached;
  {
    const std::lock_guard lock(mutex_);
    cached.swap(free_);
    use_.cached = 0;
  }
  for (const auto& [size, blocks] : cached) {
    for (void* const block : blocks) give_back(block, size);
  }
}

}  // namespace heddle::dev
