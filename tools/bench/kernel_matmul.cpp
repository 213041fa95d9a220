// c = a b, square: how well the schedule of a contraction uses registers and caches. Two
// alternatives know the processor: the peak, and a library written by hand.
#include <fmt/format.h>

#include <algorithm>

#include "tools/bench/cases.hpp"
#include "tools/bench/kernel_products.hpp"
#include "tools/bench/plain_kernels.hpp"
#include "tools/bench/programs.hpp"
#include "tools/bench/rival_openblas.hpp"

namespace heddle::bench {
namespace {

void plain(const KernelSetup& made) {
  plain_matmul(static_cast<std::size_t>(made.tensors[0].dims()[0]), made.data(0), made.data(1),
               made.data(2));
}

}  // namespace

void add_matmul_rows(std::vector<Row>& rows) {
  for (const int n : {16, 32, 64, 128, 256, 512, 1024, 2048}) {
    const std::int64_t count = std::int64_t{n} * n * n;
    std::vector<Alternative> others = multiply_add_limits(count);
    others.push_back(openblas({n, n, n}));
    // The naive nest takes seconds for large sizes.
    if (n == 128 || n == 512) others.push_back(in_process("plain C++ loop", Kind::rival, plain));
    add_kernel_rows(rows, {"matmul", fmt::format("matmul {0}x{0}", n), calls_for(count),
                           [n] { return product_of({n, n, n}); }, others});
  }
}

}  // namespace heddle::bench
