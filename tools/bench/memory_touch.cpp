// The benefit of a memory pool: writing a block fresh from the system against writing a reused
// block.
#include <sys/mman.h>

#include <cstring>

#include "heddle/status.hpp"
#include "tools/bench/cases.hpp"

namespace heddle::bench {
namespace {

constexpr std::size_t block_bytes = std::size_t{4} << 20;

class Block {
 public:
  Block()
      : data_(mmap(nullptr, block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                   0)) {
    if (data_ == MAP_FAILED) throw Error(ErrorCode::exhausted, "no memory for a block of 4 MiB");
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { munmap(data_, block_bytes); }
  void write() const {
    std::memset(data_, 1, block_bytes);
    asm volatile("" ::"r"(data_) : "memory");  // prevents removal of the stores
  }

 private:
  void* data_;
};

}  // namespace

void add_touch_rows(std::vector<Row>& rows) {
  Contender fresh{"fresh from the system", Kind::limit, [](nanoseconds length, Samples&) {
                    return timed_loop(length, 1, [](std::size_t) { Block().write(); });
                  }};
  Contender reused{"reused", Kind::limit, [](nanoseconds length, Samples&) {
                     const Block block;
                     block.write();
                     return timed_loop(length, 4, [&block](std::size_t count) {
                       for (std::size_t k = 0; k < count; ++k) block.write();
                     });
                   }};
  rows.push_back(Case{"touch", "write 4 MiB", "block", std::move(fresh), std::move(reused)});
}

}  // namespace heddle::bench
