// The driver's functions of memory. See standin.hpp.
#include <cstdlib>
#include <cstring>

#include "tests/cuda_standin/machine.hpp"

namespace heddle::cuda_standin {

Result cuMemPoolCreate(Pool* pool, const PoolProperties* properties) {
  ENTER(cuMemPoolCreate)
  *pool = new PoolTag{std::make_shared<PoolState>(PoolState{.device = properties->location.id})};
  ++handles;
  return success;
}
Result cuMemPoolDestroy(Pool pool) {
  const std::lock_guard lock(mutex);
  delete pool;
  --handles;
  return success;
}
Result cuMemPoolSetAccess(Pool pool, const PoolAccess* access, std::size_t count) {
  ENTER(cuMemPoolSetAccess)
  for (std::size_t k = 0; k < count; ++k) {
    const Ordinal device = access[k].location.id;
    const bool its_own = device == pool->state->device;
    // A device cannot lose the access to its own memory.
    if (its_own ? access[k].flags == 0 : !look.peers) return invalid_device;
    if (access[k].flags == 0) {
      pool->state->devices_with_access.erase(device);
    } else {
      pool->state->devices_with_access.insert(device);
    }
  }
  return success;
}
Result cuMemPoolGetAccess(int* access, Pool pool, Location* location) {
  ENTER(cuMemPoolGetAccess)
  const bool can = location->id == pool->state->device ||
                   pool->state->devices_with_access.contains(location->id);
  *access = can ? PoolAccess{}.flags : 0;
  return success;
}
Result cuMemPoolGetAttribute(Pool pool, int attribute, void* value) {
  ENTER(cuMemPoolGetAttribute)
  auto& number = *static_cast<std::uint64_t*>(value);
  if (attribute == release_threshold) {
    number = pool->state->release_threshold;
  } else if (attribute == used_bytes || attribute == reserved_bytes) {
    number = pool->state->used;  // the host's allocator keeps what is freed
  } else {
    return invalid_value;
  }
  return success;
}
Result cuMemPoolSetAttribute(Pool pool, int attribute, void* value) {
  ENTER(cuMemPoolSetAttribute)
  if (attribute != release_threshold) return invalid_value;
  pool->state->release_threshold = *static_cast<std::uint64_t*>(value);
  return success;
}
Result cuMemPoolTrimTo(Pool /*pool*/, std::size_t /*bytes*/) {
  ENTER(cuMemPoolTrimTo)
  return success;
}
Result cuMemAllocFromPoolAsync(Address* data, std::size_t bytes, Pool pool, Stream to) {
  ENTER(cuMemAllocFromPoolAsync)
  PoolState& state = *pool->state;
  if (bytes == 0) return invalid_value;
  if (bytes + taken[state.device] > look.bytes) return out_of_memory;
  void* const at = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (at == nullptr) return out_of_memory;
  std::memset(at, 0xA5, bytes);
  *data = reinterpret_cast<Address>(at) | not_of_host;
  // An idle stream allocates at once, also while streams are held.
  Stream const stream = stream_of(to);
  const bool idle = stream->progress->ended == stream->progress->asked;
  allocations[*data] = {bytes, pool->state, idle ? nullptr : stream, false};
  taken[state.device] += bytes;
  state.used += bytes;
  if (idle) return success;
  return ask(stream, [address = *data] {
    const std::lock_guard allocating(mutex);
    allocations.at(address).ordered_by = nullptr;
    return success;
  });
}
void drop_memory(Ordinal device) {
  const std::lock_guard lock(mutex);
  std::erase_if(allocations, [device](const auto& allocation) {
    const bool is_its = allocation.second.pool->device == device;
    if (is_its) std::free(in_host(allocation.first));
    return is_its;
  });
  taken[device] = 0;
}
Result cuMemFreeAsync(Address data, Stream stream) {
  ENTER(cuMemFreeAsync)
  const auto asked = allocations.find(data);
  if (asked == allocations.end() || asked->second.freed) return invalid_value;
  asked->second.freed = true;
  return ask(stream, [data] {
    const std::lock_guard freeing(mutex);
    const auto at = allocations.find(data);
    const Allocation& allocation = at->second;
    taken[allocation.pool->device] -= allocation.bytes;
    allocation.pool->used -= allocation.bytes;
    allocations.erase(at);
    std::free(in_host(data));
    return success;
  });
}
Result cuPointerGetAttribute(void* value, int attribute, Address data) {
  ENTER(cuPointerGetAttribute)
  const Allocation* const allocation = is_of_gpu(data) ? allocation_of(data) : nullptr;
  const auto after = host_allocations.upper_bound(in_host(data));
  const bool host =
      !is_of_gpu(data) && after != host_allocations.begin() &&
      data - reinterpret_cast<Address>(std::prev(after)->first) < std::prev(after)->second;
  if (allocation == nullptr && !host) return invalid_value;
  if (attribute == memory_kind) {
    *static_cast<unsigned*>(value) = host ? host_memory : device_memory;
  } else if (attribute == device_ordinal) {
    *static_cast<int*>(value) = host ? current_device() : allocation->pool->device;
  } else {
    return invalid_value;
  }
  return success;
}
Result cuMemHostAlloc(void** data, std::size_t bytes, unsigned /*flags*/) {
  std::unique_lock lock(mutex);
  if (const Result entered = enter("cuMemHostAlloc"); entered != success) return entered;
  if (look.host_memory_waits) {
    for (const Stream each : std::vector(streams)) static_cast<void>(wait_for(each, lock));
  }
  *data = std::calloc(1, bytes);
  if (*data == nullptr) return out_of_memory;
  host_allocations[*data] = bytes;
  ++handles;
  return success;
}
Result cuMemFreeHost(void* data) {
  const std::lock_guard lock(mutex);
  if (host_allocations.erase(data) == 0) return invalid_value;
  std::free(data);
  --handles;
  return success;
}
Result cuMemcpyAsync(Address to, Address from, std::size_t bytes, Stream stream) {
  ENTER(cuMemcpyAsync)
  return ask(stream, [=, own = stream_of(stream), delay = copy_delay] {
    std::this_thread::sleep_for(delay);
    {
      const std::lock_guard looking(mutex);
      if (!may_access(*own, to, bytes) || !may_access(*own, from, bytes)) return illegal_address;
    }
    std::memcpy(in_host(to), in_host(from), bytes);
    return success;
  });
}
Result cuMemsetD8Async(Address data, unsigned char value, std::size_t bytes, Stream stream) {
  ENTER(cuMemsetD8Async)
  return ask(stream, [=, own = stream_of(stream)] {
    {
      const std::lock_guard looking(mutex);
      if (!may_access(*own, data, bytes)) return illegal_address;
    }
    std::memset(in_host(data), value, bytes);
    return success;
  });
}

}  // namespace heddle::cuda_standin
