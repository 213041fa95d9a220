// The cost of taking a block that the pool has and of giving it back, against common allocators.
// One thread. mimalloc is opened, not linked: a linked mimalloc would replace malloc for the whole
// process.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "devices/memory_cache.hpp"
#include "heddle/status.hpp"
#include "tools/bench/cases.hpp"

namespace heddle::bench {
namespace {

constexpr std::size_t pairs = 256;  // between two readings of the clock

void somebody_uses(void* data) { asm volatile("" ::"r"(data) : "memory"); }

/// Memory of one device on this machine.
class Pooled {
 public:
  void take_and_release(std::size_t bytes) {
    dev::BlockRef block;
    throw_if_failed(cache_.allocate(bytes, &block, holder_, dev::LastUses::ordered));
    somebody_uses(block->data);
    cache_.release(std::move(block));
  }

 private:
  dev::MemoryCache cache_{
      std::make_shared<dev::MemoryPool>(), dev::make_cpu_device(), {"bench", 0, {}}};
  const dev::Holder holder_{1, "tensor 'x' f32[1024]"};
};

struct Allocator {
  void* (*allocate)(std::size_t bytes);
  void (*release)(void* data);
};

/// Throws unavailable.
const Allocator& mimalloc() {
  static const Allocator found = [] {
    void* const library = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      throw Error(ErrorCode::unavailable,
                  "there is no libmimalloc.so.2: see tools/bench/rivals.txt");
    return Allocator{reinterpret_cast<void* (*)(std::size_t)>(dlsym(library, "mi_malloc")),
                     reinterpret_cast<void (*)(void*)>(dlsym(library, "mi_free"))};
  }();
  return found;
}

Contender rival(const char* name, Kind kind, std::size_t bytes, const Allocator& (*find)()) {
  return {name, kind, [bytes, find](nanoseconds length, Samples&) {
            const Allocator& with = find();
            return timed_loop(length, pairs, [&](std::size_t count) {
              for (std::size_t k = 0; k < count; ++k) {
                void* const data = with.allocate(bytes);
                somebody_uses(data);
                with.release(data);
              }
            });
          }};
}

const Allocator& system_allocator() {
  static constexpr Allocator of_libc{&std::malloc, &std::free};
  return of_libc;
}

}  // namespace

void add_pool_rows(std::vector<Row>& rows) {
  const auto pool = std::make_shared<Pooled>();
  for (const std::size_t kib : {std::size_t{4}, std::size_t{1024}}) {
    const std::size_t bytes = kib << 10;
    const Contender heddle{"heddle", Kind::heddle, [pool, bytes](nanoseconds length, Samples&) {
                             return timed_loop(length, pairs, [&](std::size_t count) {
                               for (std::size_t k = 0; k < count; ++k)
                                 pool->take_and_release(bytes);
                             });
                           }};
    const std::string workload = fmt::format("pool hit, {} KiB", kib);
    rows.push_back(Case{"pool", workload, "pair", heddle,
                        rival("malloc", Kind::limit, bytes, &system_allocator)});
    rows.push_back(
        Case{"pool", workload, "pair", heddle, rival("mimalloc", Kind::rival, bytes, &mimalloc)});
  }
}

}  // namespace heddle::bench
