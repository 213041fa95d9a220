// Rules of memory: pools in stream order, addresses, and copies.
#include <cstring>

#include "tests/driver_rules/rules_fixture.hpp"

namespace heddle::driver_rules {
namespace {

class MemoryRulesTest : public RulesTest {
 protected:
  static Address address_of(const void* data) { return reinterpret_cast<Address>(data); }
  [[nodiscard]] std::uint64_t attribute_of(Pool pool, int attribute) const {
    std::uint64_t value = ~std::uint64_t{0};
    EXPECT_CUDA(cuda.pool_attribute(pool, attribute, &value));
    return value;
  }
  [[nodiscard]] Pool new_pool() const {
    PoolProperties properties;
    properties.location.id = gpu.device;
    Pool pool = nullptr;
    EXPECT_CUDA(driver.pool_create(&pool, &properties));
    return pool;
  }
};

// Stream Ordered Memory Allocator, cuMemFreeAsync: "Inserts a free operation into hStream. The
// allocation must not be accessed after stream execution reaches the free."
TEST_F(MemoryRulesTest, WorkBeforeAFreeHasTheMemory) {
  const Work work;
  const GpuNumber y;
  GpuNumber x(42);
  const Address data = x.taken();
  Gate gate;
  gate.hold(work);
  work.launch("pass", {data, y.address()});
  EXPECT_CUDA(driver.release(data, work.stream()));
  gate.open();
  work.synchronize();
  EXPECT_EQ(y.value(), 42);
}

// Stream Ordered Memory Allocator, cuMemFreeAsync, and CU_MEMPOOL_ATTR_REUSE_*: memory is used
// again after its free: in the stream's order, after events, after completed frees, or after
// dependencies that the driver inserts.
TEST_F(MemoryRulesTest, FreedMemoryIsUsedAgainAfterItsFree) {
  const Work work, other;
  const GpuNumber y;
  GpuNumber x(42);
  const Address data = x.taken();
  Gate gate;
  gate.hold(work);
  work.launch("pass", {data, y.address()});
  EXPECT_CUDA(driver.release(data, work.stream()));
  Address again = 0;
  EXPECT_CUDA(driver.allocate(&again, sizeof(std::int64_t), gpu.pool, other.stream()));
  other.fill(again, 0xFF, sizeof(std::int64_t));
  EXPECT_CUDA(driver.release(again, other.stream()));
  gate.open();
  work.synchronize();
  other.synchronize();
  EXPECT_EQ(y.value(), 42);
}

// Stream Ordered Memory Allocator, cuMemAllocFromPoolAsync: "Basic stream ordering allows future
// work submitted into the same stream to use the allocation. Stream query, stream synchronize, and
// CUDA events can be used to guarantee that the allocation operation completes before work
// submitted in a separate stream runs."
TEST_F(MemoryRulesTest, AllocationsAreUsedInStreamOrder) {
  const Work work, other;
  const GpuNumber y;
  Gate gate;
  gate.hold(work);
  Address data = 0;
  EXPECT_CUDA(driver.allocate(&data, sizeof(std::int64_t), gpu.pool, work.stream()));
  work.fill(data, 0, sizeof(std::int64_t));
  const Mark allocated(work);
  other.wait(allocated.event());
  other.launch("add", {data, 9});
  other.launch("pass", {data, y.address()});
  EXPECT_CUDA(driver.release(data, other.stream()));
  gate.open();
  other.synchronize();
  EXPECT_EQ(y.value(), 9);
}

// CUDA C++ Programming Guide, Device Memory Accesses: "Any address of a variable residing in global
// memory or returned by one of the memory allocation routines [...] is always aligned to at least
// 256 bytes."
TEST_F(MemoryRulesTest, AllocationsAreAligned) {
  for (int k = 0; k < 20; ++k) EXPECT_EQ(GpuNumber().address() % 256, 0u);
}

// Stream Ordered Memory Allocator, cuMemAllocFromPoolAsync returns CUDA_ERROR_OUT_OF_MEMORY; Error
// Handling: an error that is not of the context leaves it usable.
TEST_F(MemoryRulesTest, TooMuchIsRefusedAndNothingElse) {
  std::size_t bytes = 0;
  EXPECT_CUDA(driver.device_bytes(&bytes, gpu.device));
  const Work work;
  Address data = 0;
  EXPECT_EQ(driver.allocate(&data, 4 * bytes, gpu.pool, work.stream()), out_of_memory);
  const GpuNumber x;
  work.launch("add", {x.address(), 3});
  work.synchronize();
  EXPECT_EQ(x.value(), 3);
}

// Stream Ordered Memory Allocator, cuMemPoolDestroy: "If any pointers obtained from this pool
// haven't been freed [...] the function will return immediately and the resources associated with
// the pool will be released automatically once there are no more outstanding allocations."
TEST_F(MemoryRulesTest, MemoryOutlivesItsPool) {
  const Pool pool = new_pool();
  const Work work;
  const GpuNumber y;
  Address data = 0;
  EXPECT_CUDA(driver.allocate(&data, sizeof(std::int64_t), pool, work.stream()));
  EXPECT_CUDA(driver.pool_destroy(pool));
  work.fill(data, 0, sizeof(std::int64_t));
  work.launch("add", {data, 8});
  work.launch("pass", {data, y.address()});
  EXPECT_CUDA(driver.release(data, work.stream()));
  work.synchronize();
  EXPECT_EQ(y.value(), 8);
}

// Stream Ordered Memory Allocator, cuMemPoolSetAttribute: CU_MEMPOOL_ATTR_RELEASE_THRESHOLD is
// "default 0"; cuMemPoolTrimTo: "The allocator cannot release OS allocations that back outstanding
// asynchronous allocations."
TEST_F(MemoryRulesTest, PoolsCountAndKeepTheirMemory) {
  const Pool pool = new_pool();
  EXPECT_EQ(attribute_of(pool, release_threshold), 0u);
  EXPECT_EQ(attribute_of(pool, used_bytes), 0u);
  std::uint64_t threshold = 1 << 20;
  EXPECT_CUDA(cuda.set_pool_attribute(pool, release_threshold, &threshold));
  EXPECT_EQ(attribute_of(pool, release_threshold), threshold);

  const Work work;
  const GpuNumber y;
  Address data = 0;
  constexpr std::size_t bytes = 1 << 16;
  EXPECT_CUDA(driver.allocate(&data, bytes, pool, work.stream()));
  work.fill(data, 1, bytes);
  work.synchronize();
  EXPECT_GE(attribute_of(pool, used_bytes), bytes);
  EXPECT_GE(attribute_of(pool, reserved_bytes), attribute_of(pool, used_bytes));
  EXPECT_CUDA(cuda.pool_trim(pool, 0));
  EXPECT_GE(attribute_of(pool, reserved_bytes), bytes);
  work.launch("pass", {data, y.address()});
  EXPECT_CUDA(driver.release(data, work.stream()));
  work.synchronize();
  EXPECT_EQ(y.value(), 0x0101'0101'0101'0101);
  EXPECT_EQ(attribute_of(pool, used_bytes), 0u);
  EXPECT_CUDA(cuda.pool_trim(pool, 0));
  EXPECT_EQ(attribute_of(pool, reserved_bytes), 0u);
  EXPECT_CUDA(driver.pool_destroy(pool));
}

// Unified Addressing, cuPointerGetAttribute: CU_POINTER_ATTRIBUTE_MEMORY_TYPE is the "physical
// location", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL the device of an address.
TEST_F(MemoryRulesTest, AddressesTellTheirMemory) {
  const GpuNumber x;
  const HostNumber host;
  unsigned kind = 0;
  int device = -1;
  EXPECT_CUDA(cuda.pointer_attribute(&kind, memory_kind, x.address()));
  EXPECT_EQ(kind, static_cast<unsigned>(device_memory));
  EXPECT_CUDA(cuda.pointer_attribute(&device, device_ordinal, x.address()));
  EXPECT_EQ(device, gpu.device);
  EXPECT_CUDA(cuda.pointer_attribute(&kind, memory_kind, host.address()));
  EXPECT_EQ(kind, static_cast<unsigned>(host_memory));
}

// Memory Management, cuMemcpyAsync: "dst and src are base pointers of the destination and source,
// respectively. [...] Note that this function infers the type of the transfer (host to host, host
// to device, device to device, or device to host) from the pointer values."
TEST_F(MemoryRulesTest, CopiesFindTheirDirection) {
  const Work work;
  const GpuNumber x, y;
  const HostNumber pinned;
  std::int64_t from = 77, to = 0;
  work.copy(x.address(), address_of(&from));
  work.copy(y.address(), x.address());
  work.copy(pinned.address(), y.address());
  work.copy(x.address(), pinned.address());
  work.copy(address_of(&to), x.address());
  work.synchronize();
  EXPECT_EQ(pinned.value(), 77);
  EXPECT_EQ(to, 77);
}

// Unified Addressing: "All host memory allocated through all devices using cuMemAllocHost() and
// cuMemHostAlloc() is always directly accessible from all devices that support unified addressing.
// This is the case regardless of whether or not the flags CU_MEMHOSTALLOC_PORTABLE and
// CU_MEMHOSTALLOC_DEVICEMAP are specified. The pointer value through which allocated host memory
// may be accessed in kernels on all devices that support unified addressing is the same as the
// pointer value through which that memory is accessed on the host".
TEST_F(MemoryRulesTest, KernelsAccessHostMemory) {
  const HostNumber host;
  for (const RuledGpu& each : cuda.gpus) {
    const OnGpu current(each);
    int unified = 0;
    EXPECT_CUDA(driver.device_attribute(&unified, unified_addressing, each.device));
    EXPECT_EQ(unified, 1);
    const Work work(stream_non_blocking, each);
    host.value() = 5;
    work.launch("add", {host.address(), 1});
    work.synchronize();
    EXPECT_EQ(host.value(), 6);
  }
}

// Memory Management, cuMemsetD8Async: "Sets the memory range of N 8-bit values to the specified
// value uc."
TEST_F(MemoryRulesTest, FillsAreOfBytes) {
  const Work work;
  const GpuNumber x(-1);
  work.fill(x.address() + 1, 0, 2);
  work.synchronize();
  EXPECT_EQ(x.value(), ~std::int64_t{0xFF'FF00});
}

// Stream Ordered Memory Allocator, cuMemPoolSetAccess: it "controls visibility of pools between
// devices"; by default a pool is accessible from its own device.
TEST_F(MemoryRulesTest, PoolsAreOfTheirDeviceUntilShared) {
  NEEDS_TWO_GPUS();
  const RuledGpu& other = cuda.gpus[1];
  const Pool pool = new_pool();
  Location own{.id = gpu.device}, elsewhere{.id = other.device};
  int access = -1;
  EXPECT_CUDA(cuda.pool_access_of(&access, pool, &own));
  EXPECT_EQ(access, PoolAccess{}.flags);
  EXPECT_CUDA(cuda.pool_access_of(&access, pool, &elsewhere));
  EXPECT_EQ(access, 0);

  int can = 0;
  EXPECT_CUDA(driver.device_reaches(&can, other.device, gpu.device));
  if (can != 0) {
    const PoolAccess shared{.location = elsewhere};
    EXPECT_CUDA(driver.pool_access(pool, &shared, 1));
    EXPECT_CUDA(cuda.pool_access_of(&access, pool, &elsewhere));
    EXPECT_EQ(access, PoolAccess{}.flags);
    const Work work;
    Address data = 0;
    EXPECT_CUDA(driver.allocate(&data, sizeof(std::int64_t), pool, work.stream()));
    work.fill(data, 0, sizeof(std::int64_t));
    work.synchronize();
    {
      const OnGpu current(other);
      const Work there(stream_non_blocking, other);
      const GpuNumber x(0, other);
      there.launch("add", {data, 4});
      there.copy(x.address(), data);
      there.synchronize();
      EXPECT_EQ(x.value(), 4);
    }
    EXPECT_CUDA(driver.release(data, work.stream()));
    work.synchronize();
  }
  EXPECT_CUDA(driver.pool_destroy(pool));
}

}  // namespace
}  // namespace heddle::driver_rules
