// relu(a * b + c) * d: five streams, no reuse. From L1 the row measures the code, from memory the
// machine.
#include <fmt/format.h>

#include <algorithm>

#include "tools/bench/cases.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/limit_kernels.hpp"
#include "tools/bench/plain_kernels.hpp"
#include "tools/bench/programs.hpp"

namespace heddle::bench {
namespace {

struct Size {
  const char* place;
  std::int64_t count;  ///< floats per array; five arrays
  bool stream;         ///< results are not kept in caches
};
constexpr Size sizes[] = {{"L1 (8 KiB arrays)", 2048, false},
                          {"L2 (128 KiB arrays)", 32768, false},
                          {"memory (64 MiB arrays)", 16 << 20, true}};

std::size_t count_of(const KernelSetup& made) {
  return static_cast<std::size_t>(made.arrays[0].num_elements());
}

void plain_map(const KernelSetup& made) {
  plain_elementwise(count_of(made), made.data(0), made.data(1), made.data(2), made.data(3),
                    made.data(4));
}

/// Past the caches where the arrays do not fit into them.
template <bool stream>
void limit(const KernelSetup& made) {
  limit_elementwise(count_of(made), made.data(0), made.data(1), made.data(2), made.data(3),
                    made.data(4), stream);
}

}  // namespace

void add_elementwise_rows(std::vector<Row>& rows) {
  for (const auto& [place, count, stream] : sizes) {
    const auto calls = static_cast<std::size_t>(std::max<std::int64_t>(1, 200'000 / count));
    add_kernel_rows(rows,
                    {"elementwise",
                     fmt::format("relu(ab+c)d, {}", place),
                     calls,
                     [n = count] { return elementwise_of(n); },
                     {in_process(hand_written, Kind::limit, stream ? limit<true> : limit<false>),
                      in_process("plain C++ loop", Kind::rival, plain_map)}});
  }
}

}  // namespace heddle::bench
