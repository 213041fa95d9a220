// c = a b, square: the naive nest. How well a compiler orders and tiles it is what is measured.
#include <fmt/format.h>

#include <algorithm>

#include "tools/bench/cases.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/plain_kernels.hpp"

namespace heddle::bench {
namespace {

KernelSetup setup(std::int64_t n) {
  KernelSetup made{Program("matmul"), {}, {}};
  const Tensor a = made.add("a", {n, n}), b = made.add("b", {n, n}), c = made.add("c", {n, n});
  const Index i, j, k;
  made.program << (c(i, j) = sum(a(i, k) * b(k, j)));
  return made;
}

void plain(const KernelSetup& made) {
  plain_matmul(static_cast<std::size_t>(made.tensors[0].dims()[0]), made.data(0), made.data(1),
               made.data(2));
}

}  // namespace

void add_matmul_rows(std::vector<Row>& rows) {
  for (const std::int64_t n : {128, 512}) {
    add_kernel_rows(rows, {"matmul",
                           fmt::format("matmul {0}x{0}", n),
                           1,
                           [n] { return setup(n); },
                           {in_process("plain C++ loop", Kind::rival, plain)}});
  }
}

}  // namespace heddle::bench
