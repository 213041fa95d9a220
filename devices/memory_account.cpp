// Accounts of memory, and the table of the accounts that devices of the process share.
#include "devices/memory_account.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "devices/memory_cache.hpp"
#include "scheduler/threads/process_mutex.hpp"

namespace heddle::dev {
namespace {

/// Guards the lists of all accounts; the host's account spans the whole process. Never taken while
/// a cache's lock is held.
constinit sched::ProcessMutex lists_mutex;

}  // namespace

void MemoryAccount::join(MemoryCache& cache) {
  const std::lock_guard lock(lists_mutex);
  caches_.push_back(&cache);
}

void MemoryAccount::leave(MemoryCache& cache) noexcept {
  const std::lock_guard lock(lists_mutex);
  std::erase(caches_, &cache);
}

bool MemoryAccount::take(std::uint64_t bytes) noexcept {
  const std::uint64_t most = limit_().bytes;
  // relaxed, here and below: pairs with itself; a number that only has to add up.
  std::uint64_t taken = taken_.load(std::memory_order_relaxed);
  do {
    if (bytes > most || taken > most - bytes) return false;
    // relaxed: pairs with itself; threads hand blocks over by other means.
  } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
  return true;
}

void MemoryAccount::give_back(std::uint64_t bytes) noexcept {
  // relaxed: pairs with the exchange in take().
  taken_.fetch_sub(bytes, std::memory_order_relaxed);
}

void MemoryAccount::trim() const noexcept {
  const std::lock_guard lock(lists_mutex);
  for (MemoryCache* const cache : caches_) cache->trim(LastUses::over);
}

std::string MemoryAccount::refusal(std::uint64_t bytes) const {
  constexpr std::size_t named = 3;
  const MemoryLimit limit = limit_();
  // relaxed: pairs with the exchange in take(); a statistic.
  const std::uint64_t taken = taken_.load(std::memory_order_relaxed);
  std::string text = "a block of " + std::to_string(bytes) + " bytes is needed, and the limit is " +
                     std::to_string(limit.bytes) + " bytes (" + *limit.source +
                     "), of which blocks, rounded up, take " + std::to_string(taken);
  std::vector<std::pair<MemoryHolder, std::string>> holders;
  {
    const std::lock_guard lock(lists_mutex);
    for (const MemoryCache* const cache : caches_) {
      for (MemoryHolder& holder : cache->holders()) {
        if (holder.in_use > 0) holders.emplace_back(std::move(holder), cache->name());
      }
    }
  }
  std::ranges::sort(holders, std::ranges::greater(), [](const auto& h) { return h.first.in_use; });
  if (holders.size() > named) holders.resize(named);
  const char* before = "; most was asked for by ";
  for (const auto& [holder, device] : holders) {
    text += before + holder.label + " on " + device + " (" + std::to_string(holder.in_use) + ")";
    before = ", ";
  }
  return text;
}

namespace {

/// The account of a device, while it has an owner.
std::shared_ptr<MemoryAccount> account_of(const PhysicalDevice& device) {
  static constinit sched::ProcessMutex mutex;
  const std::lock_guard lock(mutex);
  // Never destroyed: static objects may open devices.
  static auto& accounts = *new std::map<const PhysicalDevice*, std::weak_ptr<MemoryAccount>>();
  std::erase_if(accounts, [](const auto& entry) { return entry.second.expired(); });
  auto& slot = accounts[&device];
  auto account = slot.lock();
  if (!account) {
    const Properties& properties = device.properties();
    const MemoryLimit own{
        properties.bytes_total,
        std::make_shared<const std::string>("memory of device '" + properties.name + "'")};
    slot = account = std::make_shared<MemoryAccount>([own] { return own; });
  }
  return account;
}

}  // namespace

std::vector<std::shared_ptr<MemoryAccount>> accounts_of(const PhysicalDevice& device) {
  // Never destroyed: static objects may open devices.
  static auto* const host = new std::shared_ptr<MemoryAccount>(
      std::make_shared<MemoryAccount>([] { return host_memory_limit(); }));
  std::vector<std::shared_ptr<MemoryAccount>> accounts;
  if (device.properties().memory_space == host_memory_space) accounts.push_back(*host);
  if (device.properties().bytes_total != 0) accounts.push_back(account_of(device));
  return accounts;
}

}  // namespace heddle::dev
