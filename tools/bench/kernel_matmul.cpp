// c = a b, square: how well the schedule of a contraction uses registers and caches. Both
// alternatives that know the processor are there: its peak, and a library written by hand.
#include <fmt/format.h>

#include <algorithm>

#include "tools/bench/cases.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/limit_kernels.hpp"
#include "tools/bench/plain_kernels.hpp"
#include "tools/bench/rival_openblas.hpp"

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

/// As many multiply-adds as the product takes.
template <void (*multiply_adds)(std::size_t)>
Prepared prepare_peak(const KernelSetup& made) {
  const auto n = static_cast<std::size_t>(made.tensors[0].dims()[0]);
  const std::size_t rounds = n * n * n / limit_multiply_adds_per_round;
  return {[rounds](std::size_t count) {
    const auto start = Clock::now();
    multiply_adds(rounds * count);
    return ns_between(start, Clock::now()) / static_cast<double>(count);
  }};
}

}  // namespace

void add_matmul_rows(std::vector<Row>& rows) {
  for (const std::int64_t n : {16, 32, 64, 128, 256, 512, 1024, 2048}) {
    std::vector<Alternative> others;
    if (limits_are_written()) {
      others.push_back(
          {"multiply-add peak", Kind::limit, prepare_peak<limit_multiply_adds>, false});
      others.push_back({"multiply-adds from L1", Kind::limit,
                        prepare_peak<limit_multiply_adds_from_cache>, false});
    }
    if (const auto blas = openblas()) others.push_back(*blas);
    // The naive nest takes seconds where sizes grow.
    if (n == 128 || n == 512) others.push_back(in_process("plain C++ loop", Kind::rival, plain));
    const auto calls = static_cast<std::size_t>((std::int64_t{4} << 20) / (n * n * n) + 1);
    add_kernel_rows(rows, {"matmul", fmt::format("matmul {0}x{0}", n), calls,
                           [n] { return setup(n); }, others});
  }
}

}  // namespace heddle::bench
